//! Renewing watches whose event never comes.

use core::time::Duration;

use fastrand::Rng;
use zk_session::Error;
use zk_session::session::{Reply, ping_interval};

use super::retry_policy::RetryPolicy;

/// The time from one renewal to the next, in ping intervals.
const INTERVALS: core::ops::Range<u32> = 9..16;
/// How long a renewal precedes the ping that it replaces.
const BEFORE_PING: Duration = Duration::from_millis(5);

/// Decides when to renew a watch that stays silent, and which watch of a machine.
///
/// A watch event can be lost: by a fault of the server, or because the session may no longer read
/// the node (ZooKeeper 3.9 withholds it). A machine that waits for the event would wait for ever.
/// So the driver of a machine renews its watches:
///
/// 1. It does so if the machine has watches, is connected to a quorum, and has received nothing for
///    [`wait`](Self::wait) since the last request for a watch.
/// 2. It repeats the request of one watch, each [in turn](Self::next).
/// 3. It drops the old watch when the new one is set, and the new one if it is refused.
/// 4. If the reply [is conclusive](Self::is_conclusive), it gives the reply to the machine as
///    [`Input::Reply`](zk_session::dispatch::Input::Reply), with the number of the first request. Machines handle
///    it like the first reply.
///
/// The wait is three to five session timeouts, or three to five half minutes if the timeout is
/// longer. The wait is a whole number of ping intervals, less a few milliseconds, so the request
/// replaces a ping. While one machine waits, the session sends no more than when idle.
#[derive(Clone, Debug)]
pub struct Renewal {
    random: Rng,
    turn: usize,
}

impl Renewal {
    /// Creates the renewals of one machine. Different seeds spread the renewals of many waiters.
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), turn: 0 }
    }

    /// Returns the seed, before the first wait.
    #[cfg(all(feature = "full", feature = "blocking"))]
    pub(crate) fn seed(&self) -> u64 {
        self.random.get_seed()
    }

    /// Returns how long a machine may receive no input before one of its watches is renewed.
    ///
    /// Call it again after each input and after each renewal.
    pub fn wait(&mut self, session_timeout: Duration) -> Duration {
        let intervals = self.random.u32(INTERVALS);
        ping_interval(session_timeout).saturating_mul(intervals).saturating_sub(BEFORE_PING)
    }

    /// Returns the index of the watch to renew, out of `watches`. `None` if there are none.
    pub const fn next(&mut self, watches: usize) -> Option<usize> {
        self.turn = self.turn.wrapping_add(1);
        self.turn.checked_rem(watches)
    }

    /// Returns whether the driver gives this reply of a renewal to the machine. If not, the old
    /// watch stays.
    pub fn is_conclusive(answer: &Result<Reply, Error>) -> bool {
        answer.as_ref().err().is_none_or(|error| RetryPolicy::of(error) == RetryPolicy::Never)
    }
}

#[cfg(test)]
mod tests;
