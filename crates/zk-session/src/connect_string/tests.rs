use proptest::prelude::*;

use super::*;

#[test]
fn an_error_names_the_server_and_the_place() {
    for (text, message) in [
        ("", "a host name is missing"),
        ("a:0", "\"a:0\": the port is not a number from 1 to 65535"),
        ("[::1", "\"[::1\": an IPv6 address is written as [address]:port"),
        ("a b", "invalid character ' ' in a host name, at byte 1"),
    ] {
        assert_eq!(
            text.parse::<ConnectString>().map_err(|error| error.to_string()),
            Err(message.to_string())
        );
    }
}

#[test]
fn invalid_strings_are_rejected_with_the_reason() {
    for (text, error) in [
        ("", ConnectStringError::NoHost),
        (":2181", ConnectStringError::NoHost),
        (",", ConnectStringError::NoHost),
        (" , ", ConnectStringError::NoHost),
        ("/chroot", ConnectStringError::NoHost),
        ("a:", ConnectStringError::Port("a:".to_string())),
        ("a:0", ConnectStringError::Port("a:0".to_string())),
        ("a:65536", ConnectStringError::Port("a:65536".to_string())),
        ("a,b:port", ConnectStringError::Port("b:port".to_string())),
        ("[::1]2181", ConnectStringError::Port("[::1]2181".to_string())),
        ("::1:2181", ConnectStringError::Brackets("::1:2181".to_string())),
        ("[::1", ConnectStringError::Brackets("[::1".to_string())),
        ("[[::1]", ConnectStringError::Brackets("[[::1]".to_string())),
        ("[[x]", ConnectStringError::Brackets("[[x]".to_string())),
        ("[]:1", ConnectStringError::Brackets("[]:1".to_string())),
        ("a]", ConnectStringError::Brackets("a]".to_string())),
        ("a[:1", ConnectStringError::Brackets("a[:1".to_string())),
        ("a:+1", ConnectStringError::Port("a:+1".to_string())),
        ("user@host", ConnectStringError::Character { character: '@', position: 4 }),
        ("a, b\0", ConnectStringError::Character { character: '\0', position: 4 }),
        ("a, b c", ConnectStringError::Character { character: ' ', position: 4 }),
        ("a\nb", ConnectStringError::Character { character: '\n', position: 1 }),
        ("a :1", ConnectStringError::Character { character: ' ', position: 1 }),
        ("a//b", ConnectStringError::Chroot(PathError::EmptyComponent(1))),
        ("a/b/", ConnectStringError::Chroot(PathError::TrailingSlash)),
    ] {
        assert_eq!(text.parse::<ConnectString>(), Err(error), "{text}");
    }
}

#[test]
fn blanks_around_servers_and_empty_servers_are_ignored_as_by_javas_client() {
    for text in ["a:1,b:2/c", " a:1 , b:2 /c", "a:1,b:2,/c", "a:1,,b:2/c", ",a:1,\tb:2/c"] {
        let at: ConnectString = text.parse().expect(text);
        assert_eq!(at.to_string(), "a:1,b:2/c", "{text}");
    }
}

proptest! {
    #[test]
    fn a_parsed_string_survives_display_and_parse(
        text in prop_oneof![
            "\\PC{0,20}",
            "[ab,: @\\[\\]/0-9.\0\t-]{0,16}",
            "(\\[(::1|fe80::1%lo|x)\\]|[a-z]{1,3})(:[0-9]{1,5})?( ?, ?[a-z]{0,3}){0,3}(/[a-z]{1,3})?",
        ],
    ) {
        if let Ok(at) = text.parse::<ConnectString>() {
            prop_assert_eq!(at.to_string().parse(), Ok(at), "{}", text);
        }
    }
}

#[test]
fn a_slash_alone_is_no_chroot() {
    let at: ConnectString = "a/".parse().expect("valid");
    assert_eq!(at.chroot, Chroot::default());
}
