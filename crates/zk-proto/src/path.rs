//! The paths that servers accept (`PathUtils.validatePath`).

use core::fmt;

named! {
    /// The reason why a path is invalid.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum PathError {
        /// The path is empty.
        Empty,
        /// The path does not start with `/`.
        Relative,
        /// The path ends with `/`.
        TrailingSlash,
        /// A name is empty: two slashes follow one another. Holds the offset of the second in
        /// bytes.
        EmptyComponent(usize),
        /// A name is `.` or `..`. Holds the offset of the name in bytes.
        DotComponent(usize),
        /// A character is forbidden. Holds its offset in bytes.
        ///
        /// ZooKeeper forbids control characters, private-use characters and those beyond the first
        /// plane.
        ForbiddenCharacter(usize),
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a path must not be empty"),
            Self::Relative => f.write_str("a path must start with '/'"),
            Self::TrailingSlash => f.write_str("a path must not end with '/'"),
            Self::EmptyComponent(at) => write!(f, "a name in a path must not be empty (byte {at})"),
            Self::DotComponent(at) => {
                write!(f, "a name in a path must not be '.' or '..' (byte {at})")
            }
            Self::ForbiddenCharacter(at) => {
                write!(f, "the character at byte {at} is not allowed in a path")
            }
        }
    }
}

impl core::error::Error for PathError {}

/// A valid path of a node, checked once by [`parse`](Self::parse).
///
/// Records contain plain strings instead, since a peer can send an invalid path, and a proxy must
/// forward it unchanged.
///
/// ```
/// use zk_proto::path::{PathError, ZnodePath};
///
/// let path = ZnodePath::parse("/locks/printer")?;
/// assert_eq!((path.name(), path.as_str()), ("printer", "/locks/printer"));
/// assert!(path.ancestors().map(ZnodePath::as_str).eq(["/locks", "/"]));
/// assert_eq!(ZnodePath::parse("/locks//printer"), Err(PathError::EmptyComponent(7)));
/// # Ok::<(), PathError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZnodePath<'a>(&'a str);

impl ZnodePath<'static> {
    /// The path of the root.
    pub const ROOT: Self = Self("/");
}

impl<'a> ZnodePath<'a> {
    /// Checks that a string is the path of a node.
    ///
    /// # Errors
    ///
    /// Returns the first violation.
    pub fn parse(path: &'a str) -> Result<Self, PathError> {
        match path.strip_prefix('/') {
            Some("") => Ok(Self(path)),
            Some(_) if path.ends_with('/') => Err(PathError::TrailingSlash),
            // Boards have no vectors, and no room.
            Some(_) if cfg!(not(target_os = "none")) && is_plain(path) => Ok(Self(path)),
            Some(names) => validate_names(names).map(|()| Self(path)),
            None if path.is_empty() => Err(PathError::Empty),
            None => Err(PathError::Relative),
        }
    }

    /// Returns the path as a string, as records contain it.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Returns the name of the node, as the list of its parent's children shows it.
    ///
    /// The name of the root is empty.
    pub fn name(self) -> &'a str {
        split(self.0).map_or("", |(_, name)| name)
    }

    /// Returns the path of the parent, or `None` for the root.
    pub fn parent(self) -> Option<Self> {
        parent(self.0).map(Self)
    }

    /// Returns the paths of all ancestors, from the parent to the root.
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        core::iter::successors(self.parent(), |path| path.parent())
    }
}

impl fmt::Display for ZnodePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl<'a> TryFrom<&'a str> for ZnodePath<'a> {
    type Error = PathError;

    fn try_from(path: &'a str) -> Result<Self, PathError> {
        Self::parse(path)
    }
}

/// Checks that `path` is the path of a node.
///
/// # Errors
///
/// Returns the first violation.
///
/// ```
/// use zk_proto::path::{self, PathError};
///
/// assert_eq!(path::validate("/locks/printer"), Ok(()));
/// assert_eq!(path::validate("/locks/"), Err(PathError::TrailingSlash));
/// ```
pub fn validate(path: &str) -> Result<(), PathError> {
    ZnodePath::parse(path).map(drop)
}

/// Checks that `path` is valid for the creation of a sequential node.
///
/// Unlike in [`validate`], the last name may be empty, `.` or `..`, since the server appends a
/// sequence number to it.
///
/// # Errors
///
/// Returns the first violation.
///
/// ```
/// use zk_proto::path;
///
/// assert!(path::validate_sequential("/locks/").is_ok());
/// assert!(path::validate("/locks/").is_err());
/// ```
pub fn validate_sequential(path: &str) -> Result<(), PathError> {
    let Some((parent, prefix)) = path.rsplit_once('/') else {
        return validate(path);
    };
    if parent.ends_with('/') {
        return Err(PathError::EmptyComponent(parent.len()));
    }
    if !parent.is_empty() {
        validate(parent)?;
    }
    validate_characters(prefix.as_bytes(), parent.len() + 1)
}

/// Returns whether a path is obviously valid.
///
/// That is the case if it is printable ASCII, and no name is empty or starts with a dot. The loops
/// have no early exit, so that the compiler can vectorize them.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let printable = bytes.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    let names = pairs.fold(true, |all, (first, second)| {
        all & !((*first == b'/') & ((*second == b'/') | (*second == b'.')))
    });
    printable & names
}

fn validate_names(names: &str) -> Result<(), PathError> {
    let mut start = 1;
    // Bytes take less code than characters.
    for name in names.as_bytes().split(|byte| *byte == b'/') {
        match name {
            b"" => return Err(PathError::EmptyComponent(start)),
            b"." | b".." => return Err(PathError::DotComponent(start)),
            _ => {}
        }
        validate_characters(name, start)?;
        start += name.len() + 1;
    }
    Ok(())
}

/// Checks the characters of a name, in UTF-8, that starts at byte `start` of its path.
fn validate_characters(name: &[u8], start: usize) -> Result<(), PathError> {
    let mut rest = name;
    while let [_, next @ ..] = rest {
        if starts_forbidden(rest) {
            return Err(PathError::ForbiddenCharacter(start + name.len() - rest.len()));
        }
        rest = next;
    }
    Ok(())
}

/// Returns whether UTF-8 starts with a forbidden character.
fn starts_forbidden(utf8: &[u8]) -> bool {
    // Java checks UTF-16 units, so everything beyond the first plane is a forbidden surrogate.
    matches!(
        utf8,
        // U+0000 to U+001F, and U+007F to U+009F.
        [0..=0x1f | 0x7f, ..] | [0xc2, 0x80..=0x9f, ..]
            // U+E000 to U+F8FF.
            | [0xee, ..] | [0xef, 0x80..=0xa3, ..]
            // U+FFF0 and all behind.
            | [0xef, 0xbf, 0xb0..=0xff, ..] | [0xf0..=0xff, ..]
    )
}

/// Splits a path at its last slash. The search of the standard library takes more code.
fn split(path: &str) -> Option<(&str, &str)> {
    let slash = path.bytes().rposition(|byte| byte == b'/')?;
    Some((path.get(..slash)?, path.get(slash + 1..)?))
}

/// Returns the last part of a path, behind its last slash. Without a slash that is all of it.
///
/// ```
/// use zk_proto::path;
///
/// assert_eq!(path::name("/locks/lock-0000000001"), "lock-0000000001");
/// assert_eq!(path::name("lock"), "lock");
/// ```
pub fn name(path: &str) -> &str {
    split(path).map_or(path, |(_, name)| name)
}

/// Returns the path of the parent of `path`, or `None` for the root.
///
/// ```
/// use zk_proto::path;
///
/// assert_eq!(path::parent("/app/config"), Some("/app"));
/// assert_eq!(path::parent("/"), None);
/// ```
pub fn parent(path: &str) -> Option<&str> {
    match split(path)? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}

/// Returns the path of the child `name` of `parent`.
///
/// ```
/// use zk_proto::path;
///
/// assert_eq!(path::child("/", "app"), "/app");
/// assert_eq!(path::child("/app", "config"), "/app/config");
/// ```
#[cfg(feature = "alloc")]
pub fn child(parent: &str, name: &str) -> alloc::string::String {
    let parent = if parent == "/" { "" } else { parent };
    let mut path = alloc::string::String::with_capacity(parent.len() + 1 + name.len());
    path.push_str(parent);
    path.push('/');
    path.push_str(name);
    path
}

#[cfg(test)]
mod tests {
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
        let names: Vec<_> =
            [path].into_iter().chain(path.ancestors()).map(ZnodePath::name).collect();
        assert_eq!(names, ["c", "b", "a", ""]);
        assert_eq!(path.ancestors().last(), Some(ZnodePath::ROOT));
        assert_eq!(ZnodePath::ROOT.parent(), None);
    }
}
