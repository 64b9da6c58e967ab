//! A list of members that changes while the session lives.

use super::*;

/// # Commands about members
impl<T> Session<T> {
    /// The ensemble has other members now: `count` of them. For each of the old ones, in their
    /// order, `kept` says which of the new ones it is, if it is still there.
    ///
    /// The session stays where it is or moves, by chances which see to it that the clients of an
    /// ensemble spread evenly over its members when all of them do this. It moves for certain when
    /// the member that serves it has gone.
    ///
    /// Members are known by their new numbers from now on: in actions and events that were polled
    /// before, and in the [`Event::Disconnected`] of a member that is left by this, the numbers are
    /// the old ones.
    pub fn update_members(&mut self, now: Instant, kept: &[Option<usize>], count: usize) {
        if matches!(self.phase, Phase::Ended(_)) {
            return;
        }
        let known = kept.iter().take(self.members.count());
        let kept: Vec<_> = known.map(|new| new.filter(|new| *new < count)).collect();
        let renumbered = |member: usize| kept.get(member).copied().flatten();
        let leaves = self.members.update(&kept, count, self.member());
        // What is still to be done must be done to the right one.
        self.actions.retain_mut(|action| match action {
            Action::Connect(member) | Action::Probe(member) => match renumbered(*member) {
                Some(new) => {
                    *member = new;
                    true
                }
                None => false,
            },
            Action::Disconnect => true,
        });
        if leaves {
            return self.disconnect(now, Cause::Rebalanced);
        }
        let before = self.state();
        if let Phase::Connecting(member)
        | Phase::Handshaking(member)
        | Phase::Authenticating(member)
        | Phase::Connected(member) = &mut self.phase
        {
            *member = renumbered(*member).unwrap_or(*member);
        }
        if self.state() != before {
            self.events.push_back(Event::State(self.state()));
        }
        if self.is_searching() {
            // There may have been nobody to ask, and whoever is new may be able to write.
            self.begin_probing(now);
        }
        if self.phase == Phase::Waiting {
            // There may have been nobody to wait for.
            let delay = self.members.delay_after_loss(self.retry_limit(now));
            self.timers.set_earlier(Timer::Retry, now + delay);
        }
    }
}
