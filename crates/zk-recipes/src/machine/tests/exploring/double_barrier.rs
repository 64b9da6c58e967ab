//! What members of a double barrier do in every world within bounds.

use alloc::collections::BTreeSet;

use super::super::world::{
    Act, Index, Line, Milestones, Play, Scene, Told, Tree, When, guid, session,
};
use super::*;

const LOCK_PATH: &str = "/meeting";

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
    complete_at: Index,
}

#[derive(Clone, Default, Hash)]
struct Member {
    told: Told,
    /// The transaction in which it came, if it is there.
    came_at: Option<Index>,
    /// Nobody will tell it that all have come, since that has become impossible.
    is_stuck: bool,
    release: bool,
    leaves: bool,
    /// Those who were there when it began to leave.
    others: BTreeSet<usize>,
}

impl Play for Meeting {
    type Machine = Participant;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        let used = self.is_used.then_some((READY, &b""[..]));
        [(LOCK_PATH, &b""[..])].into_iter().chain(used).collect()
    }

    fn machines(&self) -> Vec<Participant> {
        let config = |client| {
            AttemptConfig::new(LOCK_PATH.to_string(), SCHEME, guid(client, 0), session(client))
        };
        let machine = |client| Participant::new(config(client), self.expected);
        (0..self.members.len()).map(machine).collect()
    }

    fn acts(&self, client: usize) -> Vec<(Act, When)> {
        let Member { told, release, leaves, is_stuck, .. } = self.members[client];
        match told {
            _ if release => Vec::new(),
            Told::Nothing if is_stuck => alloc::vec![(Act::Release, When::AtLast)],
            Told::Held | Told::Suspended if !leaves => {
                alloc::vec![(Act::Leave, When::AtLast), (Act::Release, When::Whim)]
            }
            Told::Nothing | Told::Held | Told::Suspended => alloc::vec![(Act::Release, When::Whim)],
            Told::Over => Vec::new(),
        }
    }

    fn acted(&mut self, client: usize, act: Act, _: &mut Milestones) {
        let there = |member: &Member| member.came_at.is_some();
        let others = (0..self.members.len()).filter(|place| there(&self.members[*place]));
        let others = others.filter(|other| *other != client).collect();
        let member = &mut self.members[client];
        match act {
            Act::Leave => (member.leaves, member.others) = (true, others),
            Act::Release | Act::Convert(_) => member.release = true,
        }
    }

    fn told(&mut self, client: usize, event: &Event, mut scene: Scene<'_>) -> Result<(), String> {
        let Member { told, release, leaves, came_at, ref others, .. } = self.members[client];
        let through = leaves && !release;
        let tree = scene.tree;
        let owners = || tree.owned().filter_map(|(_, node)| node.owner);
        let (told, milestone) = match (told, event) {
            (Told::Nothing, Event::Enqueued { .. }) => (Told::Nothing, "comes"),
            (Told::Nothing, Event::Acquired { token, .. }) if !release => {
                if i64::from(self.complete_at) < token.0 {
                    return Err(format!("{client} is in before all have come"));
                }
                (Told::Held, "is in")
            }
            (Told::Nothing, Event::Failed(error)) if !release => match error {
                LockError::Ended(_) => (Told::Over, "ends before it is in"),
                LockError::Lost(_) | LockError::NodeVanished => (Told::Over, "is lost before"),
                error => return Err(format!("{client} fails: {error}")),
            },
            (Told::Held, Event::Suspended) => (Told::Suspended, "is suspended"),
            (Told::Suspended, Event::Resumed) => (Told::Held, "is in still"),
            (Told::Held | Told::Suspended, Event::Lost(_)) if !release => {
                (Told::Over, if leaves { "is lost on its way out" } else { "is lost inside" })
            }
            (Told::Held | Told::Suspended, Event::Failed(LockError::Ended(_))) if through => {
                if came_at.is_some_and(|_| owners().any(|owner| owner == client)) {
                    return Err(format!("{client} was still in"));
                }
                (Told::Over, "hears no more of the others")
            }
            (Told::Held | Told::Suspended, Event::Released) if through => {
                if owners().any(|owner| others.contains(&owner)) {
                    return Err(format!("{client} is out before all want to be"));
                }
                (Told::Over, "is out")
            }
            (Told::Nothing | Told::Held | Told::Suspended, Event::Released) if release => {
                (Told::Over, "gives up")
            }
            (_, event) => return Err(format!("{client} tells {event:?} out of turn")),
        };
        self.members[client].told = told;
        scene.sees(milestone);
        Ok(())
    }

    fn progress(&self, client: usize) -> Told {
        self.members[client].told
    }

    fn check(&mut self, tree: &Tree, _: &[&Line], _: &mut Milestones) -> Result<(), String> {
        for (client, member) in self.members.iter_mut().enumerate() {
            member.came_at = tree.owned_by(client, tree.log).next().map(|node| node.created);
        }
        let there = self.members.iter().filter(|member| member.came_at.is_some()).count();
        let is_complete = there == self.members.len();
        if is_complete {
            self.complete_at = tree.log;
        }
        let has_gone = |member: &Member| member.release || member.told == Told::Over;
        let came = tree.all().filter(|(_, node)| node.owner.is_some()).count();
        let some_have_gone = self.members.iter().any(has_gone) || came >= self.members.len();
        let ready = tree.find(READY).map(|ready| ready.data_at(tree.log).0);
        for member in &mut self.members {
            let is_told = member.came_at.is_some() && ready > member.came_at;
            member.is_stuck = some_have_gone && !is_complete && !is_told;
        }
        Ok(())
    }
}

impl Meeting {
    fn of(members: usize) -> Self {
        Self {
            members: alloc::vec![Member::default(); members],
            expected: members,
            is_used: false,
            complete_at: 0,
        }
    }
}

fn meeting(members: usize, bounds: Bounds) -> World<Meeting> {
    World::new(bounds, Meeting::of(members))
}

const CALM: Bounds = Bounds { meddling: Some(0), timers: Timers::AtLast, ..Bounds::CALM };

#[test]
fn two_wait_for_each_other_before_and_after() {
    search::prove(meeting(2, CALM), 1_993, &["comes", "is in", "is out"]);
}

#[test]
fn who_gives_up_is_not_waited_for() {
    let bounds = Bounds { whims: 1, ..CALM };
    search::prove(meeting(2, bounds), 9_342, &["comes", "is in", "is out", "gives up"]);
}

#[test]
fn what_is_left_over_from_others_lets_nobody_in() {
    let meeting = Meeting { is_used: true, ..Meeting::of(2) };
    let world = World::new(Bounds { whims: 1, ..CALM }, meeting);
    search::prove(world, 7_008, &["comes", "is in", "is out", "gives up"]);
}

#[test]
#[ignore = "some seconds; in a release build as well"]
fn a_lost_connection_keeps_nobody_out_or_in() {
    let bounds = Bounds { faults: 1, ..CALM };
    search::prove(meeting(2, bounds), 39_337, &SURVIVED);
}

const SURVIVED: [&str; 5] = ["comes", "is suspended", "is in", "is in still", "is out"];

#[test]
#[ignore = "a minute; in a release build half a minute"]
fn who_dies_is_not_waited_for() {
    let died = ["ends before it is in", "is lost inside", "is lost on its way out"];
    let milestones = [&SURVIVED[..], &died, &["hears no more of the others", "gives up"]].concat();
    search::prove(meeting(2, Bounds { faults: 2, ..CALM }), 407_013, &milestones);
}

#[test]
fn whose_node_is_deleted_is_not_waited_for() {
    let bounds = Bounds { meddling: Some(1), ..CALM };
    let milestones = ["comes", "is in", "is lost before", "is out", "gives up"];
    search::prove(meeting(2, bounds), 25_564, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build as well"]
fn who_looks_after_its_node_hears_of_its_end() {
    let bounds = Bounds { meddling: Some(1), timers: Timers::AmongFaults, ..CALM };
    let lost = ["is lost before", "is lost inside", "is lost on its way out"];
    let milestones = [&["comes", "is in", "is out", "gives up"][..], &lost].concat();
    search::prove(meeting(2, bounds), 174_193, &milestones);
}

#[test]
fn who_expects_fewer_is_in_before_all_have_come() {
    let meeting = Meeting { expected: 1, ..Meeting::of(2) };
    let world = World::new(CALM, meeting);
    search::refute(world, "0 is in before all have come", 5);
}
