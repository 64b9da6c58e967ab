//! What must always be.

use super::*;
use crate::error::{LockError, Loss};

impl World {
    pub(super) fn tell(
        &mut self,
        borrower: usize,
        event: &Event,
        news: Option<News>,
    ) -> Result<(), String> {
        let party = &self.parties[borrower];
        // What was just heard tells of the tree as it was then.
        let now = news.map_or(0, |news| news.now());
        let next = match (party.told, event) {
            (Told::Nothing, Event::Enqueued { .. } | Event::Waiting { .. } | Event::Leased(_)) => {
                Told::Nothing
            }
            (Told::Nothing, Event::Acquired { token, .. }) if !party.let_go => {
                self.check_grant(borrower, Index::try_from(token.0).expect("small"), now)?;
                self.sights.insert(Sight::Acquired(borrower));
                Told::Held
            }
            (Told::Held, Event::Suspended) => Told::Suspended,
            (Told::Suspended, Event::Resumed) => {
                self.sights.insert(Sight::Resumed);
                Told::Held
            }
            (Told::Held | Told::Suspended, Event::Lost(loss)) if !party.let_go => {
                self.sights.insert(match loss {
                    Loss::NodeDeleted => Sight::LostToMeddling,
                    Loss::Ended(_) => Sight::LostToExpiry,
                    Loss::Disconnected | Loss::LeaseEnded | Loss::Released => {
                        return Err(format!("{borrower} does not trust the ensemble"));
                    }
                });
                Told::Over
            }
            (Told::Held | Told::Suspended, Event::Released) if party.let_go => Told::Over,
            (Told::Nothing, Event::Released) if party.let_go => {
                self.sights.insert(Sight::ReleasedBeforeAcquired);
                Told::Over
            }
            (Told::Nothing, Event::Failed(error)) if !party.let_go => {
                self.sights.extend(match error {
                    LockError::NodeVanished => Some(Sight::Vanished),
                    LockError::Busy => Some(Sight::Busy),
                    LockError::NoConnection => Some(Sight::NoConnection),
                    LockError::Request(_) => Some(Sight::Refused),
                    LockError::TooManyPermits { .. } => Some(Sight::TooMany),
                    LockError::OtherMaximum { .. } => Some(Sight::OtherMaximum),
                    LockError::Ended(_) => None,
                    error => return Err(format!("{borrower} fails with {error:?}")),
                });
                Told::Over
            }
            (_, event) => return Err(format!("{borrower} tells {event:?} out of turn")),
        };
        self.parties[borrower].told = next;
        if next == Told::Held && self.bounds.flaw == Some(Flaw::OneAtATime) {
            self.borrow_another(borrower);
        }
        Ok(())
    }

    /// The permits may be granted on what is known of the tree at `now`.
    fn check_grant(&mut self, borrower: usize, token: Index, now: Index) -> Result<(), String> {
        let leases = || {
            let is_lease = |node: &&Node| node.kind == Kind::Lease && node.exists_at(now);
            self.nodes.iter().filter(is_lease)
        };
        let is_own = |node: &&Node| node.created == token && node.owner == borrower;
        if leases().filter(is_own).count() != self.parties[borrower].wants as usize {
            return Err(format!("{borrower} is granted permits without its leases"));
        }
        let taken = leases().filter(|node| node.created <= token).count();
        if self.maximum_at(now).is_none_or(|maximum| taken > usize::from(maximum)) {
            return Err(format!("{borrower} is granted permits that there are not"));
        }
        self.parties[borrower].token = token;
        Ok(())
    }

    fn borrow_another(&mut self, borrower: usize) {
        if self.parties[borrower].partner.is_none() {
            let partner = self.parties.len();
            self.parties[borrower].partner = Some(partner);
            let mut party = Party::new(partner, &self.bounds, 1);
            party.partner = Some(borrower);
            self.parties.push(party);
            self.perform(partner, None, None).expect("nothing has happened");
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let there = |node: &&Node| node.deleted.is_none() && node.kind == Kind::Lease;
        let is_granted = |node: &&Node| {
            let party = &self.parties[node.owner];
            party.holds() && party.token == node.created
        };
        let granted = self.nodes.iter().filter(there).filter(is_granted).count();
        let highest = self.maximum.iter().filter_map(|(_, maximum)| *maximum).max();
        if granted > usize::from(highest.unwrap_or_default()) {
            return Err("more permits are out than there are".to_string());
        }
        // One waits for leases: no herd. Somebody who tries looks as well, and who lost its place
        // has not heard it yet.
        let waits = |party: &&Party| party.line.watched.contains(&Target::Leases);
        let calm = self.bounds.faults == 0 && !self.bounds.trier;
        if calm && self.parties.iter().filter(waits).count() > 1 {
            return Err("two wait for leases".to_string());
        }
        Ok(())
    }

    /// Nothing that is still outstanding may matter.
    pub(super) fn finish(&mut self, borrower: usize) -> Result<(), String> {
        let party = &mut self.parties[borrower];
        let creates = |(_, wish): &(u64, Wish)| matches!(wish, Wish::Enter | Wish::Lease(_));
        let left = |node: &Node| node.owner == borrower && node.deleted.is_none();
        if party.told != Told::Over {
            return Err(format!("{borrower} is done and has not told how"));
        }
        if !party.line.ended && !party.line.watches.is_empty() {
            return Err(format!("{borrower} is done and leaves a watch"));
        }
        if party.line.asked.iter().any(creates) || self.nodes.iter().any(left) {
            return Err(format!("{borrower} is done and leaves a node"));
        }
        party.timer = false;
        party.line.forget();
        Ok(())
    }

    /// Nothing goes on by itself: then everybody has got what they wanted, or what they want is
    /// kept by somebody.
    pub(super) fn check_nobody_waits(&self) -> Result<(), String> {
        let out: u32 =
            self.parties.iter().filter(|party| party.holds()).map(|party| party.wants).sum();
        let maximum = self.maximum_at(self.log).map_or(u32::MAX, u32::from);
        for (borrower, party) in self.parties.iter().enumerate() {
            let keeps = self.bounds.keeper && borrower == 0 && party.holds();
            if party.machine.is_done() || keeps {
                continue;
            }
            let first =
                self.nodes.iter().find(|node| node.kind == Kind::Place && node.deleted.is_none());
            let is_first = first.is_none_or(|first| first.owner == borrower);
            let may_wait = self.bounds.keeper && !party.holds() && !party.let_go;
            if !may_wait || is_first && out + party.wants <= maximum {
                return Err(format!("{borrower} waits for ever"));
            }
        }
        Ok(())
    }
}
