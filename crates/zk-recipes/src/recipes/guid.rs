//! GUIDs, by which attempts find their own nodes.

use core::hash::BuildHasher;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::sync::LazyLock;

use uuid::{Builder, Uuid};
use zk_session::proto::SessionId;

/// Returns a GUID for an attempt of this session, which no other attempt has.
///
/// It is random once for each process, and from there on counts attempts. So it takes no system call.
/// A forked process has the same random bits and the same count, but a session of its own.
pub(crate) fn next(session: SessionId) -> Uuid {
    static PROCESS: LazyLock<Process> = LazyLock::new(Process::random);
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    PROCESS.guid(session, ATTEMPTS.fetch_add(1, Ordering::Relaxed))
}

/// Random bits of a process.
struct Process(u64, u64);

impl Process {
    fn random() -> Self {
        let keys = RandomState::new();
        Self(keys.hash_one(0), keys.hash_one(1))
    }

    fn guid(&self, session: SessionId, attempt: u64) -> Uuid {
        let session = session.0.cast_unsigned();
        // The lower 16 bits of the first half hold the version, the upper 2 of the second the variant.
        // The upper 32 are the first eight digits, by which a contender tells most others from itself.
        let count = attempt << 32 | attempt >> 32 << 16;
        let first = self.0.wrapping_add(count) ^ (session >> 62);
        let second = self.1 ^ session;
        let random = Uuid::from_u64_pair(first, second);
        Builder::from_random_bytes(random.into_bytes()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uuid::{Variant, Version};

    use super::*;

    #[test]
    fn guids_differ_between_processes_and_sessions() {
        let processes = [Process::random(), Process::random()];
        // A fork has the bits of its parent, and counts on from the same number.
        let mut guids = HashSet::new();
        for process in &processes {
            for session in [0, 1, 1 << 56, 1 << 62, i64::MIN, i64::MIN | 1 << 62, i64::MAX, -1] {
                guids.extend((0..1_000).map(|attempt| process.guid(SessionId(session), attempt)));
            }
        }
        assert_eq!(guids.len(), 2 * 8 * 1_000);
        let is_random = |guid: &Uuid| {
            (guid.get_version(), guid.get_variant()) == (Some(Version::Random), Variant::RFC4122)
        };
        assert!(guids.iter().all(is_random));
    }

    #[test]
    fn successive_guids_differ_in_their_first_digits() {
        let digits = |guid: Uuid| guid.as_u128() >> 96;
        let guids: HashSet<_> = (0..1_000).map(|_| digits(next(SessionId(1)))).collect();
        assert_eq!(guids.len(), 1_000);
    }

    #[test]
    fn guids_differ_after_more_attempts_than_fit_in_their_first_digits() {
        let process = Process::random();
        let guid = |attempt| process.guid(SessionId(1), attempt);
        assert_ne!(guid(0), guid(1 << 32));
        assert_ne!(guid(1), guid(1 << 32 | 1));
    }
}
