//! What must always be.

use super::*;

impl World {
    pub(super) fn tell(
        &mut self,
        contender: usize,
        event: &Event,
        news: Option<News>,
    ) -> Result<(), String> {
        let party = &self.parties[contender];
        // What was just heard tells of the tree as it was then.
        let now = match news {
            Some(News::Reply(.., now) | News::Deleted(_, now)) => now,
            _ => 0,
        };
        let next = match (party.told, event) {
            (Told::Nothing, Event::Enqueued { .. }) => {
                if matches!(news, Some(News::Reply(_, Wish::Stat(_), ..))) {
                    self.sights.insert(Sight::Adopted);
                }
                Told::Nothing
            }
            (Told::Nothing, Event::Waiting { .. }) => Told::Nothing,
            (Told::Nothing, Event::Acquired { token, .. }) if !party.let_go => {
                self.check_grant(contender, *token, now)?;
                self.sights.insert(Sight::Acquired(contender));
                if matches!(news, Some(News::Deleted(..))) {
                    self.sights.insert(Sight::AcquiredWithoutAnotherRequest);
                }
                Told::Held
            }
            (Told::Held, Event::Suspended) => Told::Suspended,
            (Told::Suspended, Event::Resumed) => {
                let (_, token) = party.grant.expect("a grant");
                if !self.nodes.iter().any(|node| node.created == token && node.exists_at(now)) {
                    return Err(format!("{contender} resumes a lock that it has lost"));
                }
                self.sights.insert(Sight::Resumed);
                Told::Held
            }
            (Told::Held | Told::Suspended, Event::Lost(loss)) if !party.let_go => {
                self.sights.insert(match loss {
                    Loss::NodeDeleted => Sight::LostToMeddling,
                    Loss::Ended(_) => Sight::LostToExpiry,
                    Loss::Disconnected | Loss::LeaseEnded => {
                        return Err(format!("{contender} does not trust the ensemble"));
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
                if *error == LockError::NodeVanished {
                    self.sights.insert(Sight::Vanished);
                }
                Told::Over
            }
            (_, event) => return Err(format!("{contender} tells {event:?} out of turn")),
        };
        self.parties[contender].told = next;
        Ok(())
    }

    /// The lock may be granted on what is known of the tree at `now`.
    fn check_grant(&mut self, contender: usize, token: Zxid, now: Index) -> Result<(), String> {
        let token = Index::try_from(token.0).expect("a transaction of this world");
        let Some(own) = self.nodes.iter().position(|node| node.created == token) else {
            return Err(format!("{contender} has a token that is nobody's"));
        };
        if self.nodes[own].owner != contender || !self.nodes[own].exists_at(now) {
            return Err(format!("{contender} is granted the lock without its node"));
        }
        if self.nodes[..own].iter().any(|node| node.exists_at(now)) {
            return Err(format!("{contender} is granted the lock before its turn"));
        }
        let out_of_order = |(then, other): (Index, Index)| (then < now) != (other < token);
        if self.parties.iter().filter_map(|party| party.grant).any(out_of_order) {
            return Err(format!("{contender} has a token that does not rise"));
        }
        self.parties[contender].grant = Some((now, token));
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let there = || self.nodes.iter().filter(|node| node.deleted.is_none());
        let believes = |party: &Party| {
            let held = matches!(party.told, Told::Held | Told::Suspended) && !party.let_go;
            party.grant.filter(|_| held).map(|(_, token)| token)
        };
        let holders = self.parties.iter().filter_map(believes);
        if holders.filter(|token| there().any(|node| node.created == *token)).count() > 1 {
            return Err("two hold the lock".to_string());
        }
        for contender in 0..self.parties.len() {
            if there().filter(|node| node.owner == contender).count() > 1 {
                return Err(format!("{contender} has two nodes"));
            }
        }
        // The end of a node wakes one: no herd. Whose own node is gone does not count, having
        // nothing more to wait for.
        for id in 0..self.nodes.len() {
            let waits = |contender: &usize| {
                there().any(|node| node.owner == *contender)
                    && self.nodes[id].owner != *contender
                    && self.parties[*contender].watches.iter().any(|watch| watch.node == id)
            };
            if (0..self.parties.len()).filter(waits).count() > 1 {
                return Err(format!("two wait for {id}"));
            }
        }
        Ok(())
    }

    /// Nothing goes on by itself: then everybody must have got what they wanted.
    pub(in super::super) fn check_end(&self) -> Result<(), String> {
        match self.parties.iter().position(|party| !party.machine.is_done()) {
            Some(contender) => Err(format!("{contender} waits for ever")),
            None => Ok(()),
        }
    }
}
