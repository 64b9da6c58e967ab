//! GUIDs, by which attempts find their own nodes.

use core::hash::BuildHasher;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::sync::LazyLock;

use uuid::{Builder, Uuid};

/// Returns a GUID that no other attempt of this process has.
///
/// It is random once for each process, and from there on counts attempts. So it takes no system call.
/// A forked process has the same random bits and the same count. The machines mix the id of their
/// session into it, which differs.
pub(crate) fn next() -> Uuid {
    static PROCESS: LazyLock<Process> = LazyLock::new(Process::random);
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    PROCESS.guid(ATTEMPTS.fetch_add(1, Ordering::Relaxed))
}

/// Random bits of a process.
struct Process(u64, u64);

impl Process {
    fn random() -> Self {
        let keys = RandomState::new();
        Self(keys.hash_one(0), keys.hash_one(1))
    }

    fn guid(&self, attempt: u64) -> Uuid {
        // The lower 16 bits of the first half hold the version. The upper 32 are the first eight
        // digits, by which a contender tells most others from itself.
        let count = attempt << 32 | attempt >> 32 << 16;
        let random = Uuid::from_u64_pair(self.0.wrapping_add(count), self.1);
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
            .flat_map(|process| (0..1_000).map(|attempt| process.guid(attempt)))
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
        let guids: HashSet<_> = (0..1_000).map(|_| digits(next())).collect();
        assert_eq!(guids.len(), 1_000);
    }

    #[test]
    fn guids_differ_after_more_attempts_than_fit_in_their_first_digits() {
        let process = Process::random();
        assert_ne!(process.guid(0), process.guid(1 << 32));
        assert_ne!(process.guid(1), process.guid(1 << 32 | 1));
    }
}
