use std::collections::HashSet;

use uuid::{Variant, Version};

use super::*;

#[test]
fn guids_differ_between_processes() {
    let processes = [Process::random(), Process::random()];
    let guids: HashSet<_> = processes
        .iter()
        .flat_map(|process| (0..1_000).map(|attempt| process.guid(attempt, 0)))
        .collect();
    assert_eq!(guids.len(), 2 * 1_000);
    let is_random = |guid: &Uuid| {
        (guid.get_version(), guid.get_variant()) == (Some(Version::Random), Variant::RFC4122)
    };
    assert!(guids.iter().all(is_random));
}

#[test]
fn successive_guids_differ_in_their_first_digits() {
    let digits = |guid: Uuid| guid.as_u128() >> 96;
    let guids: HashSet<_> = (0..1_000).map(|_| digits(next(0))).collect();
    assert_eq!(guids.len(), 1_000);
}

#[test]
fn guids_differ_after_more_attempts_than_fit_in_their_first_digits() {
    let process = Process::random();
    assert_ne!(process.guid(0, 0), process.guid(1 << 32, 0));
    assert_ne!(process.guid(1, 0), process.guid(1 << 32 | 1, 0));
}

#[test]
fn a_client_knows_the_guids_of_its_own_attempts() {
    assert!(is_of(next(1), 1) && is_of(next(1), 1) && is_of(next(0), 0));
    assert!(!is_of(next(0), 1) && !is_of(next(2), 1));
    assert!(!is_of(Process::random().guid(0, 1), 1));
}
