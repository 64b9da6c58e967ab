//! The checker of locks: compares the clients that believe to hold a lock with the ensemble.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use zk_proto::{ErrorCode, Perms, SessionId, Stat, Zxid};
use zk_recipes::machine::{Event, LockMode, Scheme};
use zk_recipes::{LockError, Loss, ModeError, Unconfirmed};
use zk_session::{Error, State};

use super::barriers::READY;
use super::{AttemptId, ClientEvent, LockKind, SimClient};
use crate::server::Ensemble;

/// Identifies an attempt among those of all clients.
pub(super) type Who = (u64, AttemptId);

#[derive(Debug)]
struct Attempt {
    lock_path: String,
    demand: LockKind,
    session: SessionId,
    /// The path of its node, once known.
    node: Option<String>,
    holds: bool,
    /// Whether the owner relies on the lock, by the events of the machine alone.
    is_relied_on: bool,
    /// The token of the lock that it holds.
    token: Zxid,
    /// Whether it must learn of the deletion of its node before anything newer.
    is_guarded: bool,
    /// Whether servers withheld events about its node.
    is_unseen: bool,
    /// A transaction after the deletion of its node.
    gone_at: Option<Zxid>,
    /// The conversion of its lock that is not answered yet.
    conversion: Option<Conversion>,
}

#[derive(Clone, Copy, Debug)]
struct Conversion {
    /// The last transaction before it. A node that is older is of a refused conversion.
    began: Zxid,
    /// Whether the ensemble has had the writer's node of an upgrade.
    has_node: bool,
    /// Whether another contender was there before that node.
    had_others: bool,
    /// Whether the client had no connection at some moment since it began.
    was_cut: bool,
}

/// Records every violation of mutual exclusion, of order and of cleanup.
#[derive(Debug, Default)]
pub(super) struct LockChecker {
    attempts: BTreeMap<Who, Attempt>,
    /// Attempts that believe to hold a lock, by its path.
    holders: BTreeMap<String, BTreeMap<Who, LockKind>>,
    /// The last fencing token of an exclusive holder.
    tokens: BTreeMap<String, Zxid>,
    /// Clients for which servers lose events.
    misses: BTreeSet<u64>,
    /// The attempt woken by the deletion of each node.
    woken: BTreeMap<String, Who>,
    /// The scheme of each parent whose children have one name for each attempt, and its `pzxid` at
    /// the last check.
    checked: BTreeMap<String, (Option<Scheme>, Zxid)>,
    /// The nodes of readers that have upgraded, and those of writers whose upgrade has failed. Their
    /// deletion may take as long as it likes.
    discarded: BTreeSet<String>,
    /// The nodes of textbook locks.
    textbooks: BTreeSet<String>,
    acquisitions: u64,
    /// Whether an event was handled since the last check.
    is_stale: bool,
    /// The zxid of the last check.
    checked_at: Zxid,
}

impl LockChecker {
    /// Returns the number of acquisitions.
    pub(super) fn acquisitions(&self) -> u64 {
        self.acquisitions
    }

    /// Returns an attempt that believes to hold a lock.
    pub(super) fn holder(&self, lock: &str) -> Option<Who> {
        self.holders.get(lock)?.keys().next().copied()
    }

    /// Returns whether the ensemble has the node that an attempt believes to hold the lock with.
    pub(super) fn is_there(&self, who: Who, ensemble: &Ensemble) -> bool {
        self.attempts.get(&who).is_some_and(|attempt| is_there(attempt, ensemble))
    }

    /// Returns whether contenders of other clients, whose events are not lost, are in the queue of an
    /// attempt.
    pub(super) fn is_awaited(&self, who: Who, ensemble: &Ensemble) -> bool {
        let Some(attempt) = self.attempts.get(&who) else { return false };
        let is_other = |child: &str| {
            let node = ensemble.node(&format!("{}/{child}", attempt.lock_path));
            node.is_some_and(|node| node.stat().ephemeral_owner != attempt.session)
        };
        let node = ensemble.node(&attempt.lock_path);
        !self.misses.contains(&who.0) && node.is_some_and(|node| node.children().any(is_other))
    }

    /// Returns the path, the kind and the token of a lock that an attempt believes to hold.
    pub(super) fn holding(&self, who: Who) -> Option<(&str, LockKind, Zxid)> {
        let attempt = self.attempts.get(&who)?;
        let holders = self.holders.get(&attempt.lock_path)?;
        Some((&attempt.lock_path, *holders.get(&who)?, attempt.token))
    }

    /// Returns whether a client believes that all of these attempts hold their locks.
    pub(super) fn all_hold(&self, client: u64, attempts: &[AttemptId]) -> bool {
        let holds = |who| self.holders.values().any(|holders| holders.contains_key(&who));
        attempts.iter().all(|attempt| holds((client, *attempt)))
    }

    /// Returns what an attempt acquires.
    pub(super) fn kind(&self, who: Who) -> Option<LockKind> {
        self.attempts.get(&who).map(|attempt| attempt.demand)
    }

    /// Returns whether the ensemble has the node of an attempt.
    pub(super) fn owns(&self, who: Who, ensemble: &Ensemble) -> bool {
        self.attempts.get(&who).is_some_and(|attempt| {
            let path = |child: &str| format!("{}/{child}", attempt.lock_path);
            let holds_it = |(child, _): (&str, Zxid)| {
                is_of(attempt, child) && !self.discarded.contains(&path(child))
            };
            // The reader's node may have replaced the writer's, although the reply is not there.
            is_there(attempt, ensemble)
                || is_downgrading(attempt) && children(attempt, ensemble).any(holds_it)
        })
    }

    /// Records that a client has no connection, or had none for a moment.
    pub(super) fn connection_was_lost(&mut self, client: u64) {
        for conversion in self.of_client(client).filter_map(|it| it.conversion.as_mut()) {
            conversion.was_cut = true;
        }
    }

    pub(super) fn handle_event(
        &mut self,
        (client, session): (u64, SessionId),
        event: &ClientEvent,
        ensemble: &Ensemble,
        found: &mut Vec<String>,
    ) {
        self.is_stale = true;
        match event {
            ClientEvent::AttemptStarted(id, lock_path, demand) => {
                for (lock_path, scheme) in parents(lock_path, *demand) {
                    self.checked.entry(lock_path).or_insert((scheme, Zxid::ZERO));
                }
                let (lock_path, demand) = (lock_path.clone(), *demand);
                if demand == LockKind::Textbook {
                    self.textbooks.insert(lock_path.clone());
                }
                let attempt = Attempt {
                    node: (demand == LockKind::Textbook).then(|| lock_path.clone()),
                    lock_path,
                    demand,
                    session,
                    holds: false,
                    is_relied_on: false,
                    token: Zxid::ZERO,
                    is_guarded: false,
                    is_unseen: false,
                    gone_at: None,
                    conversion: None,
                };
                self.attempts.insert((client, *id), attempt);
            }
            ClientEvent::Lock(id, event) => {
                self.event((client, *id), session, event, ensemble, found);
            }
            ClientEvent::Guarded(id, path) => {
                let who = (client, *id);
                if let Some(attempt) = self.attempts.get_mut(&who)
                    && attempt.node.as_ref() == Some(path)
                {
                    let holders = self.holders.get(&attempt.lock_path);
                    attempt.is_guarded = holders.is_some_and(|holders| holders.contains_key(&who));
                }
            }
            ClientEvent::Woken(id, path) => {
                let who = (client, *id);
                let attempt = self.attempts.get(&who);
                let own = attempt.and_then(|attempt| attempt.node.as_deref());
                // A writer's end wakes all readers behind it, and each change of the permits
                // wakes waiters of a semaphore. An attempt whose own node was deleted by others
                // still watches its predecessor.
                let only_one = attempt.is_some_and(|attempt| {
                    attempt.demand == LockKind::Mutex && is_there(attempt, ensemble)
                });
                if only_one
                    && own != Some(path)
                    && *self.woken.entry(path.clone()).or_insert(who) != who
                {
                    found.push(format!("{path}: its deletion woke {who:?} and another attempt"));
                }
            }
            ClientEvent::Deletes(id, path) => {
                let who = (client, *id);
                let attempt = self.attempts.get(&who);
                if attempt.is_some_and(|it| it.is_relied_on && it.node.as_ref() == Some(path)) {
                    found.push(format!("{who:?}: relies on {path}, whose deletion is submitted"));
                }
            }
            ClientEvent::Converting(id) => {
                if let Some(attempt) = self.attempts.get_mut(&(client, *id)) {
                    attempt.conversion = Some(Conversion {
                        began: ensemble.zxid(),
                        has_node: false,
                        had_others: false,
                        was_cut: false,
                    });
                    look_for_others(attempt, ensemble);
                }
            }
            ClientEvent::Released(id)
            | ClientEvent::Leaving(id)
            | ClientEvent::AttemptFinished(id) => {
                self.release((client, *id));
            }
            _ => {}
        }
        if let ClientEvent::AttemptFinished(id) = event {
            self.attempts.remove(&(client, *id));
        }
    }

    fn event(
        &mut self,
        who: Who,
        session: SessionId,
        event: &Event,
        ensemble: &Ensemble,
        found: &mut Vec<String>,
    ) {
        let Some(attempt) = self.attempts.get_mut(&who) else {
            return found.push(format!("{who:?}: {event:?} after it finished"));
        };
        match event {
            Event::Acquired { .. } => attempt.is_relied_on = true,
            Event::Releasing
            | Event::Lost(_)
            | Event::Released
            | Event::Failed(_)
            | Event::Refused(_) => {
                attempt.is_relied_on = false;
            }
            _ => {}
        }
        match event {
            Event::Enqueued { node, .. } => {
                let path = format!("{}/{node}", attempt.lock_path);
                // In a lock path that was made again, an attempt can get the same name again.
                self.woken.remove(&path);
                attempt.node = Some(path);
                // A waiter queues again on the next session.
                attempt.session = session;
            }
            Event::Acquired { node, token } => {
                if let LockKind::Permits { .. } = attempt.demand {
                    attempt.node = Some(format!("{}/leases/{node}", attempt.lock_path));
                }
                if core::mem::replace(&mut attempt.holds, true) {
                    found.push(format!("{who:?}: acquired twice"));
                }
                if attempt.session != session {
                    found.push(format!("{who:?}: acquired with the node of an earlier session"));
                }
                let holders = self.holders.entry(attempt.lock_path.clone()).or_default();
                holders.insert(who, attempt.demand);
                attempt.token = *token;
                self.acquisitions += 1;
                self.acquired(who, &[node], *token, ensemble, found);
            }
            Event::Converted { mode, node, token } => {
                let before = attempt.node.replace(format!("{}/{node}", attempt.lock_path));
                (attempt.is_guarded, attempt.gone_at, attempt.conversion) = (false, None, None);
                let demand = match mode {
                    LockMode::Exclusive => LockKind::Write,
                    LockMode::Shared => LockKind::Read,
                };
                let was = core::mem::replace(&mut attempt.demand, demand);
                let token_before = core::mem::replace(&mut attempt.token, *token);
                let is_upgrade = was == LockKind::Read && demand == LockKind::Write;
                if (token_before < *token) != is_upgrade || token_before > *token {
                    found.push(format!("{who:?}: token {token_before} became {token}: {event:?}"));
                }
                let holders = self.holders.entry(attempt.lock_path.clone()).or_default();
                if holders.contains_key(&who) {
                    holders.insert(who, demand);
                }
                if is_upgrade {
                    // The node of the reader is deleted only now.
                    self.discarded.extend(before.clone());
                    let before = before.as_deref().and_then(|path| path.rsplit('/').next());
                    self.acquired(
                        who,
                        &[node, before.unwrap_or_default()],
                        *token,
                        ensemble,
                        found,
                    );
                }
            }
            Event::NotConverted(_) => {
                attempt.conversion = None;
                if attempt.demand == LockKind::Read {
                    let writers = children(attempt, ensemble)
                        .filter(|(child, _)| is_writer(child) && is_of(attempt, child));
                    let path = |(child, _)| format!("{}/{child}", attempt.lock_path);
                    self.discarded.extend(writers.map(path));
                }
            }
            Event::Lost(_) | Event::Released | Event::Failed(_) | Event::Refused(_) => {
                self.release(who);
            }
            _ => {}
        }
    }

    /// Returns whether the end of an attempt or a hold, or the answer to a conversion, has a cause.
    pub(super) fn has_cause(
        &self,
        who: Who,
        event: &Event,
        (now, client): (Duration, &SimClient),
        ensemble: &Ensemble,
    ) -> bool {
        let Some(attempt) = self.attempts.get(&who) else { return true };
        let has_ended = || {
            matches!(client.state(), State::Ended(_) | State::Renewing)
                || client.id() != attempt.session
        };
        let upgrade = attempt.conversion.filter(|_| attempt.demand == LockKind::Read);
        match event {
            Event::Lost(Loss::NodeDeleted)
            | Event::Failed(LockError::NodeVanished | LockError::Lost(Loss::NodeDeleted)) => {
                !self.owns(who, ensemble)
            }
            Event::Lost(Loss::LeaseEnded)
            | Event::Failed(LockError::NotConfirmed(Unconfirmed::LeaseEnded)) => {
                client.lease().is_none_or(|lease| lease <= now)
            }
            Event::Lost(Loss::Ended(_) | Loss::Renewed)
            | Event::Failed(LockError::Ended(_) | LockError::NotConfirmed(Unconfirmed::Ended(_))) => {
                has_ended()
            }
            Event::Converted { .. } | Event::NotConverted(_) if attempt.conversion.is_none() => {
                false
            }
            Event::NotConverted(ModeError::NotAlone) => upgrade.is_some_and(|it| it.had_others),
            Event::NotConverted(ModeError::Lock(LockError::Request(Error::ConnectionLost))) => {
                upgrade.is_some_and(|it| it.was_cut)
            }
            // A third party has deleted the writer's node.
            Event::NotConverted(ModeError::Lock(LockError::NodeVanished)) => {
                upgrade.is_some_and(|it| new_writer(attempt, it, ensemble).is_none())
            }
            // A third party has deleted its node, and then the lock path.
            Event::NotConverted(ModeError::Lock(LockError::Request(Error::Server(
                ErrorCode::NO_NODE,
            )))) => !is_there(attempt, ensemble),
            // The client limits its pending requests.
            Event::NotConverted(ModeError::Lock(LockError::Request(error))) if error.is_full() => {
                true
            }
            // A third party forbids the nodes, or the replies are limited.
            Event::Failed(LockError::Request(error))
            | Event::NotConverted(ModeError::Lock(LockError::Request(error))) => {
                matches!(error, Error::Server(ErrorCode::NO_AUTH) | Error::ReplyTooLarge { .. })
            }
            Event::Failed(LockError::Unreadable { node }) => {
                let node = ensemble.node(&format!("{}/{node}", attempt.lock_path));
                // It may be readable again, or gone, by the time the refusal arrives.
                node.is_none_or(|node| node.stat().aversion > 0)
            }
            Event::Lost(_) | Event::Failed(_) | Event::Refused(_) | Event::NotConverted(_) => false,
            _ => true,
        }
    }

    /// Checks that a client holds no lock when its next session begins. Those that wait queue again.
    pub(super) fn session_expired(&self, client: u64, found: &mut Vec<String>) {
        let holders = self.holders.values().flat_map(BTreeMap::keys);
        for who in holders.filter(|who| who.0 == client) {
            found.push(format!("{who:?}: its lock outlives its session"));
        }
    }

    fn of_client(&mut self, client: u64) -> impl Iterator<Item = &mut Attempt> {
        let all = (client, AttemptId::MIN)..=(client, AttemptId::MAX);
        self.attempts.range_mut(all).map(|(_, attempt)| attempt)
    }

    /// Records that a server loses an event for a client, now or later.
    pub(super) fn event_is_lost(&mut self, client: u64) {
        self.misses.insert(client);
    }

    /// Records that the ensemble loses all data. No transaction of its new history tells clients what
    /// has become of their nodes, and tokens may be smaller.
    pub(super) fn history_is_lost(&mut self) {
        self.attempts.values_mut().for_each(|attempt| attempt.is_unseen = true);
        self.tokens.clear();
    }

    /// Checks that a client which has seen this transaction knows whether it holds its locks.
    pub(super) fn check_client(&mut self, client: u64, seen: Zxid) -> Option<String> {
        let is_wrong = |attempt: &&mut Attempt| {
            // Which of two nodes it has is not known until the downgrade is answered.
            attempt.is_guarded
                && !is_downgrading(attempt)
                && !attempt.is_unseen
                && attempt.gone_at.is_some_and(|gone| gone <= seen)
        };
        if self.misses.contains(&client) {
            return None;
        }
        let attempt = self.of_client(client).find(is_wrong)?;
        attempt.is_unseen = true;
        let (lock, gone) = (&attempt.lock_path, attempt.gone_at);
        Some(format!("holds {lock} at {seen}, although its node is gone since {gone:?}"))
    }

    /// Returns whether a client believes to hold a lock.
    pub(super) fn is_holder(&self, client: u64) -> bool {
        self.holders.values().flat_map(BTreeMap::keys).any(|(of, _)| *of == client)
    }

    fn release(&mut self, who: Who) {
        if let Some(attempt) = self.attempts.get_mut(&who) {
            attempt.is_guarded = false;
        }
        for holders in self.holders.values_mut() {
            holders.remove(&who);
        }
    }

    /// Checks the order and the token of an acquisition that the ensemble agrees with.
    fn acquired(
        &mut self,
        who: Who,
        own: &[&str],
        token: Zxid,
        ensemble: &Ensemble,
        found: &mut Vec<String>,
    ) {
        let Some(attempt) = self.attempts.get(&who) else { return };
        if !is_there(attempt, ensemble) {
            // Every later node has a greater czxid, so this is the claimed one.
            let is_of_another =
                |stat: Stat| stat.czxid <= token && stat.ephemeral_owner != attempt.session;
            if attempt.demand == LockKind::Textbook
                && ensemble.node(&attempt.lock_path).is_some_and(|it| is_of_another(it.stat()))
            {
                found.push(format!("{who:?}: acquired the node of another"));
            }
            return;
        }
        if let LockKind::Permits { .. } | LockKind::DoubleBarrier { .. } = attempt.demand {
            return;
        }
        let last = self.tokens.entry(attempt.lock_path.clone()).or_default();
        if token <= *last {
            found.push(format!("{who:?}: acquired with token {token} after {last}"));
        }
        if attempt.demand != LockKind::Read {
            *last = token;
        }
        let is_blocked_by = |child: &&str| attempt.demand != LockKind::Read || is_writer(child);
        let children = ensemble.node(&attempt.lock_path).into_iter().flat_map(|dir| dir.children());
        for child in children.filter(|child| !own.contains(child)).filter(is_blocked_by) {
            let path = format!("{}/{child}", attempt.lock_path);
            if ensemble.node(&path).is_some_and(|child| child.stat().czxid < token) {
                found.push(format!("{who:?}: acquired the lock before {child}"));
            }
        }
    }

    pub(super) fn check(&mut self, ensemble: &Ensemble, found: &mut Vec<String>) {
        if ensemble.leader().is_none() {
            return;
        }
        let has_changed =
            core::mem::replace(&mut self.checked_at, ensemble.zxid()) != ensemble.zxid();
        if core::mem::take(&mut self.is_stale) || has_changed {
            self.check_holders(ensemble, found);
        }
        if has_changed {
            for attempt in self.attempts.values_mut() {
                look_for_others(attempt, ensemble);
            }
            self.check_nodes(ensemble);
            self.check_parents(ensemble, found);
        }
    }

    fn check_holders(&self, ensemble: &Ensemble, found: &mut Vec<String>) {
        for (lock_path, holders) in &self.holders {
            // Demands that do not conflict need no comparison with the ensemble.
            if may_hold_together(holders.values()) {
                continue;
            }
            let is_owner = |(who, _): &(&Who, &LockKind)| {
                self.attempts.get(who).is_some_and(|attempt| is_there(attempt, ensemble))
            };
            let owners: BTreeMap<_, _> = holders.iter().filter(is_owner).collect();
            if !may_hold_together(owners.values().copied()) {
                found.push(format!("{lock_path}: held by {owners:?}"));
            }
        }
    }

    /// Records which holders have lost their nodes.
    fn check_nodes(&mut self, ensemble: &Ensemble) {
        for who in self.holders.values().flat_map(BTreeMap::keys) {
            let Some(attempt) = self.attempts.get_mut(who) else { continue };
            let Some(path) = &attempt.node else { continue };
            match ensemble.node(path) {
                Some(node) => {
                    let may_read = |perms: Perms| perms.0 & Perms::READ.0 != 0;
                    attempt.is_unseen |= !node.acl().iter().any(|grant| may_read(grant.perms));
                }
                None => attempt.gone_at = attempt.gone_at.or(Some(ensemble.zxid())),
            }
        }
    }

    fn check_parents(&mut self, ensemble: &Ensemble, found: &mut Vec<String>) {
        for (lock_path, (scheme, checked)) in &mut self.checked {
            let Some(node) = ensemble.node(lock_path) else { continue };
            if core::mem::replace(checked, node.stat().pzxid) != node.stat().pzxid {
                let Some(scheme) = scheme else { continue };
                // An upgrade has a node of each mode for a while, and after a downgrade that follows
                // at once, another reader's node.
                let attempt_and_mode = |child| {
                    let name = scheme.parse(child)?;
                    Some((name.guid?, name.mode))
                };
                let is_discarded =
                    |child: &&str| self.discarded.contains(&format!("{lock_path}/{child}"));
                let others: Vec<_> = node.children().filter(|child| !is_discarded(child)).collect();
                let names: BTreeSet<_> =
                    others.iter().copied().filter_map(attempt_and_mode).collect();
                if names.len() < others.len() {
                    found.push(format!("{lock_path}: two nodes of one attempt"));
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
        for lock_path in self.checked.keys() {
            let children = ensemble.node(lock_path).into_iter().flat_map(|node| node.children());
            for child in children.filter(|child| *child != READY) {
                found.push(format!("{lock_path}/{child} remains without an owner"));
            }
        }
        for lock_path in &self.textbooks {
            if ensemble.node(lock_path).is_some() {
                found.push(format!("{lock_path} remains without an owner"));
            }
        }
    }
}

/// Returns whether the ensemble has the node of an attempt, and its session.
fn is_there(attempt: &Attempt, ensemble: &Ensemble) -> bool {
    let node = attempt.node.as_ref().and_then(|path| ensemble.node(path));
    node.is_some_and(|node| node.stat().ephemeral_owner == attempt.session)
        && ensemble.session_timeout(attempt.session).is_some()
}

/// Returns whether a writer waits for the answer to its downgrade.
fn is_downgrading(attempt: &Attempt) -> bool {
    attempt.conversion.is_some() && attempt.demand == LockKind::Write
}

/// Looks for other contenders until the writer's node of an upgrade is there. Later ones are behind
/// it.
fn look_for_others(attempt: &mut Attempt, ensemble: &Ensemble) {
    let Some(conversion @ Conversion { has_node: false, had_others, .. }) = attempt.conversion
    else {
        return;
    };
    let writer = new_writer(attempt, conversion, ensemble);
    let is_before = |other: Zxid| writer.is_none_or(|writer| other < writer);
    let others = children(attempt, ensemble).filter(|(child, _)| !is_of(attempt, child));
    let has_others = others.map(|(_, czxid)| czxid).any(is_before);
    attempt.conversion = Some(Conversion {
        has_node: writer.is_some(),
        // Those that left in the same step as the node came were there as well.
        had_others: has_others || writer.is_some() && had_others,
        ..conversion
    });
}

/// Returns the czxid of the writer's node that an upgrade has created, if it still exists.
fn new_writer(attempt: &Attempt, conversion: Conversion, ensemble: &Ensemble) -> Option<Zxid> {
    let is_new = |(child, czxid): &(&str, Zxid)| {
        *czxid > conversion.began && is_writer(child) && is_of(attempt, child)
    };
    children(attempt, ensemble).find(is_new).map(|(_, czxid)| czxid)
}

/// Returns the names and the czxids of the nodes of contenders for the lock of an attempt.
fn children<'e>(
    attempt: &Attempt,
    ensemble: &'e Ensemble,
) -> impl Iterator<Item = (&'e str, Zxid)> {
    let czxid = |child: &str| {
        let node = ensemble.node(&format!("{}/{child}", attempt.lock_path));
        node.map(|node| node.stat().czxid)
    };
    let names = ensemble.node(&attempt.lock_path).into_iter().flat_map(|node| node.children());
    names.filter_map(move |child| Some((child, czxid(child)?)))
}

/// Returns whether a node of a read/write lock has the GUID of this attempt.
fn is_of(attempt: &Attempt, child: &str) -> bool {
    let guid = |name: &str| Scheme::CURATOR_READ_WRITE.parse(name)?.guid;
    let own = attempt.node.as_deref().and_then(|path| guid(path.rsplit('/').next()?));
    own.is_some() && own == guid(child)
}

/// Returns the parents of the nodes of contenders, with the naming schemes of those whose children
/// have one name for each attempt.
fn parents(path: &str, demand: LockKind) -> Vec<(String, Option<Scheme>)> {
    match demand {
        LockKind::Mutex => vec![(path.to_owned(), Some(Scheme::CURATOR_MUTEX))],
        LockKind::Read | LockKind::Write => {
            vec![(path.to_owned(), Some(Scheme::CURATOR_READ_WRITE))]
        }
        LockKind::Permits { .. } => vec![
            (format!("{path}/locks"), Some(Scheme::CURATOR_MUTEX)),
            // An attempt has one node for each of its permits.
            (format!("{path}/leases"), None),
        ],
        LockKind::DoubleBarrier { .. } => vec![(path.to_owned(), None)],
        LockKind::Textbook | LockKind::Barrier => vec![],
    }
}

pub(super) fn is_writer(child: &str) -> bool {
    let name = Scheme::CURATOR_READ_WRITE.parse(child);
    name.is_some_and(|name| name.mode == LockMode::Exclusive)
}

/// Returns whether these demands may hold one lock at the same time.
pub(super) fn may_hold_together<'a>(demands: impl Iterator<Item = &'a LockKind> + Clone) -> bool {
    let permits =
        |demand: &LockKind| if let LockKind::Permits { count, .. } = demand { *count } else { 0 };
    let permits: u32 = demands.clone().map(permits).sum();
    demands.clone().all(|demand| match demand {
        LockKind::Mutex | LockKind::Write | LockKind::Textbook => demands.clone().count() == 1,
        LockKind::Read | LockKind::Barrier | LockKind::DoubleBarrier { .. } => true,
        LockKind::Permits { of, .. } => permits <= *of,
    })
}
