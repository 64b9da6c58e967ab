//! What must always be.

use super::ensemble::{LockNode, Wish};
use super::party::{Grant, News};
use super::*;

impl World {
    pub(super) fn tell(
        &mut self,
        contender: usize,
        event: &Event,
        news: Option<News>,
    ) -> Result<(), String> {
        // What was just heard tells of the tree as it was then.
        let now = news.map_or(0, |news| news.now());
        let Party { told, let_go, converting, .. } = self.parties[contender];
        let next = match (told, event) {
            (Told::Nothing, Event::Enqueued { .. }) => {
                if matches!(news, Some(News::Reply(_, Wish::Stat(_), ..))) {
                    self.sights.insert(Sight::Adopted);
                }
                Told::Nothing
            }
            (Told::Nothing, Event::Waiting { .. }) => Told::Nothing,
            (Told::Nothing, Event::Acquired { token, .. }) if !let_go => {
                self.check_grant(contender, *token, now)?;
                self.sights.insert(Sight::Acquired(contender));
                match news {
                    Some(News::Fired(..)) => {
                        self.sights.insert(Sight::AcquiredWithoutAnotherRequest)
                    }
                    Some(News::Reply(_, Wish::Create(_), ..)) => {
                        self.sights.insert(Sight::AcquiredWithoutAList)
                    }
                    _ => false,
                };
                Told::Held
            }
            (Told::Held, Event::Suspended) => Told::Suspended,
            (Told::Suspended, Event::Resumed) => {
                let number = self.parties[contender].grant.map(|grant| grant.number);
                let mut there = self.ensemble.at(now);
                let is_ours = |node: &LockNode| node.owner == Some(contender);
                if !there.any(|(_, node)| is_ours(node) && Some(node.label.number) == number) {
                    return Err(format!("{contender} resumes a lock that it has lost"));
                }
                self.sights.insert(Sight::Resumed);
                Told::Held
            }
            (Told::Held | Told::Suspended, Event::Converted { claim, node, token })
                if !let_go && converting == Some(*claim) =>
            {
                self.check_conversion(contender, *claim, node, *token, now)?;
                if matches!(news, Some(News::Reply(_, Wish::Stat(_), ..))) {
                    self.sights.insert(Sight::FoundConverted);
                }
                told
            }
            (Told::Held | Told::Suspended, Event::NotConverted(_))
                if !let_go && converting.is_some() =>
            {
                if converting == Some(Claim::Exclusive) {
                    self.sights.insert(Sight::NotUpgraded);
                }
                self.parties[contender].converting = None;
                told
            }
            (Told::Held | Told::Suspended, Event::Lost(loss)) if !let_go => {
                self.sights.insert(match loss {
                    Loss::NodeDeleted => Sight::LostToMeddling,
                    Loss::Ended(_) => Sight::LostToExpiry,
                    Loss::Disconnected | Loss::LeaseEnded | Loss::Released => {
                        return Err(format!("{contender} does not trust the ensemble"));
                    }
                });
                Told::Over
            }
            (Told::Held | Told::Suspended, Event::Released) if let_go => Told::Over,
            (Told::Nothing, Event::Released) if let_go => {
                self.sights.insert(Sight::ReleasedBeforeAcquired);
                Told::Over
            }
            (Told::Nothing, Event::Failed(error)) if !let_go => {
                match error {
                    LockError::NodeVanished => self.sights.insert(Sight::Vanished),
                    LockError::Busy | LockError::TimedOut => self.sights.insert(Sight::Busy),
                    LockError::NoConnection => self.sights.insert(Sight::NoConnection),
                    LockError::SequenceExhausted => self.sights.insert(Sight::Exhausted),
                    _ => false,
                };
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
        let mut created = self.ensemble.all().filter(|(_, node)| node.created == token);
        let Some((_, own)) = created.next() else {
            return Err(format!("{contender} has a token that is nobody's"));
        };
        if own.owner != Some(contender) || !own.exists_at(now) {
            return Err(format!("{contender} is granted the lock without its node"));
        }
        let claim = own.label.claim;
        let blocks = |other: &LockNode| {
            other.place < own.place
                && other.label.guid != own.label.guid
                && [claim, other.label.claim].contains(&Claim::Exclusive)
        };
        if self.ensemble.at(now).any(|(_, node)| blocks(node)) {
            return Err(format!("{contender} is granted the lock before its turn"));
        }
        let grant = Grant { at: now, token, claim, number: own.label.number };
        let out_of_order = |other: Grant| {
            [claim, other.claim].contains(&Claim::Exclusive)
                && (other.at < grant.at) != (other.token < grant.token)
        };
        let others = self.parties.iter().enumerate().filter(|(other, _)| *other != contender);
        if others.filter_map(|(_, party)| party.grant).any(out_of_order) {
            return Err(format!("{contender} has a token that does not rise"));
        }
        self.parties[contender].grant = Some(grant);
        Ok(())
    }

    fn check_conversion(
        &mut self,
        contender: usize,
        claim: Claim,
        node: &str,
        token: Zxid,
        now: Index,
    ) -> Result<(), String> {
        let before = self.parties[contender].grant.expect("a grant");
        let is_ours = |node: &LockNode| node.owner == Some(contender);
        let there = |label| self.ensemble.at(now).any(|(_, it)| is_ours(it) && it.label == label);
        let label = self.label(node);
        if !there(label) {
            return Err(format!("{contender} holds the lock by a node that is not there"));
        }
        if claim == Claim::Shared {
            if Zxid(before.token.into()) != token {
                return Err(format!("{contender} has a token that others do not reach"));
            }
            self.sights.insert(Sight::Downgraded);
        } else {
            // Otherwise somebody else may have had the lock in between.
            let number = before.number;
            if !self.ensemble.at(now).any(|(_, it)| is_ours(it) && it.label.number == number) {
                return Err(format!("{contender} upgrades what it has lost"));
            }
            self.check_grant(contender, token, now)?;
            self.sights.insert(Sight::Upgraded);
        }
        let party = &mut self.parties[contender];
        (party.claim, party.converting) = (claim, None);
        Ok(())
    }

    pub(super) fn check(&mut self) -> Result<(), String> {
        self.check_exclusion()?;
        for contender in 0..self.parties.len() {
            let own = || self.ensemble.there().filter(|(_, node)| node.owner == Some(contender));
            let of = |claim| own().filter(move |(_, node)| node.label.claim == claim).count();
            let upgrades = self.parties[contender].upgrades;
            if of(Claim::Shared).max(of(Claim::Exclusive)) > 1 || own().count() > 1 && !upgrades {
                return Err(format!("{contender} has two nodes"));
            }
        }
        self.check_wake_ups()
    }

    /// Nobody holds the lock beside a writer, as the ensemble sees it.
    fn check_exclusion(&mut self) -> Result<(), String> {
        let holds = |(contender, party): (usize, &Party)| {
            let (claim, number) = party.believes()?;
            let is_its = |(_, node): (NodeId, &LockNode)| {
                node.owner == Some(contender) && node.label.number == number
            };
            self.ensemble.there().any(is_its).then_some(claim)
        };
        let holders: Vec<_> = self.parties.iter().enumerate().filter_map(holds).collect();
        if holders.len() > 1 {
            if holders.contains(&Claim::Exclusive) {
                return Err("two hold the lock".to_string());
            }
            self.sights.insert(Sight::HeldTogether);
        }
        Ok(())
    }

    /// The end of a node wakes one, or readers who waited for a writer: no herd. Whose own node is
    /// gone does not count, having nothing more to wait for.
    fn check_wake_ups(&self) -> Result<(), String> {
        let mut waiting: Vec<(NodeId, Claim)> = Vec::new();
        for (contender, party) in self.parties.iter().enumerate() {
            let is_ours = |node: &LockNode| node.owner == Some(contender);
            if !self.ensemble.there().any(|(_, node)| is_ours(node)) {
                continue;
            }
            let others =
                party.line.watches.iter().filter(|it| !is_ours(self.ensemble.node(it.target)));
            let others: Vec<_> = others.map(|watch| (watch.target, party.claim)).collect();
            if others.len() > 1 {
                return Err(format!("{contender} waits for two"));
            }
            waiting.extend(others);
        }
        for (id, node) in self.ensemble.all() {
            let count = |claim| waiting.iter().filter(|it| **it == (id, claim)).count();
            let is_reader = node.label.claim == Claim::Shared;
            if count(Claim::Exclusive) > 1 || is_reader && count(Claim::Shared) > 0 {
                return Err(format!("too many wait for {id}"));
            }
        }
        Ok(())
    }

    /// Nothing goes on by itself: then everybody must have got what they wanted.
    pub(super) fn check_nobody_waits(&self) -> Result<(), String> {
        match self.parties.iter().position(|party| !party.machine.is_done()) {
            Some(contender) => Err(format!("{contender} waits for ever")),
            None => Ok(()),
        }
    }
}
