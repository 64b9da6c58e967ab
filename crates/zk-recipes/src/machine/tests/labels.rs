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

/// What differs in the GUIDs of nodes of the next session, in each half.
const RENEWED: u128 = (SESSION.0 ^ NEXT.0) as u128;

pub(super) fn prefix(guid: u128) -> String {
    SCHEME.prefix(LockMode::Exclusive, Uuid::from_u128(guid), SESSION)
}

pub(super) fn name(label: &str) -> String {
    let read = || {
        let (guid, rest) = label.split_once('-')?;
        let (scheme, mode, number) = match rest.split_at_checked(1)? {
            ("R", number) => (READ_WRITE, LockMode::Shared, number),
            ("W", number) => (READ_WRITE, LockMode::Exclusive, number),
            ("M", number) => (PRIVATE, LockMode::Exclusive, number),
            ("B", number) => (Participant::SCHEME, LockMode::Shared, number),
            _ => (SCHEME, LockMode::Exclusive, rest),
        };
        let (guid, renewed) = guid.strip_suffix('\'').map_or((guid, 0), |guid| (guid, RENEWED));
        let guid = match guid {
            "own" => OWN,
            "2" | "3" => OWN + ((guid.parse::<u128>().ok()? - 1) << 64),
            _ => u128::from_str_radix(guid, 16).ok()?,
        };
        let guid = guid ^ (renewed << 64 | renewed);
        let prefix = scheme.prefix(mode, Uuid::from_u128(guid), SESSION);
        Some(format!("{prefix}{:010}", number.parse::<i32>().ok()?))
    };
    read().unwrap_or_else(|| label.to_string())
}

pub(super) fn label(path: &str) -> String {
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
        let is_renewed = guid >> 64 & RENEWED != 0;
        let renewed = if is_renewed { RENEWED } else { 0 };
        let guid = guid ^ (renewed << 64 | renewed);
        let mark = if is_renewed { "'" } else { "" };
        let guid = match (guid >> 64, guid & u128::from(u64::MAX)) {
            (0, OWN) => "own".to_string(),
            (later, guid) => format!("{:x}", later + guid),
        };
        Some(format!("{guid}{mark}-{kind}{}", sequence.0))
    };
    [SCHEME, READ_WRITE, PRIVATE, Participant::SCHEME]
        .into_iter()
        .find_map(read)
        .unwrap_or_else(|| name.to_string())
}

/// Returns the label of a node to be created, to which the server appends the sequence number.
pub(super) fn creation(path: &str) -> String {
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
