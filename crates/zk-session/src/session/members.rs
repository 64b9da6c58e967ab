//! Which member to try next, and how long to wait before.

use alloc::vec::Vec;
use core::time::Duration;

/// The delay before the first attempt after a connection was lost is random below this, so that
/// the clients of a member that died do not all arrive at the next one together.
const SPREAD: Duration = Duration::from_millis(50);
/// The delay after the first round in which every member failed; it doubles with each such round.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(super) struct Members {
    order: Vec<usize>,
    next: usize,
    /// Attempts that failed in this round, and those of them in which nothing came back in time.
    failures: usize,
    silences: usize,
    /// Rounds in which every member failed since one last served the session.
    failed_rounds: u32,
    /// Those of them in which nothing came back from any member in time.
    silent_rounds: u32,
    /// The longest delay that could follow the last of them.
    back_off: Duration,
    rng: fastrand::Rng,
}

impl Members {
    pub(super) fn new(count: usize, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        Self {
            order,
            next: 0,
            failures: 0,
            silences: 0,
            failed_rounds: 0,
            silent_rounds: 0,
            back_off: Duration::ZERO,
            rng,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// The member whose turn it is.
    pub(super) fn take_next(&mut self) -> Option<usize> {
        let member = self.order.get(self.next).copied();
        self.next = (self.next + 1) % self.order.len().max(1);
        member
    }

    /// The list has changed: `kept` says for each old member which one of the `count` new ones it
    /// is. Returns whether `current`, an old member, is to be left. Then the new order has the
    /// members in it as they are to be tried.
    ///
    /// If all clients do so, each member has as many of them as before and after, on average, and
    /// no more of them move than must (PROTOCOL: `HostConnectionManager.java` updateServerList,
    /// ZOOKEEPER-1355).
    pub(super) fn update(
        &mut self,
        kept: &[Option<usize>],
        count: usize,
        current: Option<usize>,
    ) -> bool {
        let (mut old, mut new): (Vec<_>, Vec<_>) =
            (0..count).partition(|member| kept.contains(&Some(*member)));
        self.rng.shuffle(&mut old);
        self.rng.shuffle(&mut new);
        let before = self.count();
        let stays = current.is_some_and(|current| kept.get(current).is_some_and(Option::is_some));
        // How likely one of the newcomers is to be tried before the next one of the others: so many
        // times out of so many.
        let (leaves, newcomers_first, of) = if current.is_none() {
            (false, new.len(), count)
        } else if count > before {
            (!stays || self.happens(count - before, count), 1, 1)
        } else {
            let removed = before.saturating_sub(old.len());
            let to_old = old.len().saturating_mul(before - count);
            let of = count.saturating_mul(removed);
            (!stays, of.saturating_sub(to_old), of)
        };
        self.order.clear();
        while !old.is_empty() || !new.is_empty() {
            let take_new = old.is_empty() || (!new.is_empty() && self.happens(newcomers_first, of));
            self.order.extend(if take_new { new.pop() } else { old.pop() });
        }
        self.next = 0;
        self.succeeded();
        leaves
    }

    /// The member whose turn it is, unless that is `current`: then the one behind it, if any.
    pub(super) fn next_besides(&mut self, current: usize) -> Option<usize> {
        let mut turns = core::iter::repeat_with(|| self.take_next()).take(2);
        turns.find_map(|member| member.filter(|member| *member != current))
    }

    /// Makes it the turn of `member`, if there is such a one.
    pub(super) fn prefer(&mut self, member: usize) -> bool {
        let place = self.order.iter().position(|other| *other == member);
        self.next = place.unwrap_or(self.next);
        place.is_some()
    }

    pub(super) fn succeeded(&mut self) {
        (self.failures, self.silences) = (0, 0);
        (self.failed_rounds, self.silent_rounds, self.back_off) = (0, 0, Duration::ZERO);
    }

    /// How many rounds have failed since a member last served the session.
    pub(super) fn failed_rounds(&self) -> u32 {
        self.failed_rounds
    }

    /// How many rounds have failed in which no member answered in time, as on a slow link.
    pub(super) fn silent_rounds(&self) -> u32 {
        self.silent_rounds
    }

    /// How long to wait after a connection that had been established was lost; `limit` at most.
    pub(super) fn delay_after_loss(&mut self, limit: Duration) -> Duration {
        self.random_below(SPREAD.min(limit))
    }

    /// How long to wait after an attempt has failed: not at all within a round of all members,
    /// and a random, growing time between rounds, `limit` at most.
    pub(super) fn delay_after_failure(&mut self, was_silent: bool, limit: Duration) -> Duration {
        self.failures += 1;
        self.silences += usize::from(was_silent);
        if self.failures < self.count() {
            return Duration::ZERO;
        }
        let was_silent = self.silences == self.failures;
        (self.failures, self.silences) = (0, 0);
        self.failed_rounds = self.failed_rounds.saturating_add(1);
        self.silent_rounds = self.silent_rounds.saturating_add(was_silent.into());
        self.back_off = self.back_off.saturating_mul(2).max(FIRST_BACK_OFF).min(limit);
        self.back_off / 2 + self.random_below(self.back_off / 2)
    }

    // No fractions: a processor may have none, and would have to be taught them.
    fn random_below(&mut self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.u64(..nanos.max(1)))
    }

    /// Whether something happens that does so `part` times out of `whole`.
    fn happens(&mut self, part: usize, whole: usize) -> bool {
        self.rng.usize(..whole.max(1)) < part
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn every_member_gets_its_turn() {
        let mut members = Members::new(3, 7);
        let mut round: Vec<_> = (0..3).filter_map(|_| members.take_next()).collect();
        assert_eq!(members.take_next(), Some(round[0]));
        round.sort_unstable();
        assert_eq!(round, vec![0, 1, 2]);
    }

    #[test]
    fn only_a_whole_failed_round_costs_time_and_each_costs_more() {
        let [short, long] = [3, 50].map(|tenths| tenths * FIRST_BACK_OFF);
        let mut members = Members::new(2, 7);
        let mut ceiling = FIRST_BACK_OFF;
        for round in 0..40 {
            let limit = if round < 20 { short } else { long };
            assert_eq!(members.delay_after_failure(true, limit), Duration::ZERO);
            ceiling = ceiling.min(limit);
            let delay = members.delay_after_failure(true, limit);
            assert!(ceiling / 2 <= delay && delay <= ceiling, "{delay:?} of {ceiling:?}");
            ceiling *= 2;
        }
        assert_eq!((members.failed_rounds(), members.silent_rounds()), (40, 40));
        members.succeeded();
        members.delay_after_failure(false, long);
        assert!(members.delay_after_failure(false, long) <= FIRST_BACK_OFF);
        assert!(members.delay_after_loss(long) <= SPREAD);
        assert!(members.delay_after_loss(SPREAD / 50) <= SPREAD / 50);
    }
}
