//! The judge of locks. It sees who believes to hold one, and what the ensemble has to say to that.

use alloc::collections::{BTreeMap, BTreeSet};

use zk_proto::{SessionId, Zxid};
use zk_recipes::machine::{Claim, Event, Scheme};

use super::{AttemptId, Demand, Note};
use crate::server::Ensemble;

/// Names an attempt among those of all clients.
type Who = (u64, AttemptId);

#[derive(Debug)]
struct Attempt {
    directory: String,
    demand: Demand,
    session: SessionId,
    /// Its node, once it knows it.
    node: Option<String>,
    holds: bool,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct LockJudge {
    attempts: BTreeMap<Who, Attempt>,
    /// Those that believe to hold a lock, by its directory.
    holders: BTreeMap<String, BTreeMap<Who, Demand>>,
    /// The token that was given last to somebody who held a lock alone.
    tokens: BTreeMap<String, Zxid>,
    /// Who was woken by the end of each node.
    woken: BTreeMap<String, Who>,
    /// What the children of each directory were looked at for last.
    looked_at: BTreeMap<String, (Scheme, Zxid)>,
    acquisitions: u64,
    /// Whether somebody has told something that was not looked at.
    has_heard: bool,
    /// The last transaction that was looked at.
    looked_after: Zxid,
}

impl LockJudge {
    /// How often a lock was acquired.
    pub(super) fn acquisitions(&self) -> u64 {
        self.acquisitions
    }

    pub(super) fn hear(
        &mut self,
        (client, session): (u64, SessionId),
        note: &Note,
        ensemble: &Ensemble,
        found: &mut Vec<String>,
    ) {
        self.has_heard = true;
        match note {
            Note::Contends(id, directory, demand) => {
                for (directory, scheme) in directories(directory, *demand) {
                    self.looked_at.entry(directory).or_insert((scheme, Zxid::ZERO));
                }
                let (directory, demand) = (directory.clone(), *demand);
                let attempt = Attempt { directory, demand, session, node: None, holds: false };
                self.attempts.insert((client, *id), attempt);
            }
            Note::Lock(id, event) => self.event((client, *id), event, ensemble, found),
            Note::Woken(id, path) => {
                let who = (client, *id);
                let attempt = self.attempts.get(&who);
                let own = attempt.and_then(|attempt| attempt.node.as_deref());
                // Readers that wait for one writer are all let in at its end, and leases are
                // looked at as often as they change.
                let only_one = attempt.is_some_and(|attempt| attempt.demand == Demand::Mutex);
                if only_one
                    && own != Some(path)
                    && *self.woken.entry(path.clone()).or_insert(who) != who
                {
                    found.push(format!("{path}: its end has woken {who:?}, and another before"));
                }
            }
            Note::LetGo(id) | Note::Done(id) => {
                self.release((client, *id));
            }
            _ => {}
        }
        if let Note::Done(id) = note {
            self.attempts.remove(&(client, *id));
        }
    }

    fn event(&mut self, who: Who, event: &Event, ensemble: &Ensemble, found: &mut Vec<String>) {
        let Some(attempt) = self.attempts.get_mut(&who) else {
            return found.push(format!("{who:?}: {event:?} after its end"));
        };
        match event {
            Event::Enqueued { node, .. } => {
                attempt.node = Some(format!("{}/{node}", attempt.directory));
            }
            Event::Acquired { node, token } => {
                if let Demand::Permits { .. } = attempt.demand {
                    attempt.node = Some(format!("{}/leases/{node}", attempt.directory));
                }
                if core::mem::replace(&mut attempt.holds, true) {
                    found.push(format!("{who:?}: acquired twice"));
                }
                let holders = self.holders.entry(attempt.directory.clone()).or_default();
                holders.insert(who, attempt.demand);
                self.acquisitions += 1;
                self.acquired(who, node, *token, ensemble, found);
            }
            Event::Lost(_) | Event::Released | Event::Failed(_) => {
                self.release(who);
            }
            _ => {}
        }
    }

    fn release(&mut self, who: Who) {
        for holders in self.holders.values_mut() {
            holders.remove(&who);
        }
    }

    /// Somebody believes to hold a lock. If the ensemble agrees, it was that one's turn.
    fn acquired(
        &mut self,
        who: Who,
        node: &str,
        token: Zxid,
        ensemble: &Ensemble,
        found: &mut Vec<String>,
    ) {
        let Some(attempt) = self.attempts.get(&who) else { return };
        if !is_there(attempt, ensemble) {
            return;
        }
        if let Demand::Permits { .. } = attempt.demand {
            return;
        }
        let last = self.tokens.entry(attempt.directory.clone()).or_default();
        if token <= *last {
            found.push(format!("{who:?}: got token {token} after {last}"));
        }
        if attempt.demand != Demand::Read {
            *last = token;
        }
        let is_blocked_by = |child: &&str| attempt.demand != Demand::Read || is_writer(child);
        let children = ensemble.node(&attempt.directory).into_iter().flat_map(|dir| dir.children());
        for child in children.filter(|child| *child != node).filter(is_blocked_by) {
            let path = format!("{}/{child}", attempt.directory);
            if ensemble.node(&path).is_some_and(|child| child.stat().czxid < token) {
                found.push(format!("{who:?}: got the lock before {child}"));
            }
        }
    }

    pub(super) fn look(&mut self, ensemble: &Ensemble, found: &mut Vec<String>) {
        if ensemble.leader().is_none() {
            return;
        }
        let has_changed =
            core::mem::replace(&mut self.looked_after, ensemble.zxid()) != ensemble.zxid();
        if core::mem::take(&mut self.has_heard) || has_changed {
            self.look_at_holders(ensemble, found);
        }
        if has_changed {
            self.look_at_directories(ensemble, found);
        }
    }

    fn look_at_holders(&self, ensemble: &Ensemble, found: &mut Vec<String>) {
        for (directory, holders) in &self.holders {
            // What the ensemble says need not be asked where all agree.
            if may_hold_together(holders.values()) {
                continue;
            }
            let is_owner = |(who, _): &(&Who, &Demand)| {
                self.attempts.get(who).is_some_and(|attempt| is_there(attempt, ensemble))
            };
            let owners: BTreeMap<_, _> = holders.iter().filter(is_owner).collect();
            if !may_hold_together(owners.values().copied()) {
                found.push(format!("{directory}: held by {owners:?}"));
            }
        }
    }

    fn look_at_directories(&mut self, ensemble: &Ensemble, found: &mut Vec<String>) {
        for (directory, (scheme, looked_at)) in &mut self.looked_at {
            let Some(node) = ensemble.node(directory) else { continue };
            if core::mem::replace(looked_at, node.stat().pzxid) != node.stat().pzxid {
                // Somebody who wants several permits has as many leases.
                if *scheme == Scheme::CURATOR_LEASE {
                    continue;
                }
                let guid_of = |child| scheme.parse(child)?.guid;
                let guids = node.children().filter_map(guid_of).collect::<BTreeSet<_>>();
                if guids.len() < node.children().len() {
                    found.push(format!("{directory}: two nodes of one attempt"));
                }
            }
        }
    }

    pub(super) fn forget(&mut self, client: u64) {
        self.attempts.retain(|(of, _), _| *of != client);
        for holders in self.holders.values_mut() {
            holders.retain(|(of, _), _| *of != client);
        }
    }

    pub(super) fn conclude(&self, ensemble: &Ensemble, found: &mut Vec<String>) {
        for directory in self.looked_at.keys() {
            for child in ensemble.node(directory).into_iter().flat_map(|node| node.children()) {
                found.push(format!("{directory}/{child} was left behind"));
            }
        }
    }
}

/// Whether the ensemble has the node of an attempt, and its session.
fn is_there(attempt: &Attempt, ensemble: &Ensemble) -> bool {
    let node = attempt.node.as_ref().and_then(|path| ensemble.node(path));
    node.is_some_and(|node| node.stat().ephemeral_owner == attempt.session)
        && ensemble.session_timeout(attempt.session).is_some()
}

/// Where the nodes of contenders are, and how they are named.
fn directories(path: &str, demand: Demand) -> Vec<(String, Scheme)> {
    match demand {
        Demand::Mutex => vec![(path.to_owned(), Scheme::CURATOR_MUTEX)],
        Demand::Read | Demand::Write => vec![(path.to_owned(), Scheme::CURATOR_READ_WRITE)],
        Demand::Permits { .. } => vec![
            (format!("{path}/locks"), Scheme::CURATOR_MUTEX),
            (format!("{path}/leases"), Scheme::CURATOR_LEASE),
        ],
    }
}

fn is_writer(child: &str) -> bool {
    let name = Scheme::CURATOR_READ_WRITE.parse(child);
    name.is_some_and(|name| name.claim == Claim::Exclusive)
}

/// Whether these may hold one lock at one time.
fn may_hold_together<'a>(demands: impl Iterator<Item = &'a Demand> + Clone) -> bool {
    let permits =
        |demand: &Demand| if let Demand::Permits { count, .. } = demand { *count } else { 0 };
    let permits: u32 = demands.clone().map(permits).sum();
    demands.clone().all(|demand| match demand {
        Demand::Mutex | Demand::Write => demands.clone().count() == 1,
        Demand::Read => true,
        Demand::Permits { of, .. } => permits <= *of,
    })
}
