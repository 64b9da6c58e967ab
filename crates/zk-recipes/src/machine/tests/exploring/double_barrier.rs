//! What members of a double barrier do in every world within bounds.

use alloc::collections::BTreeSet;

use super::super::model::{Act, Budget, Model, Play, Tree};
use super::*;

const READY: &str = "/meeting/ready";

/// As many come as are asked for, each once.
#[derive(Clone, Hash)]
struct Meeting {
    members: Vec<Member>,
    /// How many each of them expects.
    expected: usize,
    /// Whether others were there before, who have not left in order.
    is_used: bool,
    /// The newest transaction after which all were there.
    complete_at: i64,
    sights: BTreeSet<&'static str>,
}

#[derive(Clone, Default, Hash)]
struct Member {
    told: Told,
    /// The transaction in which it came, if it is there.
    came_at: Option<i64>,
    /// Nobody will tell it that all have come, since that has become impossible.
    is_stuck: bool,
    let_go: bool,
    leaves: bool,
    /// Those who were there when it began to leave.
    others: BTreeSet<usize>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Told {
    #[default]
    Nothing,
    Inside,
    Suspended,
    Over,
}

impl Play for Meeting {
    type Machine = Participant;

    const DIRECTORY: &'static str = "/meeting";

    fn left_over(&self) -> Option<&'static str> {
        self.is_used.then_some(READY)
    }

    fn machine(&self, contest: Contest) -> Participant {
        Participant::new(contest, self.expected)
    }

    fn acts(&self, party: usize) -> (Option<Act>, Option<Act>) {
        let Member { told, let_go, leaves, is_stuck, .. } = self.members[party];
        match told {
            _ if let_go => (None, None),
            Told::Nothing if is_stuck => (Some(Act::LetGo), None),
            Told::Inside | Told::Suspended if !leaves => (Some(Act::Leave), Some(Act::LetGo)),
            Told::Nothing | Told::Inside | Told::Suspended => (None, Some(Act::LetGo)),
            Told::Over => (None, None),
        }
    }

    fn acted(&mut self, party: usize, act: Act) {
        let there = |member: &Member| member.came_at.is_some();
        let others = (0..self.members.len()).filter(|place| there(&self.members[*place]));
        let others = others.filter(|other| *other != party).collect();
        let member = &mut self.members[party];
        match act {
            Act::Leave => (member.leaves, member.others) = (true, others),
            Act::LetGo => member.let_go = true,
        }
    }

    fn told(&mut self, party: usize, event: &Event, tree: &Tree) -> Result<(), String> {
        let Member { told, let_go, leaves, came_at, ref others, .. } = self.members[party];
        let through = leaves && !let_go;
        let (told, sight) = match (told, event) {
            (Told::Nothing, Event::Enqueued { .. }) => (Told::Nothing, "comes"),
            (Told::Nothing, Event::Acquired { token, .. }) if !let_go => {
                if self.complete_at < token.0 {
                    return Err(format!("{party} is in before all have come"));
                }
                (Told::Inside, "is in")
            }
            (Told::Nothing, Event::Failed(error)) if !let_go => match error {
                LockError::Ended(_) => (Told::Over, "ends before it is in"),
                LockError::Lost(_) | LockError::NodeVanished => (Told::Over, "is lost before"),
                error => return Err(format!("{party} fails: {error}")),
            },
            (Told::Inside, Event::Suspended) => (Told::Suspended, "is suspended"),
            (Told::Suspended, Event::Resumed) => (Told::Inside, "is in still"),
            (Told::Inside | Told::Suspended, Event::Lost(_)) if !let_go => {
                (Told::Over, if leaves { "is lost on its way out" } else { "is lost inside" })
            }
            (Told::Inside | Told::Suspended, Event::Failed(LockError::Ended(_))) if through => {
                if came_at.is_some_and(|_| tree.owned().any(|(_, owner)| owner == party)) {
                    return Err(format!("{party} was still in"));
                }
                (Told::Over, "hears no more of the others")
            }
            (Told::Inside | Told::Suspended, Event::Released) if through => {
                if tree.owned().any(|(_, owner)| others.contains(&owner)) {
                    return Err(format!("{party} is out before all want to be"));
                }
                (Told::Over, "is out")
            }
            (Told::Nothing | Told::Inside | Told::Suspended, Event::Released) if let_go => {
                (Told::Over, "gives up")
            }
            (_, event) => return Err(format!("{party} tells {event:?} out of turn")),
        };
        self.members[party].told = told;
        self.sights.insert(sight);
        Ok(())
    }

    fn is_over(&self, party: usize) -> bool {
        self.members[party].told == Told::Over
    }

    fn check(&mut self, tree: &Tree) -> Result<(), String> {
        for (party, member) in self.members.iter_mut().enumerate() {
            let own = tree.owned().find(|(_, owner)| *owner == party);
            member.came_at = own.and_then(|(path, _)| Some(tree.node(path)?.created));
        }
        let there = self.members.iter().filter(|member| member.came_at.is_some()).count();
        if there == self.members.len() {
            self.complete_at = tree.zxid;
        }
        let has_gone = |member: &Member| member.let_go || member.told == Told::Over;
        let all_came = tree.node(Self::DIRECTORY).map(|node| node.counter as usize);
        let some_have_gone =
            self.members.iter().any(has_gone) || all_came >= Some(self.members.len());
        let ready = tree.node(READY).map(|ready| ready.modified);
        let is_complete = there == self.members.len();
        for member in &mut self.members {
            let is_told = member.came_at.is_some() && ready > member.came_at;
            member.is_stuck = some_have_gone && !is_complete && !is_told;
        }
        Ok(())
    }

    fn take_sights(&mut self) -> BTreeSet<&'static str> {
        core::mem::take(&mut self.sights)
    }
}

impl Meeting {
    fn of(members: usize) -> Self {
        Self {
            members: alloc::vec![Member::default(); members],
            expected: members,
            is_used: false,
            complete_at: 0,
            sights: BTreeSet::new(),
        }
    }
}

fn meeting(members: usize, budget: Budget) -> Model<Meeting> {
    Model::new(Meeting::of(members), SCHEME, members, budget)
}

const CALM: Budget = Budget { faults: 0, meddling: 0, leases: 0, whims: 0, slow_clocks: true };

#[test]
fn two_wait_for_each_other_before_and_after() {
    search::prove(meeting(2, CALM), 1_539, &["comes", "is in", "is out"]);
}

#[test]
fn who_gives_up_is_not_waited_for() {
    let budget = Budget { whims: 1, ..CALM };
    search::prove(meeting(2, budget), 6_806, &["comes", "is in", "is out", "gives up"]);
}

#[test]
fn what_is_left_over_from_others_lets_nobody_in() {
    let meeting = Meeting { is_used: true, ..Meeting::of(2) };
    let model = Model::new(meeting, SCHEME, 2, Budget { whims: 1, ..CALM });
    search::prove(model, 4_748, &["comes", "is in", "is out", "gives up"]);
}

#[test]
#[ignore = "some seconds; in a release build as well"]
fn a_lost_connection_keeps_nobody_out_or_in() {
    let budget = Budget { faults: 1, ..CALM };
    search::prove(meeting(2, budget), 37_740, &SURVIVED);
}

const SURVIVED: [&str; 5] = ["comes", "is suspended", "is in", "is in still", "is out"];

#[test]
#[ignore = "a minute; in a release build half a minute"]
fn who_dies_is_not_waited_for() {
    let died = ["ends before it is in", "is lost inside", "is lost on its way out"];
    let sights = [&SURVIVED[..], &died, &["hears no more of the others", "gives up"]].concat();
    search::prove(meeting(2, Budget { faults: 2, ..CALM }), 399_206, &sights);
}

#[test]
fn whose_node_is_deleted_is_not_waited_for() {
    let budget = Budget { meddling: 1, ..CALM };
    let sights = ["comes", "is in", "is lost before", "is out", "gives up"];
    search::prove(meeting(2, budget), 12_993, &sights);
}

#[test]
#[ignore = "some seconds; in a release build as well"]
fn who_looks_after_its_node_hears_of_its_end() {
    let budget = Budget { meddling: 1, slow_clocks: false, ..CALM };
    let lost = ["is lost before", "is lost inside", "is lost on its way out"];
    let sights = [&["comes", "is in", "is out", "gives up"][..], &lost].concat();
    search::prove(meeting(2, budget), 83_373, &sights);
}

#[test]
fn who_expects_fewer_is_in_before_all_have_come() {
    let meeting = Meeting { expected: 1, ..Meeting::of(2) };
    let model = Model::new(meeting, SCHEME, 2, CALM);
    search::refute(model, "0 is in before all have come", 5);
}
