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

/// Returns a seed that no other attempt of this process has, and most likely none of another one.
pub(crate) fn seed() -> u64 {
    // A forked process has the random bits and the count of its parent.
    PROCESS.1 ^ count::next() ^ u64::from(std::process::id()).rotate_left(32)
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
mod tests;
