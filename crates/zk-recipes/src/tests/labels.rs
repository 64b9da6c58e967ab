//! Short names for lock nodes.
//!
//! * `own-7` and `a-5` in a mutex
//! * `own-W7` and `a-R5` in a read/write lock
//! * `own-M7` in a private scheme
//! * `own-B7` at a double barrier
//! * `2-7` for the second attempt of the same machine
//! * `2'-7` for the same on the [next](NEXT) session
//!
//! Other names are unchanged.

use super::*;

/// Returns the GUID of our node in one of the attempts of a machine, which count from 0.
pub(crate) fn own_guid(attempt: u8, session: SessionId) -> u128 {
    let first = AttemptConfig::node_guid(Uuid::from_u128(OWN), SESSION).as_u128();
    let guid = Uuid::from_u128(first.wrapping_add(u128::from(attempt) << 64));
    AttemptConfig::node_guid(guid, session).as_u128()
}

pub(crate) fn prefix(guid: u128) -> String {
    SCHEME.prefix(LockMode::Exclusive, Uuid::from_u128(guid), SESSION)
}

pub(crate) fn name(label: &str) -> String {
    let read = || {
        let (guid, rest) = label.split_once('-')?;
        let (scheme, mode, number) = match rest.split_at_checked(1)? {
            ("R", number) => (READ_WRITE, LockMode::Shared, number),
            ("W", number) => (READ_WRITE, LockMode::Exclusive, number),
            ("M", number) => (PRIVATE, LockMode::Exclusive, number),
            ("B", number) => (Participant::SCHEME, LockMode::Shared, number),
            _ => (SCHEME, LockMode::Exclusive, rest),
        };
        let (guid, session) = guid.strip_suffix('\'').map_or((guid, SESSION), |guid| (guid, NEXT));
        let guid = match guid {
            "own" => own_guid(0, session),
            "2" | "3" => own_guid(guid.parse::<u8>().ok()? - 1, session),
            _ => u128::from_str_radix(guid, 16).ok()?,
        };
        let prefix = scheme.prefix(mode, Uuid::from_u128(guid), SESSION);
        Some(format!("{prefix}{:010}", number.parse::<i32>().ok()?))
    };
    read().unwrap_or_else(|| label.to_string())
}

pub(crate) fn label(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let read = |scheme: Scheme| {
        let Name { guid, mode, sequence, .. } = scheme.parse(name)?;
        let kind = match (scheme, mode) {
            (PRIVATE, _) => "M",
            (Participant::SCHEME, _) => "B",
            (READ_WRITE, LockMode::Shared) => "R",
            (READ_WRITE, LockMode::Exclusive) => "W",
            _ => "",
        };
        let guid = guid?.as_u128();
        let own = [(SESSION, ""), (NEXT, "'")].into_iter().find_map(|(session, mark)| {
            let attempts = ["own", "2", "3"].into_iter().zip(0..);
            let mut ours = attempts.filter(|(_, attempt)| own_guid(*attempt, session) == guid);
            ours.next().map(|(name, _)| format!("{name}{mark}"))
        });
        let guid = own.unwrap_or_else(|| format!("{guid:x}"));
        Some(format!("{guid}-{kind}{}", sequence.0))
    };
    [SCHEME, READ_WRITE, PRIVATE, Participant::SCHEME]
        .into_iter()
        .find_map(read)
        .unwrap_or_else(|| name.to_string())
}

/// Returns the label of a node to be created, to which the server appends the sequence number.
pub(crate) fn creation(path: &str) -> String {
    match label(&format!("{path}{:010}", 0)).as_str() {
        "own-0" | "own-M0" => "create".to_string(),
        "own-R0" => "create R".to_string(),
        "own-W0" => "create W".to_string(),
        "own-B0" => "create B".to_string(),
        other => {
            let prefix = other.strip_suffix('0').expect("no number yet");
            format!("create {}", prefix.trim_end_matches('-'))
        }
    }
}
