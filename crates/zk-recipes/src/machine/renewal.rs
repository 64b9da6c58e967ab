//! Asking again for a watch whose event does not come.

use core::time::Duration;

use fastrand::Rng;
use zk_session::Error;
use zk_session::session::{Reply, ping_interval};

use super::retry_policy::RetryPolicy;

/// Ping intervals from one renewal to the next.
const INTERVALS: core::ops::Range<u32> = 9..16;
/// A renewal goes out so much before the ping whose place it takes.
const BEFORE_PING: Duration = Duration::from_millis(5);

/// Decides when a watch that stays silent is renewed, and which one of a machine.
///
/// An event can be lost: by a fault of the server, or because the server withholds it from a
/// session that may not read the node any more (ZooKeeper 3.9 does). A machine that waits for it
/// would wait for ever. So the driver of a machine renews its watches. If the machine has watches,
/// is connected to a quorum, and has received nothing for [`wait`](Self::wait) since the last
/// request for a watch, repeat the request of one of them, each [in turn](Self::next). If the
/// answer [is news](Self::is_news), give it to the machine as [`Input::Reply`](super::Input::Reply)
/// with the number of the first request; machines take it like the first answer. Drop the old watch
/// when the new one is set, and the new one when it is refused.
///
/// The wait is three to five and a half session timeouts, or as many half minutes where timeouts
/// are longer: a whole number of ping intervals, just before a ping would be due. So the request
/// takes the place of a ping, and a session in which one machine waits sends no more than an idle
/// one.
#[derive(Clone, Debug)]
pub struct Renewal {
    random: Rng,
    turn: usize,
}

impl Renewal {
    /// Different seeds spread the renewals of many waiters.
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), turn: 0 }
    }

    /// Returns how long a machine may receive no input before one of its watches is renewed. Call
    /// it again after each input and after each renewal.
    pub fn wait(&mut self, session_timeout: Duration) -> Duration {
        let intervals = self.random.u32(INTERVALS);
        (ping_interval(session_timeout) * intervals).saturating_sub(BEFORE_PING)
    }

    /// Which watch is renewed now, of so many.
    pub const fn next(&mut self, watches: usize) -> Option<usize> {
        self.turn = self.turn.wrapping_add(1);
        self.turn.checked_rem(watches)
    }

    /// Whether the machine is to be given this answer to a renewal. If not, the old watch stands.
    pub fn is_news(answer: &Result<Reply, Error>) -> bool {
        answer.as_ref().err().is_none_or(|error| RetryPolicy::of(error) == RetryPolicy::Never)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use zk_session::proto::ErrorCode;

    use super::*;

    #[test]
    fn waits_are_spread_over_a_few_session_timeouts() {
        let timeout = Duration::from_secs(6);
        for seed in 0..100 {
            let mut renewal = Renewal::new(seed);
            let waits: BTreeSet<_> = (0..500).map(|_| renewal.wait(timeout)).collect();
            assert!(waits.len() == 7, "{waits:?}");
            assert!(waits.iter().all(|wait| *wait > timeout * 2 && *wait < timeout * 6));
            // Just before a ping that is due every two seconds.
            let before = |wait: &Duration| (*wait + BEFORE_PING).as_millis() % 2000;
            assert!(waits.iter().all(|wait| before(wait) == 0), "{waits:?}");
        }
        let first = |seed| Renewal::new(seed).wait(timeout);
        assert!((0..20).map(first).collect::<BTreeSet<_>>().len() > 3);
        assert!(Renewal::new(1).wait(Duration::MAX) <= ping_interval(Duration::MAX) * 15);
        assert_eq!(Renewal::new(1).wait(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn every_watch_has_its_turn() {
        let mut renewal = Renewal::new(0);
        let turns: Vec<_> = (0..6).filter_map(|_| renewal.next(3)).collect();
        assert_eq!(turns, [1, 2, 0, 1, 2, 0]);
        assert_eq!(renewal.next(0), None);
    }

    #[test]
    fn an_answer_that_says_nothing_of_the_node_is_no_news() {
        for (error, is_news) in [
            (Error::Server(ErrorCode::NO_NODE), true),
            (Error::Server(ErrorCode::NO_AUTH), true),
            (Error::ConnectionLost, false),
            (Error::Server(ErrorCode::THROTTLED_OP), false),
            (Error::Server(ErrorCode::SYSTEM_ERROR), false),
        ] {
            assert_eq!(Renewal::is_news(&Err(error.clone())), is_news, "{error}");
        }
    }
}
