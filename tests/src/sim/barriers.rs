//! The checker of barriers: compares what those who wait, enter and leave report with the ensemble.

use alloc::collections::{BTreeMap, BTreeSet};

use zk_proto::Zxid;
use zk_recipes::machine::Event;
use zk_session::State;

use super::locks::Who;
use super::{ClientEvent, LockKind};
use crate::server::Ensemble;

/// The child of a double barrier that is no member.
pub(super) const READY: &str = "ready";

/// A wait for the end of a node.
#[derive(Debug)]
struct Wait {
    path: String,
    /// The node at the start.
    czxid: Option<Zxid>,
    /// Whether the client may have seen since then that the node was missing.
    was_missing: bool,
}

/// A double barrier.
#[derive(Debug)]
struct DoubleBarrier {
    members: usize,
    present: BTreeSet<String>,
    /// Those that were present while at least `members` were, or were let in beside one of those.
    met: BTreeSet<String>,
    /// Those that have been let in, with the last zxid at which that was still to come.
    let_in: BTreeMap<String, Zxid>,
}

/// An attempt to enter a double barrier, and to leave it.
#[derive(Debug)]
struct Visit {
    path: String,
    node: Option<String>,
    /// The others that must leave before it may report that all have left: they were let in with it,
    /// or before it.
    others: Option<BTreeSet<String>>,
}

/// Records everyone who passes a barrier too early.
#[derive(Debug, Default)]
pub(super) struct BarrierChecker {
    waits: BTreeMap<Who, Wait>,
    double_barriers: BTreeMap<String, DoubleBarrier>,
    visits: BTreeMap<Who, Visit>,
    /// The zxid of the last check.
    checked_at: Zxid,
}

impl BarrierChecker {
    /// Handles an event of a client that has seen the transactions up to `seen`. Returns what the
    /// client has passed, or the violation.
    pub(super) fn handle_event(
        &mut self,
        (client, seen): (u64, Zxid),
        event: &ClientEvent,
        ensemble: &Ensemble,
    ) -> Option<Result<&'static str, String>> {
        match event {
            ClientEvent::AttemptStarted(id, path, LockKind::Barrier) => {
                let czxid = ensemble.node(path).map(|node| node.stat().czxid);
                // Its server may lag, but shows nothing older than the client has seen.
                let was_missing = czxid.is_none_or(|czxid| czxid > seen);
                let wait = Wait { path: path.clone(), czxid, was_missing };
                self.waits.insert((client, *id), wait);
            }
            ClientEvent::AttemptStarted(id, path, LockKind::DoubleBarrier { members }) => {
                self.double_barriers.entry(path.clone()).or_insert_with(|| DoubleBarrier {
                    members: *members,
                    present: BTreeSet::new(),
                    met: BTreeSet::new(),
                    let_in: BTreeMap::new(),
                });
                let visit = Visit { path: path.clone(), node: None, others: None };
                self.visits.insert((client, *id), visit);
            }
            // The server of the next session may show anything.
            ClientEvent::State(State::Renewing) => {
                for (_, wait) in self.waits.iter_mut().filter(|(who, _)| who.0 == client) {
                    wait.was_missing = true;
                }
            }
            ClientEvent::Lock(id, event) => {
                return self.event((client, *id), event, ensemble);
            }
            ClientEvent::Leaving(id) => {
                if let Some(visit) = self.visits.get_mut(&(client, *id)) {
                    let let_in = self
                        .double_barriers
                        .get(&visit.path)
                        .and_then(|barrier| barrier.let_in.get(visit.node.as_ref()?).copied());
                    let until = let_in.map_or(Zxid::ZERO, |let_in| let_in.min(seen));
                    let is_other = |name: &String| {
                        let node = ensemble.node(&format!("{}/{name}", visit.path));
                        Some(name) != visit.node.as_ref()
                            && node.is_some_and(|node| node.stat().czxid <= until)
                    };
                    let others = members(&visit.path, ensemble).into_iter().filter(is_other);
                    visit.others = Some(others.collect());
                }
            }
            ClientEvent::Released(id) | ClientEvent::AttemptFinished(id) => {
                self.waits.remove(&(client, *id));
                self.visits.remove(&(client, *id));
            }
            _ => {}
        }
        None
    }

    fn event(
        &mut self,
        who: Who,
        event: &Event,
        ensemble: &Ensemble,
    ) -> Option<Result<&'static str, String>> {
        if let (Some(wait), Event::Released) = (self.waits.get(&who), event) {
            return Some(match wait.was_missing {
                true => Ok("barrier: open"),
                false => Err(format!("{who:?}: passed {} while it was closed", wait.path)),
            });
        }
        let visit = self.visits.get_mut(&who)?;
        match event {
            Event::Acquired { node, .. } => {
                visit.node = Some(node.to_string());
                let barrier = self.double_barriers.get(&visit.path)?;
                Some(match barrier.met.contains(&**node) {
                    true => Ok("double barrier: entered"),
                    false => Err(format!("{who:?}: entered before all were there")),
                })
            }
            Event::Released => {
                let others = visit.others.as_ref()?;
                Some(match others.intersection(&members(&visit.path, ensemble)).next() {
                    None => Ok("double barrier: left"),
                    Some(other) => Err(format!("{who:?}: has left before {other}")),
                })
            }
            _ => None,
        }
    }

    /// Observes the nodes after a step.
    pub(super) fn check(&mut self, ensemble: &Ensemble) {
        let zxid = ensemble.zxid();
        let before = self.checked_at;
        if ensemble.leader().is_none() || core::mem::replace(&mut self.checked_at, zxid) == zxid {
            return;
        }
        for wait in self.waits.values_mut().filter(|wait| !wait.was_missing) {
            let czxid = ensemble.node(&wait.path).map(|node| node.stat().czxid);
            wait.was_missing = czxid.is_none() || czxid != wait.czxid;
        }
        for (path, barrier) in &mut self.double_barriers {
            let mut present = members(path, ensemble);
            let ready = ensemble.node(&format!("{path}/{READY}"));
            if ready.is_some_and(|ready| ready.stat().mzxid > before) {
                let is_inside =
                    |name: &String| barrier.met.contains(name) && barrier.let_in.contains_key(name);
                // Additional participants join one that is inside. It may have left in this step.
                if present.union(&barrier.present).any(is_inside) {
                    barrier.met.extend(present.iter().cloned());
                }
                for name in &present {
                    barrier.let_in.entry(name.clone()).or_insert(before);
                }
            }
            if present == barrier.present {
                continue;
            }
            core::mem::swap(&mut present, &mut barrier.present);
            // Nodes may be created and deleted in one step, so both sets count.
            present.extend(barrier.present.iter().cloned());
            if present.len() >= barrier.members {
                barrier.met.extend(present);
            }
        }
    }

    /// Forgets a client that was removed.
    pub(super) fn forget(&mut self, client: u64) {
        self.waits.retain(|(of, _), _| *of != client);
        self.visits.retain(|(of, _), _| *of != client);
    }
}

/// Returns the names of all members that are there.
fn members(path: &str, ensemble: &Ensemble) -> BTreeSet<String> {
    let children = ensemble.node(path).into_iter().flat_map(|node| node.children());
    children.filter(|child| *child != READY).map(ToString::to_string).collect()
}
