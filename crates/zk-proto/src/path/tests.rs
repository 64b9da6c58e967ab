use alloc::format;
use alloc::vec::Vec;

use super::*;

#[test]
fn an_error_says_what_is_wrong_and_where() {
    for (path, message) in [
        ("", "a path must not be empty"),
        ("a", "a path must start with '/'"),
        ("/a/", "a path must not end with '/'"),
        ("/a//b", "a name in a path must not be empty (byte 3)"),
        ("/a/./b", "a name in a path must not be '.' or '..' (byte 3)"),
        ("/a\0", "the character at byte 2 is not allowed in a path"),
    ] {
        let error = ZnodePath::try_from(path).expect_err(message);
        assert_eq!(format!("{error}"), message);
    }
    assert_eq!(ZnodePath::try_from("/a").map(|path| format!("{path:>4}")), Ok("  /a".into()));
}

#[test]
fn what_can_name_a_node() {
    for path in ["/", "/a", "/a/b", "/.a/..b/c.", "/zookeeper/config", "/ü/漢"] {
        assert_eq!(validate(path), Ok(()), "{path}");
    }
    for (path, error) in [
        ("", PathError::Empty),
        ("a", PathError::Relative),
        ("/a/", PathError::TrailingSlash),
        ("//", PathError::TrailingSlash),
        ("//a", PathError::EmptyComponent(1)),
        ("/a//b", PathError::EmptyComponent(3)),
        ("/a/./b", PathError::DotComponent(3)),
        ("/..", PathError::DotComponent(1)),
        ("/a\0", PathError::ForbiddenCharacter(2)),
        ("/a/\u{1f}", PathError::ForbiddenCharacter(3)),
        ("/\u{7f}", PathError::ForbiddenCharacter(1)),
        ("/\u{e000}", PathError::ForbiddenCharacter(1)),
        ("/\u{ffff}", PathError::ForbiddenCharacter(1)),
        ("/x😀", PathError::ForbiddenCharacter(2)),
    ] {
        assert_eq!(validate(path), Err(error), "{path}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many paths for Miri")]
fn what_passes_at_a_glance_passes_a_closer_look() {
    let ascii = || (0..=0x80_u8).map(char::from);
    for (a, b) in ascii().flat_map(|a| ascii().map(move |b| (a, b))) {
        let paths = [format!("/{a}{b}"), format!("/{a}{b}z"), format!("/app/{a}{b}/z")];
        for path in paths.iter().filter(|path| !path.ends_with('/') && is_plain(path)) {
            assert_eq!(validate_names(&path[1..]), Ok(()), "{path:?}");
        }
    }
    assert!(is_plain("/a/b.c/~ "));
}

#[test]
#[cfg_attr(miri, ignore = "too many characters for Miri")]
fn forbidden_characters_are_found_in_utf8() {
    for c in '\0'..=char::MAX {
        let is_forbidden = matches!(
            c,
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..
        );
        let result = match is_forbidden {
            true => Err(PathError::ForbiddenCharacter(2)),
            false => Ok(()),
        };
        let mut bytes = [b'a'; 6];
        let end = 1 + c.encode_utf8(&mut bytes[1..]).len();
        assert_eq!(validate_characters(&bytes[..=end], 1), result, "{c:?}");
    }
}

#[test]
fn a_sequential_path_is_valid_if_it_is_with_a_number_appended() {
    for path in ["/", "/a/", "/a/n-", "/n-", "/a/.", "/.."] {
        assert_eq!(validate_sequential(path), Ok(()), "{path}");
    }
    for (path, error) in [
        ("", PathError::Empty),
        ("a", PathError::Relative),
        ("a/", PathError::Relative),
        ("//", PathError::EmptyComponent(1)),
        ("//n-", PathError::EmptyComponent(1)),
        ("/a//", PathError::EmptyComponent(3)),
        ("/a/../", PathError::DotComponent(3)),
        ("/a/n\0", PathError::ForbiddenCharacter(4)),
        ("/\0/n-", PathError::ForbiddenCharacter(1)),
    ] {
        assert_eq!(validate_sequential(path), Err(error), "{path}");
        assert!(validate(&format!("{path}0000000000")).is_err(), "{path}");
    }
}

#[test]
fn a_path_is_a_parent_and_a_name() {
    for (path, above, last) in [("/a", "/", "a"), ("/a/b", "/a", "b")] {
        assert_eq!((parent(path), name(path)), (Some(above), last));
        #[cfg(feature = "alloc")]
        assert_eq!(child(above, last), path);
    }
    assert_eq!((parent("/"), name("/"), name("a")), (None, "", "a"));
}

#[test]
fn what_is_above_a_path_is_one_too() {
    let path = ZnodePath::parse("/a/b/c").expect("a path");
    for path in path.ancestors() {
        assert_eq!(ZnodePath::parse(path.as_str()), Ok(path));
    }
    let names: Vec<_> = [path].into_iter().chain(path.ancestors()).map(ZnodePath::name).collect();
    assert_eq!(names, ["c", "b", "a", ""]);
    assert_eq!(path.ancestors().last(), Some(ZnodePath::ROOT));
    assert_eq!(ZnodePath::ROOT.parent(), None);
}
