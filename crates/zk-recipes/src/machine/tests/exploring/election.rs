//! What candidates do in every world within bounds.

use alloc::collections::BTreeSet;

use super::super::model::{Act, Budget, Model, Play, Tree};
use super::*;

#[derive(Clone, Hash)]
struct Election {
    candidates: Vec<Candidate>,
    /// The newest token of a leader.
    token: i64,
    /// Whether a session can only be lost, and no node by itself.
    nobody_meddles: bool,
    /// A mistake of the callers: they do not hear of suspensions.
    is_deaf: bool,
    sights: BTreeSet<&'static str>,
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

impl core::hash::Hash for Stance {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        format!("{:?}", self.0).hash(state);
    }
}

impl Play for Election {
    type Machine = Candidacy;

    const DIRECTORY: &'static str = "/election";

    fn machine(&self, contest: Contest) -> Candidacy {
        Candidacy::new(contest)
    }

    /// Who leads resigns at last, so that all others can lead; and anybody may resign.
    fn acts(&self, party: usize) -> (Option<Act>, Option<Act>) {
        let Candidate { leadership: Stance(leadership), resigns, .. } = &self.candidates[party];
        match leadership {
            _ if *resigns => (None, None),
            Leadership::Leader(_) | Leadership::Suspended(_) => (Some(Act::LetGo), None),
            _ => (None, Some(Act::LetGo)),
        }
    }

    fn acted(&mut self, party: usize, _: Act) {
        self.candidates[party].resigns = true;
    }

    fn told(&mut self, party: usize, event: &Event, _: &Tree) -> Result<(), String> {
        if self.is_deaf && matches!(event, Event::Suspended | Event::Resumed) {
            return Ok(());
        }
        let candidate = &mut self.candidates[party];
        let Stance(before) = &candidate.leadership;
        let after = before.after(event, Self::DIRECTORY);
        let sight = match (before, &after, event) {
            (Leadership::Resigned | Leadership::Failed(_), ..) => {
                return Err(format!("{party} tells {event:?} when all is over"));
            }
            (Leadership::Follower, Leadership::Leader(term), _) if !candidate.resigns => {
                if term.token.0 <= self.token {
                    return Err(format!("{party} has a token that does not rise"));
                }
                self.token = term.token.0;
                candidate.terms += 1;
                ["leads", "leads again"][candidate.terms.min(2) - 1]
            }
            (_, Leadership::Leader(_), Event::Acquired { .. }) => {
                return Err(format!("{party} is elected out of turn"));
            }
            (Leadership::Suspended(_), Leadership::Leader(_), _) => "leads still",
            (Leadership::Leader(_) | Leadership::Suspended(_), Leadership::Follower, _) => "loses",
            (_, Leadership::Resigned, _) if !candidate.resigns => {
                return Err(format!("{party} resigns by itself"));
            }
            (_, Leadership::Resigned, _) => "resigns",
            (_, Leadership::Failed(LockError::Ended(_)), _) => "ends with its session",
            (_, Leadership::Failed(LockError::NotConfirmed(_)), _) if candidate.resigns => {
                "resigns without an answer"
            }
            (_, Leadership::Failed(error), _) => return Err(format!("{party} fails: {error}")),
            _ => "goes on",
        };
        self.sights.insert(sight);
        candidate.leadership = Stance(after);
        Ok(())
    }

    fn is_over(&self, party: usize) -> bool {
        let Stance(leadership) = &self.candidates[party].leadership;
        matches!(leadership, Leadership::Resigned | Leadership::Failed(_))
    }

    fn check(&mut self, tree: &Tree) -> Result<(), String> {
        // Whoever resigns does not rely on it any more.
        let unsuspecting = self.candidates.iter().filter_map(|it| match &it.leadership {
            Stance(Leadership::Leader(term)) if !it.resigns => Some(term),
            _ => None,
        });
        // One whose node somebody has deleted may not have heard of that.
        let is_there = |term: &&Term| self.nobody_meddles || tree.node(&term.node).is_some();
        if unsuspecting.filter(is_there).count() > 1 {
            return Err("two lead, and neither suspects it".to_string());
        }
        let mut owners: Vec<_> = tree.owned().map(|(_, owner)| owner).collect();
        owners.sort_unstable();
        match owners.array_windows().find(|[one, other]| one == other) {
            Some([party, _]) => Err(format!("{party} stands twice")),
            None => Ok(()),
        }
    }

    fn take_sights(&mut self) -> BTreeSet<&'static str> {
        core::mem::take(&mut self.sights)
    }
}

fn election(candidates: usize, budget: Budget) -> Model<Election> {
    let leadership = Stance(Leadership::Follower);
    let candidate = Candidate { leadership, terms: 0, resigns: false };
    let election = Election {
        candidates: alloc::vec![candidate; candidates],
        token: 0,
        nobody_meddles: budget.meddling == 0,
        is_deaf: false,
        sights: BTreeSet::new(),
    };
    Model::new(election, SCHEME, candidates, budget)
}

#[test]
fn two_lead_in_turn() {
    let budget = Budget { whims: 1, ..Budget::default() };
    search::prove(election(2, budget), 287, &["goes on", "leads", "resigns"]);
}

#[test]
fn of_two_whose_sessions_may_be_lost_one_leads_without_suspicion() {
    let budget = Budget { faults: 2, ..Budget::default() };
    let sights = ["leads", "leads still", "resigns", "ends with its session"];
    search::prove(election(2, budget), 21_751, &[&sights[..], &["goes on"]].concat());
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn of_two_whose_nodes_may_be_deleted_each_queues_again() {
    let budget = Budget { meddling: 2, whims: 1, ..Budget::default() };
    let sights = ["leads", "leads again", "loses", "resigns", "goes on"];
    search::prove(election(2, budget), 28_938, &sights);
}

const ALL: [&str; 6] = ["leads", "leads again", "leads still", "loses", "resigns", "goes on"];

#[test]
fn one_survives_faults_of_every_kind() {
    let budget = Budget { faults: 3, meddling: 2, whims: 1, ..Budget::default() };
    let sights = [&ALL[..], &["ends with its session"]].concat();
    search::prove(election(1, budget), 19_403, &sights);
}

#[test]
#[ignore = "ten seconds; in a release build two"]
fn two_survive_faults_of_every_kind() {
    let budget = Budget { faults: 1, meddling: 1, whims: 1, ..Budget::default() };
    search::prove(election(2, budget), 119_167, &ALL);
}

#[test]
fn who_loses_the_lead_with_its_lease_queues_again_behind_no_node_of_its_own() {
    let budget = Budget { faults: 2, leases: 1, slow_clocks: true, ..Budget::default() };
    let sights = [&ALL[..], &["ends with its session", "resigns without an answer"]].concat();
    search::prove(election(2, budget), 48_372, &sights);
}

#[test]
fn who_does_not_hear_of_a_suspension_leads_beside_another() {
    let budget = Budget { faults: 2, ..Budget::default() };
    let mut election = election(2, budget);
    election.play.is_deaf = true;
    search::refute(election, "two lead, and neither suspects it", 6);
}
