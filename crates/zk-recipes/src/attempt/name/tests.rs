use alloc::format;

use super::*;

const DASHED: &str = "1f0e8c1a-7a53-4c0f-9d9e-0a1b2c3d4e5f";
const PLAIN: &str = "1f0e8c1a7a534c0f9d9e0a1b2c3d4e5f";

const ALL: [Scheme; 9] = [
    Scheme::CURATOR_MUTEX,
    Scheme::CURATOR_READ_WRITE,
    Scheme::CURATOR_LEADER,
    Scheme::CURATOR_LEASE,
    Scheme::GO_ZK,
    Scheme::KAZOO_MUTEX,
    Scheme::KAZOO_READ_WRITE,
    Scheme::ZOOKEEPER_RECIPE,
    Scheme::private("mine-", Some("ours-")),
];

fn guid() -> Uuid {
    Uuid::try_parse(DASHED).expect("a guid")
}

fn read(scheme: Scheme, child: &str) -> Option<(LockMode, i32)> {
    scheme.parse(child).map(|name| (name.mode, name.sequence.0))
}

#[test]
fn names_of_all_implementations_are_parsed() {
    for (suffix, number) in
        [("0000000007", 7), ("2147483647", i32::MAX), ("-2147483648", i32::MIN), ("-000000001", -1)]
    {
        for (scheme, before, mode) in [
            (Scheme::CURATOR_MUTEX, format!("_c_{DASHED}-lock-"), LockMode::Exclusive),
            (Scheme::CURATOR_MUTEX, format!("_c_{PLAIN}-lock-"), LockMode::Exclusive),
            (Scheme::GO_ZK, format!("_c_{DASHED}-lock-"), LockMode::Exclusive),
            (Scheme::CURATOR_READ_WRITE, format!("_c_{DASHED}-__READ__"), LockMode::Shared),
            (Scheme::CURATOR_READ_WRITE, format!("_c_{DASHED}-__WRIT__"), LockMode::Exclusive),
            (Scheme::KAZOO_READ_WRITE, format!("{PLAIN}__rlock__"), LockMode::Shared),
            (Scheme::KAZOO_READ_WRITE, format!("{PLAIN}__lock__"), LockMode::Exclusive),
            (Scheme::ZOOKEEPER_RECIPE, "x-72057654740451328-".to_string(), LockMode::Exclusive),
            (Scheme::ZOOKEEPER_RECIPE, "x--98566387950223723-".to_string(), LockMode::Exclusive),
            (Scheme::ZOOKEEPER_RECIPE, "x-00ff00000a1b2c3d-".to_string(), LockMode::Exclusive),
        ] {
            let child = before + suffix;
            assert_eq!(read(scheme, &child), Some((mode, number)), "{child}");
        }
    }
}

#[test]
fn other_names_are_unknown() {
    for child in [
        "lease_holder",
        "lock-abc",
        "_c_short",
        "foo-12",
        "_c_-lock-0000000001",
        "x-",
        "x--0000000001",
        "x-y-0000000001",
        "",
    ] {
        for scheme in ALL {
            assert_eq!(read(scheme, child), None, "{child} by {scheme:?}");
        }
    }
    for suffix in ["latch-0000000001", "lock-12", "lock-00000000070", "lock-", "__WRIT__0000000005"]
    {
        assert_eq!(read(Scheme::CURATOR_MUTEX, &format!("_c_{DASHED}-{suffix}")), None);
    }
    assert_eq!(read(Scheme::KAZOO_MUTEX, &format!("{PLAIN}__rlock__0000000003")), None);
    // As long as a GUID but none, and a cut within a character.
    let not_hex = "_c_gggggggg-7a53-4c0f-9d9e-0a1b2c3d4e5f-lock-0000000001";
    assert_eq!(read(Scheme::CURATOR_MUTEX, not_hex), None);
    assert_eq!(read(Scheme::CURATOR_MUTEX, "_c_üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü"), None);
}

#[test]
fn every_known_scheme_is_recognized_by_its_names() {
    for scheme in ALL {
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            for number in [0, i32::MAX, i32::MIN] {
                let prefix = scheme.prefix(mode, guid(), SessionId(-7));
                let child = format!("{prefix}{}", SequenceNumber(number));
                let recognized = Scheme::recognize(&child).expect("known");
                let is_readable = recognized.parse(&child).is_some();
                assert!(is_readable || recognized.is_private(), "{child}: {recognized:?}");
                assert_eq!(recognized.format, scheme.format_read(), "{child}");
            }
        }
    }
    // Nodes beside a semaphore's queue, and arbitrary names.
    for child in ["locks", "leases", "max", "ready", "lease_holder", "0000000001", "x-", ""] {
        assert_eq!(Scheme::recognize(child), None, "{child}");
    }
}

#[test]
fn no_known_scheme_parses_the_names_of_another() {
    let known = || Scheme::KNOWN.iter().chain(Scheme::OTHERS);
    for writer in known() {
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            let child = writer.prefix(mode, guid(), SessionId(7)) + "0000000007";
            let readers = known().filter(|scheme| scheme.parse(&child).is_some());
            assert_eq!(readers.collect::<alloc::vec::Vec<_>>(), [writer], "{child}");
        }
    }
}

impl Scheme {
    /// Both formats of Curator are parsed as one.
    fn format_read(&self) -> PrefixFormat {
        match self.format {
            PrefixFormat::Curator { .. } => PrefixFormat::Curator { dashes: true },
            format => format,
        }
    }
}

#[test]
fn names_that_are_built_are_parsed_back() {
    for scheme in ALL {
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            for session in [7, -7, i64::MIN] {
                let prefix = scheme.prefix(mode, guid(), SessionId(session));
                for number in [0, 42, i32::MAX, -1, i32::MIN] {
                    let child = format!("{prefix}{}", SequenceNumber(number));
                    let name = scheme.parse(&child).expect("ours");
                    assert_eq!(name.guid, Some(guid()), "{child}");
                    assert_eq!(name.sequence, SequenceNumber(number), "{child}");
                    assert_eq!(
                        name.mode == mode,
                        mode == LockMode::Exclusive || scheme.has_readers()
                    );
                }
            }
        }
    }
}

#[test]
fn prefixes_match_those_of_other_implementations() {
    let prefix = |scheme: Scheme, mode| scheme.prefix(mode, guid(), SessionId(-5));
    let exclusive = |scheme| prefix(scheme, LockMode::Exclusive);
    assert_eq!(exclusive(Scheme::CURATOR_MUTEX), format!("_c_{DASHED}-lock-"));
    assert_eq!(exclusive(Scheme::GO_ZK), format!("_c_{PLAIN}-lock-"));
    assert_eq!(exclusive(Scheme::KAZOO_MUTEX), format!("{PLAIN}__lock__"));
    assert_eq!(exclusive(Scheme::ZOOKEEPER_RECIPE), format!("x--5-{PLAIN}-"));
    assert_eq!(exclusive(Scheme::CURATOR_READ_WRITE), format!("_c_{DASHED}-__WRIT__"));
    let shared = |scheme| prefix(scheme, LockMode::Shared);
    assert_eq!(shared(Scheme::CURATOR_READ_WRITE), format!("_c_{DASHED}-__READ__"));
    assert_eq!(shared(Scheme::KAZOO_READ_WRITE), format!("{PLAIN}__rlock__"));
    assert_eq!(shared(Scheme::private("w", Some("r"))), "0v1q61kuij9g7pr7ga3cm3qjiv-r");
}

#[test]
fn a_compact_guid_out_of_range_is_unknown() {
    let scheme = Scheme::private("w", None);
    let highest = scheme.prefix(LockMode::Exclusive, Uuid::max(), SessionId(1)) + "0000000001";
    assert!(highest.starts_with("7vvv") && scheme.parse(&highest).is_some());
    assert_eq!(scheme.parse(&highest.replacen('7', "8", 1)), None, "too great");
    assert_eq!(scheme.parse(&highest.replacen('v', "w", 1)), None, "no digit");
    assert_eq!(scheme.parse("üüüüüüüüüüüüü-w0000000001"), None);
}
