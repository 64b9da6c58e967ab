//! Every course of a double barrier within bounds.

use alloc::collections::BTreeSet;

use crate::tests::Command;
use crate::tests::exploring::world::{
    Bug, Index, Line, Milestones, Owner, Progress, ReportContext, Timing, Tree, Workload, guid,
    session,
};
use crate::tests::exploring::*;

const LOCK_PATH: &str = "/meeting";

const READY: &str = "/meeting/ready";

/// A double barrier.
#[derive(Clone, Hash)]
struct BarrierWorkload {
    members: Vec<ParticipantState>,
    /// The number of participants that the barrier requires.
    needed: usize,
    /// The number that each participant is configured with.
    expected: usize,
    /// How often each participant comes.
    visits: usize,
    /// Whether earlier participants have left nodes behind.
    is_used: bool,
    /// How often the node of a participant has appeared, at most the number of members.
    came: usize,
    /// The last change of `ready`, if that exists.
    ready: Option<Index>,
}

#[derive(Clone, Default, Hash)]
struct ParticipantState {
    /// How often it has come before.
    visits: usize,
    /// The transaction that created its node, if the node exists.
    came_at: Option<Index>,
    /// The transaction that created its node, if it was let in.
    met: Option<Index>,
    /// The change of `ready` that let it in.
    let_in_at: Option<Index>,
    /// Whether `ready` can no longer be created for it.
    is_stuck: bool,
    leaves: bool,
    /// The transactions that created the nodes of others that were there when it began to leave, and
    /// had been let in with it or before it.
    others: BTreeSet<Index>,
}

impl Workload for BarrierWorkload {
    type Machine = Participant;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        let used = self.is_used.then_some((READY, &b""[..]));
        [(LOCK_PATH, &b""[..])].into_iter().chain(used).collect()
    }

    fn machines(&self) -> Vec<Participant> {
        (0..self.members.len()).map(|client| self.machine(client)).collect()
    }

    fn twin(&self, client: usize) -> Option<usize> {
        client.checked_sub(1)
    }

    fn owner_actions(&self, client: usize, owners: &[Owner]) -> Vec<(Command, Timing)> {
        let ParticipantState { leaves, is_stuck, .. } = self.members[client];
        let Owner { progress, release } = owners[client];
        match progress {
            _ if release => Vec::new(),
            Progress::Nothing if is_stuck => {
                alloc::vec![(Command::Release, Timing::Eventually)]
            }
            Progress::Held | Progress::Suspended if !leaves => {
                alloc::vec![
                    (Command::Leave, Timing::Eventually),
                    (Command::Release, Timing::Budgeted)
                ]
            }
            Progress::Nothing | Progress::Held | Progress::Suspended => {
                alloc::vec![(Command::Release, Timing::Budgeted)]
            }
            Progress::Over => Vec::new(),
        }
    }

    fn owner_acted(&mut self, client: usize, act: Command, _: &[Owner], _: &mut Milestones) {
        if act == Command::Leave {
            let let_in_at = self.members[client].let_in_at;
            let others = (0..self.members.len()).filter(|other| *other != client);
            let others = others.filter_map(|other| self.members[other].came_at);
            let others = others.filter(|came_at| Some(*came_at) < let_in_at).collect();
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
        // The reply to a transaction arrives before the state after it is checked.
        self.observe(context.tree);
        let ParticipantState { leaves, came_at, ref others, .. } = self.members[client];
        let Owner { progress, release } = context.owners[client];
        let through = leaves && !release;
        let tree = context.tree;
        let owners = || tree.owned().filter_map(|(_, node)| node.owner);
        let (progress, milestone) = match (progress, event) {
            (Progress::Nothing, Event::Enqueued { .. }) => (Progress::Nothing, "comes"),
            (Progress::Nothing, Event::Waiting { .. }) => return Ok(Progress::Nothing),
            (Progress::Nothing, Event::Acquired { token, .. }) if !release => {
                if self.members[client].met.map(i64::from) != Some(token.0) {
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
                if tree.owned().any(|(_, node)| others.contains(&node.created)) {
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
        self.observe(tree);
        let can_enter = self.is_complete() || self.some_are_inside();
        let (all, visits) = (self.members.len(), self.visits);
        let has_gone = |(owner, member): (&Owner, &ParticipantState)| {
            member.visits + 1 == visits && (owner.release || owner.progress == Progress::Over)
        };
        let gone = owners.iter().zip(&self.members).filter(|member| has_gone(*member)).count();
        let some_have_gone = all - gone < self.needed || (visits == 1 && self.came == all);
        for member in &mut self.members {
            // It can join those that are inside, whether they have begun to leave or not.
            member.is_stuck = some_have_gone && !can_enter && !member.is_told(self.ready);
        }
        Ok(())
    }

    fn next(&mut self, client: usize, connected: bool) -> Option<Participant> {
        let visits = self.members[client].visits + 1;
        let comes = visits < self.visits && connected;
        self.members[client] = ParticipantState { visits: self.visits - 1, ..Default::default() };
        comes.then(|| {
            self.members[client].visits = visits;
            self.machine(client)
        })
    }
}

/// The last change of the node `ready`.
fn ready(tree: &Tree) -> Option<Index> {
    tree.find(READY).map(|ready| ready.data_at(tree.log).0)
}

impl ParticipantState {
    /// Returns whether `ready` was changed after its node was created.
    fn is_told(&self, ready: Option<Index>) -> bool {
        self.came_at.is_some() && ready > self.came_at
    }
}

impl BarrierWorkload {
    /// Returns whether as many participants as needed are there.
    fn is_complete(&self) -> bool {
        let there = self.members.iter().filter(|member| member.came_at.is_some()).count();
        there >= self.needed
    }

    /// Follows the participants and `ready`, after any transaction.
    ///
    /// An announcement lets in everyone who is present: if enough are, or if one of them was let in
    /// before.
    fn observe(&mut self, tree: &Tree) {
        let all = self.members.len();
        for (client, member) in self.members.iter_mut().enumerate() {
            let came_at = tree.owned_by(client, tree.log).next().map(|node| node.created);
            let comes = came_at.is_some() && came_at != member.came_at;
            self.came = all.min(self.came + usize::from(comes));
            member.let_in_at = member.let_in_at.filter(|_| !comes);
            member.came_at = came_at;
        }
        let ready = ready(tree);
        let is_announced = ready > self.ready;
        self.ready = ready;
        if is_announced && (self.is_complete() || self.some_are_inside()) {
            for member in self.members.iter_mut().filter(|member| member.is_told(ready)) {
                member.met = member.came_at;
                member.let_in_at = member.let_in_at.or(ready);
            }
        }
    }

    /// Returns whether some of those that were let in have not left.
    fn some_are_inside(&self) -> bool {
        self.members.iter().any(|member| member.came_at.is_some() && member.let_in_at.is_some())
    }

    fn machine(&self, client: usize) -> Participant {
        let guid = guid(client, self.members[client].visits as u128);
        let config = AttemptConfig::of_node(LOCK_PATH.into(), SCHEME, guid, session(client));
        Participant::new(config, self.expected)
    }

    fn of(members: usize) -> Self {
        Self {
            members: alloc::vec![ParticipantState::default(); members],
            needed: members,
            expected: members,
            visits: 1,
            is_used: false,
            came: 0,
            ready: None,
        }
    }
}

fn meeting(members: usize, bounds: Bounds) -> World<BarrierWorkload> {
    World::new(bounds, BarrierWorkload::of(members))
}

const CALM: Bounds = Bounds { deletions: Some(0), timers: Timers::AtLast, ..Bounds::CALM };

#[test]
fn two_enter_and_leave_together() {
    search::prove(meeting(2, CALM), 253, &["comes", "is in", "is out"]);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn three_enter_and_leave_together() {
    search::prove(meeting(3, CALM), 17_399, &["comes", "is in", "is out"]);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn of_three_one_may_give_up() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    search::prove(meeting(3, bounds), 67_335, &["comes", "is in", "is out", "gives up"]);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn of_three_one_may_be_deleted() {
    let bounds = Bounds { deletions: Some(1), ..CALM };
    let milestones = ["comes", "is in", "is lost before", "is out", "gives up"];
    search::prove(meeting(3, bounds), 153_316, &milestones);
}

#[test]
fn a_participant_that_gives_up_blocks_no_one() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    search::prove(meeting(2, bounds), 1_026, &["comes", "is in", "is out", "gives up"]);
}

#[test]
fn a_leftover_ready_node_lets_no_participant_in() {
    let meeting = BarrierWorkload { is_used: true, ..BarrierWorkload::of(2) };
    let world = World::new(Bounds { early_commands: 1, ..CALM }, meeting);
    search::prove(world, 977, &["comes", "is in", "is out", "gives up"]);
}

#[test]
fn a_lost_connection_blocks_no_participant() {
    let bounds = Bounds { faults: 1, ..CALM };
    search::prove(meeting(2, bounds), 3_057, &SURVIVED);
}

fn meetings(members: usize, bounds: Bounds) -> World<BarrierWorkload> {
    World::new(bounds, BarrierWorkload { visits: 2, ..BarrierWorkload::of(members) })
}

#[test]
fn two_meet_again() {
    search::prove(meetings(2, CALM), 772, &["comes", "is in", "is out", "returns"]);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn three_meet_again() {
    search::prove(meetings(3, CALM), 123_226, &["comes", "is in", "is out", "returns"]);
}

/// The request that lets the others in may be on its way for longer than a meeting.
#[test]
fn a_deleted_participant_lets_nobody_in_later() {
    let bounds = Bounds { deletions: Some(1), ..CALM };
    let lost = ["is lost before", "is lost on its way out"];
    let milestones = [&["comes", "is in", "is out", "gives up", "returns"][..], &lost].concat();
    search::prove(meetings(2, bounds), 11_827, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_participant_that_gave_up_can_come_again() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    let milestones = ["comes", "is in", "is out", "gives up", "returns"];
    search::prove(meetings(2, bounds), 11_947, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_lost_connection_does_not_mix_two_meetings() {
    // A client without a connection does not return in this model.
    let milestones = [&SURVIVED[..], &["returns"]].concat();
    search::prove(meetings(2, Bounds { faults: 1, ..CALM }), 8_937, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn two_faults_do_not_mix_two_meetings() {
    let milestones = [&SURVIVED[..], &DIED, &["gives up", "returns"]].concat();
    search::prove(meetings(2, Bounds { faults: 2, ..CALM }), 58_402, &milestones);
}

#[test]
#[ignore = "a minute; in a release build some seconds"]
fn of_three_one_may_lose_its_connection() {
    let bounds = Bounds { faults: 1, ..CALM };
    search::prove(meeting(3, bounds), 321_915, &SURVIVED);
}

#[test]
#[ignore = "a minute; in a release build some seconds"]
fn an_additional_participant_enters_with_the_others() {
    let barrier = BarrierWorkload { needed: 2, expected: 2, ..BarrierWorkload::of(3) };
    let bounds = Bounds { deletions: Some(1), ..CALM };
    let milestones = ["comes", "is in", "is lost before", "is out", "gives up"];
    search::prove(World::new(bounds, barrier), 298_877, &milestones);
}

mod long {
    use super::*;

    #[test]
    #[ignore = "three minutes in a release build"]
    fn a_late_deletion_of_ready_leaves_one_waiting() {
        let bug = Some(Bug::RetractsAnyVersion);
        let world = meetings(3, Bounds { deletions: Some(1), bug, ..CALM });
        search::refute(world, "1 waits for ever", 47);
    }

    #[test]
    #[ignore = "three minutes in a release build"]
    fn a_deleted_participant_lets_none_of_two_others_in_later() {
        let bounds = Bounds { deletions: Some(1), ..CALM };
        let lost = ["is lost before", "is lost on its way out"];
        let milestones = [&["comes", "is in", "is out", "gives up", "returns"][..], &lost].concat();
        search::prove(meetings(3, bounds), 2_572_363, &milestones);
    }
}

const SURVIVED: [&str; 5] = ["comes", "is suspended", "is in", "is in still", "is out"];

const DIED: [&str; 4] = [
    "ends before it is in",
    "is lost inside",
    "is lost on its way out",
    "hears no more of the others",
];

#[test]
#[ignore = "some seconds; in a release build one"]
fn an_expired_participant_blocks_no_one() {
    let milestones = [&SURVIVED[..], &DIED, &["gives up"]].concat();
    search::prove(meeting(2, Bounds { faults: 2, ..CALM }), 21_160, &milestones);
}

#[test]
fn a_deleted_participant_blocks_no_one() {
    let bounds = Bounds { deletions: Some(1), ..CALM };
    let milestones = ["comes", "is in", "is lost before", "is out", "gives up"];
    search::prove(meeting(2, bounds), 1_857, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_participant_notices_the_deletion_of_its_node() {
    let bounds = Bounds { deletions: Some(1), timers: Timers::AmongFaults, ..CALM };
    let lost = ["is lost before", "is lost inside", "is lost on its way out"];
    let milestones = [&["comes", "is in", "is out", "gives up"][..], &lost].concat();
    search::prove(meeting(2, bounds), 13_531, &milestones);
}

#[test]
fn a_wrong_member_count_enters_too_early() {
    let meeting = BarrierWorkload { expected: 1, ..BarrierWorkload::of(2) };
    let world = World::new(CALM, meeting);
    search::refute(world, "0 is in before all have come", 5);
}

#[test]
fn a_late_announcement_lets_in_one_that_came_again() {
    let bug = Some(Bug::AnnouncesUnchecked);
    let world = meetings(2, Bounds { deletions: Some(1), bug, ..CALM });
    search::refute(world, "0 is in before all have come", 7);
}

/// Nobody deletes a node: two of three give up, and one of them comes again.
#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_late_announcement_lets_in_one_that_gave_up() {
    let bug = Some(Bug::AnnouncesUnchecked);
    let world = meetings(3, Bounds { early_commands: 2, bug, ..CALM });
    search::refute(world, "0 is in before all have come", 10);
}
