//! Every course of an election within bounds.

use crate::tests::exploring::world::{
    Line, Milestones, Owner, Progress, ReportContext, Tree, Workload, guid, session,
};
use crate::tests::exploring::*;

const LOCK_PATH: &str = "/election";

#[derive(Clone, Hash)]
struct Election {
    candidates: Vec<Candidate>,
    /// The highest token of a leader.
    token: i64,
    /// Whether sessions expire, but no single node is deleted.
    nobody_meddles: bool,
    /// An injected bug of the callers: they ignore suspensions.
    is_deaf: bool,
}

#[derive(Clone, Hash)]
struct Candidate {
    leadership: HashedLeadership,
    terms: usize,
}

/// A [`Leadership`] that implements `Hash`.
#[derive(Clone, PartialEq, Eq)]
struct HashedLeadership(Leadership);

impl Hash for HashedLeadership {
    fn hash<H: Hasher>(&self, state: &mut H) {
        format!("{:?}", self.0).hash(state);
    }
}

impl Workload for Election {
    type Machine = ElectionMachine;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        alloc::vec![(LOCK_PATH, b"")]
    }

    fn machines(&self) -> Vec<ElectionMachine> {
        let config = |client| {
            AttemptConfig::of_node(LOCK_PATH.into(), SCHEME, guid(client, 0), session(client))
        };
        (0..self.candidates.len()).map(|client| ElectionMachine::new(config(client))).collect()
    }

    fn twin(&self, client: usize) -> Option<usize> {
        client.checked_sub(1)
    }

    fn reported(
        &mut self,
        client: usize,
        event: &Event,
        mut context: ReportContext<'_>,
    ) -> Result<Progress, String> {
        let Owner { progress, release } = context.owners[client];
        if self.is_deaf && matches!(event, Event::Suspended | Event::Resumed) {
            return Ok(progress);
        }
        let candidate = &mut self.candidates[client];
        let HashedLeadership(before) = &candidate.leadership;
        let after = before.after(event, LOCK_PATH);
        let milestone = match (before, &after, event) {
            (Leadership::Resigned | Leadership::Failed(_), ..) => {
                return Err(format!("{client} reports {event:?} when all is over"));
            }
            (Leadership::Follower, Leadership::Leader(term), _) if !release => {
                if term.token.0 <= self.token {
                    return Err(format!("{client} has a token that does not rise"));
                }
                self.token = term.token.0;
                candidate.terms += 1;
                ["leads", "leads again"][candidate.terms.min(2) - 1]
            }
            (_, Leadership::Leader(_), Event::Acquired { .. }) => {
                return Err(format!("{client} is elected out of turn"));
            }
            (Leadership::Suspended(_), Leadership::Leader(_), _) => "leads still",
            (Leadership::Leader(_) | Leadership::Suspended(_), Leadership::Follower, _) => "loses",
            (_, Leadership::Resigned, _) if !release => {
                return Err(format!("{client} resigns by itself"));
            }
            (_, Leadership::Resigned, _) => "resigns",
            (_, Leadership::Failed(LockError::Ended(_)), _) => "ends with its session",
            (_, Leadership::Failed(LockError::NotConfirmed(_)), _) if release => {
                "resigns without an answer"
            }
            (_, Leadership::Failed(error), _) => return Err(format!("{client} fails: {error}")),
            _ => "goes on",
        };
        context.reach(milestone);
        let progress = match after {
            Leadership::Leader(_) => Progress::Held,
            Leadership::Suspended(_) => Progress::Suspended,
            Leadership::Resigned | Leadership::Failed(_) => Progress::Over,
            _ => Progress::Nothing,
        };
        candidate.leadership = HashedLeadership(after);
        Ok(progress)
    }

    fn check(
        &mut self,
        tree: &Tree,
        owners: &[Owner],
        _: &[&Line],
        _: &mut Milestones,
    ) -> Result<(), String> {
        // A candidate that resigns does not rely on its leadership.
        let candidates = self.candidates.iter().zip(owners);
        let unsuspecting = candidates.filter_map(|(it, owner)| match &it.leadership {
            HashedLeadership(Leadership::Leader(term)) if !owner.release => Some(term),
            _ => None,
        });
        // The deletion of its node may not have been reported yet.
        let is_there = |term: &&Term| self.nobody_meddles || tree.find(&term.node).is_some();
        if unsuspecting.filter(is_there).count() > 1 {
            return Err("two lead, and neither suspects it".to_string());
        }
        let mut owners: Vec<_> = tree.owned().map(|(_, node)| node.owner).collect();
        owners.sort_unstable();
        match owners.array_windows().find(|[one, other]| one == other) {
            Some([Some(client), _]) => Err(format!("{client} stands twice")),
            _ => Ok(()),
        }
    }
}

fn election(candidates: usize, bounds: Bounds) -> World<Election> {
    let leadership = HashedLeadership(Leadership::Follower);
    let candidate = Candidate { leadership, terms: 0 };
    let election = Election {
        candidates: alloc::vec![candidate; candidates],
        token: 0,
        nobody_meddles: bounds.deletions == Some(0),
        is_deaf: false,
    };
    World::new(bounds, election)
}

const CALM: Bounds = Bounds { deletions: Some(0), ..Bounds::CALM };

#[test]
fn two_candidates_lead_in_turn() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    search::prove(election(2, bounds), 132, &["goes on", "leads", "resigns"]);
}

#[test]
fn of_two_that_may_expire_one_leads_unsuspended() {
    let bounds = Bounds { faults: 2, ..CALM };
    let milestones = ["leads", "leads still", "resigns", "ends with its session"];
    search::prove(election(2, bounds), 6_879, &[&milestones[..], &["goes on"]].concat());
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn of_two_whose_nodes_are_deleted_each_queues_again() {
    let bounds = Bounds { deletions: Some(2), early_commands: 1, ..CALM };
    let milestones = ["leads", "leads again", "loses", "resigns", "goes on"];
    search::prove(election(2, bounds), 21_303, &milestones);
}

const ALL: [&str; 6] = ["leads", "leads again", "leads still", "loses", "resigns", "goes on"];

#[test]
fn one_survives_faults_of_every_kind() {
    let bounds = Bounds { faults: 3, deletions: Some(2), early_commands: 1, ..CALM };
    let milestones = [&ALL[..], &["ends with its session"]].concat();
    search::prove(election(1, bounds), 6_159, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn two_survive_faults_of_every_kind() {
    let bounds = Bounds { faults: 1, deletions: Some(1), early_commands: 1, ..CALM };
    search::prove(election(2, bounds), 44_244, &ALL);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_leader_lost_with_its_lease_queues_behind_no_own_node() {
    let bounds = Bounds { faults: 2, leases: 1, timers: Timers::AtLast, ..CALM };
    let milestones = [&ALL[..], &["ends with its session", "resigns without an answer"]].concat();
    search::prove(election(2, bounds), 13_173, &milestones);
}

const RENEWING: Bounds = Bounds { renews: true, ..CALM };

#[test]
fn one_stands_again_in_its_next_sessions_on_servers_that_lag() {
    let bounds = Bounds { faults: 3, early_commands: 1, late: true, servers: 2, ..RENEWING };
    search::prove(election(1, bounds), 4_999, &ALL);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn two_stand_again_in_their_next_sessions() {
    let bounds = Bounds { faults: 2, early_commands: 1, ..RENEWING };
    search::prove(election(2, bounds), 23_782, &ALL);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn two_stand_again_after_a_renewal_or_a_deletion() {
    let bounds = Bounds { faults: 2, deletions: Some(1), ..RENEWING };
    search::prove(election(2, bounds), 121_339, &ALL);
}

#[test]
fn without_suspension_two_lead_at_once() {
    let bounds = Bounds { faults: 2, ..CALM };
    let mut election = election(2, bounds);
    election.workload.is_deaf = true;
    search::refute(election, "two lead, and neither suspects it", 6);
}
