//! Every course of a double barrier within bounds.

use alloc::collections::BTreeSet;

use super::world::{
    Index, Line, Milestones, Owner, OwnerAction, Progress, ReportContext, Timing, Tree, Workload,
    guid, session,
};
use super::*;

const LOCK_PATH: &str = "/meeting";

const READY: &str = "/meeting/ready";

/// A double barrier that each participant enters once.
#[derive(Clone, Hash)]
struct BarrierWorkload {
    members: Vec<ParticipantState>,
    /// The number of members that each participant expects.
    expected: usize,
    /// Whether earlier participants have left nodes behind.
    is_used: bool,
    /// How often the node of a participant has appeared, at most the number of members.
    came: usize,
    /// The last transaction after which all participants were present.
    complete_at: Index,
}

#[derive(Clone, Default, Hash)]
struct ParticipantState {
    /// The transaction that created its node, if the node exists.
    came_at: Option<Index>,
    /// Whether `ready` can no longer be created for it.
    is_stuck: bool,
    leaves: bool,
    /// The participants that were present when it began to leave.
    others: BTreeSet<usize>,
}

impl Workload for BarrierWorkload {
    type Machine = Participant;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        let used = self.is_used.then_some((READY, &b""[..]));
        [(LOCK_PATH, &b""[..])].into_iter().chain(used).collect()
    }

    fn machines(&self) -> Vec<Participant> {
        let config =
            |client| AttemptConfig::new(LOCK_PATH.into(), SCHEME, guid(client, 0), session(client));
        let machine = |client| Participant::new(config(client), self.expected);
        (0..self.members.len()).map(machine).collect()
    }

    fn twin(&self, client: usize) -> Option<usize> {
        client.checked_sub(1)
    }

    fn owner_actions(&self, client: usize, owners: &[Owner]) -> Vec<(OwnerAction, Timing)> {
        let ParticipantState { leaves, is_stuck, .. } = self.members[client];
        let Owner { progress, release } = owners[client];
        match progress {
            _ if release => Vec::new(),
            Progress::Nothing if is_stuck => {
                alloc::vec![(OwnerAction::Release, Timing::Eventually)]
            }
            Progress::Held | Progress::Suspended if !leaves => {
                alloc::vec![
                    (OwnerAction::Leave, Timing::Eventually),
                    (OwnerAction::Release, Timing::Budgeted)
                ]
            }
            Progress::Nothing | Progress::Held | Progress::Suspended => {
                alloc::vec![(OwnerAction::Release, Timing::Budgeted)]
            }
            Progress::Over => Vec::new(),
        }
    }

    fn owner_acted(&mut self, client: usize, act: OwnerAction, _: &[Owner], _: &mut Milestones) {
        if act == OwnerAction::Leave {
            let there = |other: &usize| self.members[*other].came_at.is_some();
            let others = (0..self.members.len()).filter(|other| *other != client).filter(there);
            let others = others.collect();
            let member = &mut self.members[client];
            (member.leaves, member.others) = (true, others);
        }
    }

    fn reported(
        &mut self,
        client: usize,
        event: &Event,
        mut context: ReportContext<'_>,
    ) -> Result<Progress, String> {
        let ParticipantState { leaves, came_at, ref others, .. } = self.members[client];
        let Owner { progress, release } = context.owners[client];
        let through = leaves && !release;
        let tree = context.tree;
        let owners = || tree.owned().filter_map(|(_, node)| node.owner);
        let (progress, milestone) = match (progress, event) {
            (Progress::Nothing, Event::Enqueued { .. }) => (Progress::Nothing, "comes"),
            (Progress::Nothing, Event::Acquired { token, .. }) if !release => {
                if i64::from(self.complete_at) < token.0 {
                    return Err(format!("{client} is in before all have come"));
                }
                (Progress::Held, "is in")
            }
            (Progress::Nothing, Event::Failed(error)) if !release => match error {
                LockError::Ended(_) => (Progress::Over, "ends before it is in"),
                LockError::Lost(_) | LockError::NodeVanished => (Progress::Over, "is lost before"),
                error => return Err(format!("{client} fails: {error}")),
            },
            (Progress::Held, Event::Suspended) => (Progress::Suspended, "is suspended"),
            (Progress::Suspended, Event::Resumed) => (Progress::Held, "is in still"),
            (Progress::Held | Progress::Suspended, Event::Lost(_)) if !release => {
                (Progress::Over, if leaves { "is lost on its way out" } else { "is lost inside" })
            }
            (Progress::Held | Progress::Suspended, Event::Failed(LockError::Ended(_)))
                if through =>
            {
                if came_at.is_some_and(|_| owners().any(|owner| owner == client)) {
                    return Err(format!("{client} was still in"));
                }
                (Progress::Over, "hears no more of the others")
            }
            (Progress::Held | Progress::Suspended, Event::Released) if through => {
                if owners().any(|owner| others.contains(&owner)) {
                    return Err(format!("{client} is out before all want to be"));
                }
                (Progress::Over, "is out")
            }
            (Progress::Nothing | Progress::Held | Progress::Suspended, Event::Released)
                if release =>
            {
                (Progress::Over, "gives up")
            }
            (_, event) => return Err(format!("{client} reports {event:?} out of turn")),
        };
        context.reach(milestone);
        Ok(progress)
    }

    fn check(
        &mut self,
        tree: &Tree,
        owners: &[Owner],
        _: &[&Line],
        _: &mut Milestones,
    ) -> Result<(), String> {
        let all = self.members.len();
        for (client, member) in self.members.iter_mut().enumerate() {
            let came_at = tree.owned_by(client, tree.log).next().map(|node| node.created);
            let comes = came_at.is_some() && came_at != member.came_at;
            self.came = all.min(self.came + usize::from(comes));
            member.came_at = came_at;
        }
        let there = self.members.iter().filter(|member| member.came_at.is_some()).count();
        let is_complete = there == all;
        if is_complete {
            self.complete_at = tree.log;
        }
        let has_gone = |owner: &Owner| owner.release || owner.progress == Progress::Over;
        let some_have_gone = owners.iter().any(has_gone) || self.came == all;
        let ready = tree.find(READY).map(|ready| ready.data_at(tree.log).0);
        for member in &mut self.members {
            let is_told = member.came_at.is_some() && ready > member.came_at;
            member.is_stuck = some_have_gone && !is_complete && !is_told;
        }
        Ok(())
    }
}

impl BarrierWorkload {
    fn of(members: usize) -> Self {
        Self {
            members: alloc::vec![ParticipantState::default(); members],
            expected: members,
            is_used: false,
            came: 0,
            complete_at: 0,
        }
    }
}

fn meeting(members: usize, bounds: Bounds) -> World<BarrierWorkload> {
    World::new(bounds, BarrierWorkload::of(members))
}

const CALM: Bounds = Bounds { deletions: Some(0), timers: Timers::AtLast, ..Bounds::CALM };

#[test]
fn two_enter_and_leave_together() {
    search::prove(meeting(2, CALM), 256, &["comes", "is in", "is out"]);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn three_enter_and_leave_together() {
    search::prove(meeting(3, CALM), 18_904, &["comes", "is in", "is out"]);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn of_three_one_may_give_up() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    search::prove(meeting(3, bounds), 86_190, &["comes", "is in", "is out", "gives up"]);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn of_three_one_may_lose_its_connection() {
    let bounds = Bounds { faults: 1, ..CALM };
    search::prove(meeting(3, bounds), 364_408, &SURVIVED);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn of_three_one_may_be_deleted() {
    let bounds = Bounds { deletions: Some(1), ..CALM };
    let milestones = ["comes", "is in", "is lost before", "is out", "gives up"];
    search::prove(meeting(3, bounds), 265_885, &milestones);
}

#[test]
fn a_participant_that_gives_up_blocks_no_one() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    search::prove(meeting(2, bounds), 1_125, &["comes", "is in", "is out", "gives up"]);
}

#[test]
fn a_leftover_ready_node_lets_no_participant_in() {
    let meeting = BarrierWorkload { is_used: true, ..BarrierWorkload::of(2) };
    let world = World::new(Bounds { early_commands: 1, ..CALM }, meeting);
    search::prove(world, 970, &["comes", "is in", "is out", "gives up"]);
}

#[test]
fn a_lost_connection_blocks_no_participant() {
    let bounds = Bounds { faults: 1, ..CALM };
    search::prove(meeting(2, bounds), 3_189, &SURVIVED);
}

const SURVIVED: [&str; 5] = ["comes", "is suspended", "is in", "is in still", "is out"];

#[test]
#[ignore = "some seconds; in a release build one"]
fn an_expired_participant_blocks_no_one() {
    let died = ["ends before it is in", "is lost inside", "is lost on its way out"];
    let milestones = [&SURVIVED[..], &died, &["hears no more of the others", "gives up"]].concat();
    search::prove(meeting(2, Bounds { faults: 2, ..CALM }), 23_877, &milestones);
}

#[test]
fn a_deleted_participant_blocks_no_one() {
    let bounds = Bounds { deletions: Some(1), ..CALM };
    let milestones = ["comes", "is in", "is lost before", "is out", "gives up"];
    search::prove(meeting(2, bounds), 2_691, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_participant_notices_the_deletion_of_its_node() {
    let bounds = Bounds { deletions: Some(1), timers: Timers::AmongFaults, ..CALM };
    let lost = ["is lost before", "is lost inside", "is lost on its way out"];
    let milestones = [&["comes", "is in", "is out", "gives up"][..], &lost].concat();
    search::prove(meeting(2, bounds), 20_489, &milestones);
}

#[test]
fn a_wrong_member_count_enters_too_early() {
    let meeting = BarrierWorkload { expected: 1, ..BarrierWorkload::of(2) };
    let world = World::new(CALM, meeting);
    search::refute(world, "0 is in before all have come", 5);
}
