//! What candidates do in every world within bounds.

use super::super::world::{Act, Line, Milestones, Play, Scene, Told, Tree, When, guid, session};
use super::*;

const LOCK_PATH: &str = "/election";

#[derive(Clone, Hash)]
struct Election {
    candidates: Vec<Candidate>,
    /// The newest token of a leader.
    token: i64,
    /// Whether a session can only be lost, and no node by itself.
    nobody_meddles: bool,
    /// A mistake of the callers: they do not hear of suspensions.
    is_deaf: bool,
}

#[derive(Clone, Hash)]
struct Candidate {
    leadership: Stance,
    terms: usize,
    resigns: bool,
}

/// A [`Leadership`] that can be hashed.
#[derive(Clone, PartialEq, Eq)]
struct Stance(Leadership);

impl Hash for Stance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        format!("{:?}", self.0).hash(state);
    }
}

impl Play for Election {
    type Machine = ElectionMachine;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        alloc::vec![(LOCK_PATH, b"")]
    }

    fn machines(&self) -> Vec<ElectionMachine> {
        let config = |client| {
            AttemptConfig::new(LOCK_PATH.to_string(), SCHEME, guid(client, 0), session(client))
        };
        (0..self.candidates.len()).map(|client| ElectionMachine::new(config(client))).collect()
    }

    /// Who leads resigns at last, so that all others can lead; and anybody may resign.
    fn acts(&self, client: usize) -> Vec<(Act, When)> {
        match self.candidates[client].resigns {
            true => Vec::new(),
            false if self.progress(client).is_held() => alloc::vec![(Act::Release, When::AtLast)],
            false => alloc::vec![(Act::Release, When::Whim)],
        }
    }

    fn acted(&mut self, client: usize, _: Act, _: &mut Milestones) {
        self.candidates[client].resigns = true;
    }

    fn told(&mut self, client: usize, event: &Event, mut scene: Scene<'_>) -> Result<(), String> {
        if self.is_deaf && matches!(event, Event::Suspended | Event::Resumed) {
            return Ok(());
        }
        let candidate = &mut self.candidates[client];
        let Stance(before) = &candidate.leadership;
        let after = before.after(event, LOCK_PATH);
        let milestone = match (before, &after, event) {
            (Leadership::Resigned | Leadership::Failed(_), ..) => {
                return Err(format!("{client} tells {event:?} when all is over"));
            }
            (Leadership::Follower, Leadership::Leader(term), _) if !candidate.resigns => {
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
            (_, Leadership::Resigned, _) if !candidate.resigns => {
                return Err(format!("{client} resigns by itself"));
            }
            (_, Leadership::Resigned, _) => "resigns",
            (_, Leadership::Failed(LockError::Ended(_)), _) => "ends with its session",
            (_, Leadership::Failed(LockError::NotConfirmed(_)), _) if candidate.resigns => {
                "resigns without an answer"
            }
            (_, Leadership::Failed(error), _) => return Err(format!("{client} fails: {error}")),
            _ => "goes on",
        };
        scene.sees(milestone);
        candidate.leadership = Stance(after);
        Ok(())
    }

    fn progress(&self, client: usize) -> Told {
        match self.candidates[client].leadership.0 {
            Leadership::Leader(_) => Told::Held,
            Leadership::Suspended(_) => Told::Suspended,
            Leadership::Resigned | Leadership::Failed(_) => Told::Over,
            _ => Told::Nothing,
        }
    }

    fn check(&mut self, tree: &Tree, _: &[&Line], _: &mut Milestones) -> Result<(), String> {
        // Whoever resigns does not rely on it any more.
        let unsuspecting = self.candidates.iter().filter_map(|it| match &it.leadership {
            Stance(Leadership::Leader(term)) if !it.resigns => Some(term),
            _ => None,
        });
        // One whose node somebody has deleted may not have heard of that.
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
    let leadership = Stance(Leadership::Follower);
    let candidate = Candidate { leadership, terms: 0, resigns: false };
    let election = Election {
        candidates: alloc::vec![candidate; candidates],
        token: 0,
        nobody_meddles: bounds.meddling == Some(0),
        is_deaf: false,
    };
    World::new(bounds, election)
}

const CALM: Bounds = Bounds { meddling: Some(0), ..Bounds::CALM };

#[test]
fn two_lead_in_turn() {
    let bounds = Bounds { whims: 1, ..CALM };
    search::prove(election(2, bounds), 439, &["goes on", "leads", "resigns"]);
}

#[test]
fn of_two_whose_sessions_may_be_lost_one_leads_without_suspicion() {
    let bounds = Bounds { faults: 2, ..CALM };
    let milestones = ["leads", "leads still", "resigns", "ends with its session"];
    search::prove(election(2, bounds), 42_017, &[&milestones[..], &["goes on"]].concat());
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn of_two_whose_nodes_may_be_deleted_each_queues_again() {
    let bounds = Bounds { meddling: Some(2), whims: 1, ..CALM };
    let milestones = ["leads", "leads again", "loses", "resigns", "goes on"];
    search::prove(election(2, bounds), 88_183, &milestones);
}

const ALL: [&str; 6] = ["leads", "leads again", "leads still", "loses", "resigns", "goes on"];

#[test]
fn one_survives_faults_of_every_kind() {
    let bounds = Bounds { faults: 3, meddling: Some(2), whims: 1, ..CALM };
    let milestones = [&ALL[..], &["ends with its session"]].concat();
    search::prove(election(1, bounds), 21_357, &milestones);
}

#[test]
#[ignore = "ten seconds; in a release build two"]
fn two_survive_faults_of_every_kind() {
    let bounds = Bounds { faults: 1, meddling: Some(1), whims: 1, ..CALM };
    search::prove(election(2, bounds), 275_619, &ALL);
}

#[test]
fn who_loses_the_lead_with_its_lease_queues_again_behind_no_node_of_its_own() {
    let bounds = Bounds { faults: 2, leases: 1, timers: Timers::AtLast, ..CALM };
    let milestones = [&ALL[..], &["ends with its session", "resigns without an answer"]].concat();
    search::prove(election(2, bounds), 69_952, &milestones);
}

#[test]
fn who_does_not_hear_of_a_suspension_leads_beside_another() {
    let bounds = Bounds { faults: 2, ..CALM };
    let mut election = election(2, bounds);
    election.play.is_deaf = true;
    search::refute(election, "two lead, and neither suspects it", 6);
}
