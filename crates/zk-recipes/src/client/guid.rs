//! GUIDs, by which attempts find their own nodes.

use core::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::LazyLock;

use uuid::{Builder, Uuid};

use super::count;

/// Returns a GUID that no other attempt of this process has, for a client with this
/// [number](zk_session::AnyClient::resumption).
///
/// It is random once for each process, and from there on counts attempts. So it takes no system call.
/// A forked process has the same random bits and the same count. The machines mix the id of their
/// session into it, which differs.
pub(crate) fn next(resumption: usize) -> Uuid {
    PROCESS.guid(count::next(), resumption)
}

/// Returns whether a GUID may be of an attempt of the client with this number, in this process.
pub(crate) fn is_of(guid: Uuid, resumption: usize) -> bool {
    guid.as_u64_pair().1 == PROCESS.guid(0, resumption).as_u64_pair().1
}

static PROCESS: LazyLock<Process> = LazyLock::new(Process::random);

/// Random bits of a process.
struct Process(u64, u64);

impl Process {
    fn random() -> Self {
        let keys = RandomState::new();
        Self(keys.hash_one(0), keys.hash_one(1))
    }

    fn guid(&self, attempt: u64, resumption: usize) -> Uuid {
        // The lower 16 bits of the first half hold the version. The upper 32 are the first eight
        // digits, by which a contender tells most others from itself.
        let count = attempt << 32 | attempt >> 32 << 16;
        let random =
            Uuid::from_u64_pair(self.0.wrapping_add(count), self.1.wrapping_add(resumption as u64));
        Builder::from_random_bytes(random.into_bytes()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
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
}
