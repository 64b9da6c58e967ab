//! Every course of a semaphore within bounds.

use core::marker::PhantomData;

use crate::tests::Command;
use crate::tests::exploring::world::{
    Bug, Index, Line, Milestones, Node, NodeId, OutsideChange, Owner, Progress, Refusal,
    ReportContext, Timing, Tree, Workload, guid, session,
};
use crate::tests::exploring::*;

const LOCK_PATH: &str = "/sem";
const QUEUE_PATH: &str = "/sem/locks";
const PERMITS_PATH: &str = "/sem/leases";
const MAXIMUM: &str = "/sem/max";

/// The conditions of a semaphore.
#[derive(Clone, Copy)]
struct Semaphore {
    /// The number of permits that each contender wants.
    wants: &'static [u32],
    maximum: u32,
    /// Whether the first contender never releases its permits.
    keeper: bool,
    /// Whether the last contender does not wait.
    trier: bool,
    /// Whether the first contender has to create the parents and the maximum.
    fresh: bool,
    /// The values to which the maximum may be changed, in order.
    changes: &'static [u32],
    /// Whether another client asks the first contender to release its permits: on each of its
    /// permit nodes.
    revokes: bool,
    policy: DisconnectPolicy,
    /// An injected bug: a contender that wants two permits acquires one, leaves the queue, and
    /// acquires the other. The second half of the contenders stands for the second acquisition of
    /// the first.
    one_at_a_time: bool,
    bounds: Bounds,
}

/// A semaphore and its contenders, which are machines of the type `M`.
#[derive(Clone)]
struct PermitWorkload<M> {
    semaphore: Semaphore,
    borrowers: Vec<PermitState>,
    /// How many times the maximum was changed.
    changed: usize,
    machine: PhantomData<M>,
}

#[derive(Clone, Default, Hash)]
struct PermitState {
    creations: usize,
    /// The transaction that created its permit nodes, if they were granted.
    token: Index,
    /// Whether it knows that it was asked to release its permits.
    revoked: bool,
}

impl<M> Hash for PermitWorkload<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.borrowers, self.changed).hash(state);
    }
}

const CALM: Semaphore = Semaphore {
    wants: &[1, 1],
    maximum: 1,
    keeper: false,
    trier: false,
    fresh: false,
    changes: &[],
    revokes: false,
    policy: DisconnectPolicy::UntilServerReports,
    one_at_a_time: false,
    bounds: Bounds::CALM,
};

const ROOMY: Semaphore = Semaphore { maximum: 2, ..CALM };

fn is_lease(node: &Node) -> bool {
    node.is_in(PERMITS_PATH)
}

fn maximum_at(tree: &Tree, index: Index) -> Option<u32> {
    let maximum = tree.find_at(MAXIMUM, index).map(|node| tree.node(node));
    maximum.and_then(|node| PermitRequest::read_maximum(node.data_at(index).1))
}

impl<M> PermitWorkload<M> {
    fn partner(&self, machine: usize) -> usize {
        let half = self.borrowers.len() / 2;
        (machine + half) % self.borrowers.len()
    }

    /// Returns the permit nodes on which another client will ask to release.
    fn unrevoked(&self, tree: &Tree) -> Vec<NodeId> {
        let is_asked =
            |node: &Node| node.owner == Some(0) && is_lease(node) && !is_revoked(node, tree.log);
        let nodes = tree.owned().filter(|(_, node)| self.semaphore.revokes && is_asked(node));
        nodes.map(|(id, _)| id).collect()
    }

    /// Checks that the permits may be granted by the state of the tree that the contender knew.
    fn check_grant(
        &mut self,
        machine: usize,
        token: Zxid,
        context: &ReportContext<'_>,
    ) -> Result<(), String> {
        let token = Index::try_from(token.0).expect("a transaction of this world");
        let permit_nodes =
            || context.tree.at(context.now).map(|(_, node)| node).filter(|node| is_lease(node));
        let is_own = |node: &&Node| node.created == token && node.owner == Some(machine);
        if permit_nodes().filter(is_own).count() != self.semaphore.wants[machine] as usize {
            return Err(format!("{machine} is granted permits without its leases"));
        }
        let taken = permit_nodes().filter(|node| node.created <= token).count();
        if maximum_at(context.tree, context.now).is_none_or(|maximum| taken > maximum as usize) {
            return Err(format!("{machine} is granted permits that there are not"));
        }
        self.borrowers[machine].token = token;
        Ok(())
    }
}

impl<M: Machine + Clone + Send + Sync + From<SemaphoreMachine>> Workload for PermitWorkload<M> {
    type Machine = M;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        const BYTES: [[u8; 4]; 3] = [[0; 4], [0, 0, 0, 1], [0, 0, 0, 2]];
        match self.semaphore.fresh {
            true => Vec::new(),
            false => alloc::vec![
                (LOCK_PATH, &b""[..]),
                (QUEUE_PATH, b""),
                (PERMITS_PATH, b""),
                (MAXIMUM, &BYTES[self.semaphore.maximum as usize]),
            ],
        }
    }

    fn machines(&self) -> Vec<M> {
        let machine = |(machine, permits): (usize, &u32)| {
            let tries = self.semaphore.trier && machine + 1 == self.semaphore.wants.len();
            let wait_policy = if tries { WaitPolicy::OnlyIfFree } else { WaitPolicy::Queue };
            let (guid, session) = (guid(machine, 0), session(machine));
            let config = AttemptConfig::of_node(LOCK_PATH.into(), SCHEME, guid, session);
            let revocable = self.semaphore.revokes;
            let disconnect_policy = self.semaphore.policy;
            let config = AttemptConfig { wait_policy, revocable, disconnect_policy, ..config };
            let maximum = Some(self.semaphore.maximum);
            SemaphoreMachine::new(PermitRequest::new(config, *permits, maximum)).into()
        };
        self.semaphore.wants.iter().enumerate().map(machine).collect()
    }

    fn twin(&self, machine: usize) -> Option<usize> {
        let Semaphore { wants, keeper, trier, one_at_a_time, .. } = self.semaphore;
        let tries = trier && machine + 1 == wants.len();
        let is_like = |other: &usize| wants[*other] == wants[machine] && !(keeper && *other == 0);
        machine.checked_sub(1).filter(|other| is_like(other) && !tries && !one_at_a_time)
    }

    fn owner_actions(&self, machine: usize, owners: &[Owner]) -> Vec<(Command, Timing)> {
        let partner = &owners[self.partner(machine)];
        let has_all = !self.semaphore.one_at_a_time || partner.holds() || partner.release;
        let keeps = self.semaphore.keeper && machine == 0 && !self.borrowers[machine].revoked;
        let Owner { progress, release } = owners[machine];
        let when = match progress {
            _ if release => None,
            Progress::Held | Progress::Suspended => {
                (!keeps && has_all).then_some(Timing::Eventually)
            }
            Progress::Nothing => Some(Timing::Budgeted),
            Progress::Over => None,
        };
        when.map(|when| (Command::Release, when)).into_iter().collect()
    }

    fn requested(&mut self, machine: usize, request: &Request<'_>, milestones: &mut Milestones) {
        if let Request::Multi(_) = request {
            self.borrowers[machine].creations += 1;
            if self.borrowers[machine].creations > 1 {
                milestones.insert("creates again");
            }
        }
    }

    fn reported(
        &mut self,
        machine: usize,
        event: &Event,
        mut context: ReportContext<'_>,
    ) -> Result<Progress, String> {
        let owner = &context.owners[machine];
        let after = owner.after(machine, event)?;
        let has_held = owner.progress != Progress::Nothing;
        match event {
            Event::Acquired { token, .. } => {
                self.check_grant(machine, *token, &context)?;
                context.reach(ACQUIRES[machine]);
            }
            Event::Resumed => context.reach("resumes"),
            Event::Revoked => {
                let was_asked = |(_, node): &(_, &Node)| is_revoked(node, context.now);
                let asked = context.tree.at(context.now).filter(was_asked).count();
                if asked == 0 || core::mem::replace(&mut self.borrowers[machine].revoked, true) {
                    return Err(format!("{machine} is not asked to release, or twice"));
                }
                context.reach("is asked to release");
            }
            Event::Lost(loss) => context.reach(lost_by(machine, loss)?),
            Event::Released if !has_held => context.reach("gives up"),
            Event::Failed(error) => context.reach(match error {
                LockError::NodeVanished => "vanishes",
                LockError::Busy => "is busy",
                LockError::NoConnection => "has no connection",
                LockError::Request(_) => "is refused",
                LockError::Ended(_) => "ends with its session",
                LockError::NotConfirmed(_) => "is not confirmed",
                error => return Err(format!("{machine} fails: {error}")),
            }),
            Event::Refused(error) => context.reach(match error {
                SemaphoreError::TooManyPermits { .. } => "wants too many",
                SemaphoreError::OtherMaximum { .. } => "finds another maximum",
                error => return Err(format!("{machine} fails: {error}")),
            }),
            _ => {}
        }
        Ok(after)
    }

    fn replied(&mut self, request: &Request<'_>, milestones: &mut Milestones) {
        if let Request::Exists(exists) = request
            && exists.path.starts_with(PERMITS_PATH)
        {
            milestones.insert("adopts");
        }
    }

    fn check(
        &mut self,
        tree: &Tree,
        owners: &[Owner],
        lines: &[&Line],
        _: &mut Milestones,
    ) -> Result<(), String> {
        let is_granted = |node: &Node| {
            let borrowing = node.owner.and_then(|it| Some((owners.get(it)?, &self.borrowers[it])));
            borrowing.is_some_and(|(owner, it)| owner.holds() && it.token == node.created)
        };
        let granted = tree.owned().filter(|(_, node)| is_lease(node) && is_granted(node)).count();
        if granted
            > self.semaphore.changes.iter().fold(self.semaphore.maximum, |a, b| a.max(*b)) as usize
        {
            return Err("more permits are out than there are".to_string());
        }
        // Only one contender waits for permits: no herd. One that does not wait may watch as well,
        // and one whose queue node was deleted may not know that yet.
        let waits = |line: &&&Line| line.is_watched(PERMITS_PATH);
        if self.semaphore.bounds.faults == 0
            && !self.semaphore.trier
            && lines.iter().filter(waits).count() > 1
        {
            return Err("two wait for leases".to_string());
        }
        Ok(())
    }

    /// The second acquisition comes after the first.
    fn is_unstarted(&self, machine: usize, owners: &[Owner]) -> bool {
        let is_second = machine >= self.borrowers.len() / 2;
        let first = &owners[self.partner(machine)];
        self.semaphore.one_at_a_time && is_second && first.progress == Progress::Nothing
    }

    /// Whether another contender keeps the permits.
    fn may_wait(&self, machine: usize, owners: &[Owner], tree: &Tree) -> bool {
        let owner = &owners[machine];
        if self.semaphore.revokes {
            return false;
        }
        if !self.semaphore.keeper || owner.release || owner.holds() {
            return machine == 0 && self.semaphore.keeper && owner.holds();
        }
        let all = owners.iter().zip(self.semaphore.wants);
        let out: u32 = all.filter(|(it, _)| it.holds()).map(|(_, wants)| *wants).sum();
        let maximum = maximum_at(tree, tree.log).unwrap_or(u32::MAX);
        let first = tree.owned().find(|(_, node)| node.is_in(QUEUE_PATH));
        let is_first = first.is_none_or(|(_, node)| node.owner == Some(machine));
        !(is_first && out + self.semaphore.wants[machine] <= maximum)
    }

    /// A contender without permission fails, and must still delete its nodes.
    fn refusals(&self, request: &Request<'_>) -> &'static [Refusal] {
        use Refusal::{Garbage, Permanent, Temporary};
        match request {
            Request::Create2(_) => &[Permanent, Garbage],
            Request::Multi(_) | Request::GetData(_) => &[Temporary, Permanent, Garbage],
            Request::GetChildren(list) => match (list.path == PERMITS_PATH, list.watch) {
                (true, true) => &[Temporary, Permanent, Garbage],
                (true, false) => &[Temporary, Garbage],
                (false, true) => &[Temporary],
                (false, false) => &[],
            },
            Request::Create(_) => &[Temporary, Permanent],
            Request::Exists(_) => &[Temporary, Garbage],
            Request::Sync(_) | Request::Delete(_) => &[Temporary],
            _ => &[],
        }
    }

    fn outside_changes(&self, _: &[Owner], tree: &Tree, _: bool) -> Vec<(OutsideChange, Timing)> {
        let left = self.semaphore.changes.get(self.changed);
        let change = left.map(|_| (OutsideChange::Change, Timing::Optional));
        let revoke = self.unrevoked(tree).into_iter().map(OutsideChange::Revoke);
        change.into_iter().chain(revoke.map(|revoke| (revoke, Timing::Eventually))).collect()
    }

    fn apply_outside(&mut self, outside: OutsideChange, tree: &mut Tree) {
        if let OutsideChange::Revoke(node) = outside {
            return tree.revoke(node);
        }
        let maximum = self.semaphore.changes[self.changed].to_be_bytes();
        self.changed += 1;
        tree.set_data(MAXIMUM, &maximum).expect("it is there");
    }
}

impl Semaphore {
    const fn faults(mut self, faults: usize) -> Self {
        self.bounds.faults = faults;
        self
    }

    const fn refusals(mut self, refusals: usize) -> Self {
        self.bounds.refusals = refusals;
        self
    }

    const fn with_early_release(mut self) -> Self {
        self.bounds.early_commands = 1;
        self
    }

    const fn renewing(mut self, faults: usize) -> Self {
        (self.bounds.faults, self.bounds.renews) = (faults, true);
        self
    }

    fn world(self) -> World<PermitWorkload<SemaphoreMachine>> {
        self.world_of()
    }

    fn world_of<M>(self) -> World<PermitWorkload<M>>
    where
        M: Machine + Clone + Send + Sync + From<SemaphoreMachine>,
    {
        let borrowers = alloc::vec![PermitState::default(); self.wants.len()];
        let machine = PhantomData;
        World::new(self.bounds, PermitWorkload { semaphore: self, borrowers, changed: 0, machine })
    }

    #[track_caller]
    fn proves(self, states: usize, milestones: &[&'static str]) {
        search::prove(self.world(), states, milestones);
    }

    #[track_caller]
    fn refutes(mut self, bug: Bug, wrong: &str, steps: usize) {
        self.bounds.bug = Some(bug);
        search::refute(self.world(), wrong, steps);
    }
}

const SURVIVED: [&str; 7] =
    [ONE, "adopts", "creates again", "resumes", "loses its node", "vanishes", "gives up"];

#[test]
fn two_take_turns() {
    CALM.with_early_release().proves(1_043, &[ONE, TWO, "gives up"]);
}

#[test]
fn two_hold_a_permit_each() {
    ROOMY.proves(209, &[ONE, TWO]);
}

#[test]
fn two_that_want_all_take_turns() {
    Semaphore { wants: &[2, 2], ..ROOMY }.proves(337, &[ONE, TWO]);
}

#[test]
fn only_if_free_never_waits() {
    let semaphore = Semaphore { trier: true, ..CALM };
    semaphore.with_early_release().proves(1_777, &[ONE, TWO, "gives up", "is busy"]);
}

#[test]
fn only_if_free_leaves_nothing_when_it_loses_its_connection() {
    let milestones = [&SURVIVED[..6], &["has no connection"]].concat();
    Semaphore { wants: &[1], trier: true, ..CALM }.faults(1).proves(612, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn only_if_free_beside_another_leaves_nothing_when_it_loses_its_connection() {
    let milestones = [&SURVIVED[..6], &[TWO, "is busy", "has no connection"]].concat();
    Semaphore { trier: true, ..CALM }.faults(1).proves(96_023, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_waiter_notices_a_changed_maximum() {
    let semaphore = Semaphore { keeper: true, changes: &[2, 1], ..CALM };
    semaphore.proves(12_066, &[ONE, TWO, "finds another maximum"]);
}

#[test]
fn a_request_above_a_lowered_maximum_fails() {
    let semaphore = Semaphore { wants: &[1, 2], keeper: true, changes: &[1], ..ROOMY };
    semaphore.proves(3_740, &[ONE, TWO, "wants too many", "finds another maximum"]);
}

#[test]
fn one_survives_a_fault() {
    Semaphore { wants: &[2], ..ROOMY }.faults(1).with_early_release().proves(2_831, &SURVIVED);
}

#[test]
fn one_survives_a_refusal() {
    let semaphore = Semaphore { wants: &[2], fresh: true, ..ROOMY };
    let milestones = [ONE, "adopts", "creates again", "gives up", "is refused"];
    semaphore.refusals(1).with_early_release().proves(1_836, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn one_survives_two_faults() {
    let milestones = [&SURVIVED[..], &["loses its session", "ends with its session"]].concat();
    Semaphore { wants: &[2], ..ROOMY }.faults(2).with_early_release().proves(24_234, &milestones);
}

/// The watch of a list that it needs no more would stay: the deletion of its only node does not fire
/// it, if somebody else has deleted that node.
#[test]
#[ignore = "some seconds; in a release build one"]
fn one_that_leaves_early_survives_two_faults() {
    let milestones = [&SURVIVED[..], &["loses its session", "ends with its session"]].concat();
    Semaphore { wants: &[1], ..CALM }.faults(2).with_early_release().proves(12_328, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn one_survives_a_refusal_and_a_fault() {
    let semaphore = Semaphore { wants: &[2], fresh: true, ..ROOMY };
    let milestones = [&SURVIVED[..], &["is refused"]].concat();
    semaphore.faults(1).refusals(1).with_early_release().proves(39_177, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn two_survive_a_fault() {
    CALM.faults(1).with_early_release().proves(252_471, &[&SURVIVED[..], &[TWO]].concat());
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_holder_leaves_the_queue_free() {
    let semaphore = Semaphore { wants: &[1, 1, 1], keeper: true, ..ROOMY };
    semaphore.proves(8_993, &[ONE, TWO, THREE]);
}

#[test]
fn a_holder_releases_its_permit_when_it_is_asked_to() {
    let semaphore = Semaphore { keeper: true, revokes: true, ..CALM };
    semaphore.proves(1_232, &[ONE, TWO, "is asked to release"]);
}

#[test]
fn a_holder_of_two_permits_is_asked_to_release_once() {
    let semaphore = Semaphore { wants: &[2], keeper: true, revokes: true, ..ROOMY };
    semaphore.proves(114, &[ONE, "is asked to release"]);
}

#[test]
fn a_request_to_release_survives_a_fault() {
    let semaphore = Semaphore { wants: &[1], keeper: true, revokes: true, ..CALM };
    let milestones = [&SURVIVED[..6], &["is asked to release"]].concat();
    semaphore.faults(1).proves(1_012, &milestones);
}

#[test]
fn a_request_to_release_survives_the_end_of_the_lease() {
    let policy = DisconnectPolicy::UntilLeaseEnds;
    let wants = &[1];
    let mut semaphore = Semaphore { wants, keeper: true, revokes: true, policy, ..CALM }.faults(1);
    semaphore.bounds.leases = 1;
    let lost = ["loses its lease", "loses its node", "vanishes", "is not confirmed", "resumes"];
    let milestones = [&lost[..], &[ONE, "adopts", "creates again", "is asked to release"]];
    semaphore.proves(4_240, &milestones.concat());
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_request_to_release_comes_with_the_loss_of_the_connection() {
    let policy = DisconnectPolicy::WhileConnected;
    let semaphore = Semaphore { keeper: true, revokes: true, policy, ..CALM };
    let lost = ["loses its connection", "loses its node", "vanishes"];
    let milestones = [&lost[..], &[ONE, TWO, "adopts", "creates again", "is asked to release"]];
    semaphore.faults(1).proves(149_397, &milestones.concat());
}

// ---- Renewal ------------------------------------------------------------------------------------

type Requeued = Requeuing<SemaphoreMachine>;

impl From<SemaphoreMachine> for Requeued {
    fn from(machine: SemaphoreMachine) -> Self {
        Self::new(machine, true)
    }
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn one_that_queues_again_is_asked_to_release() {
    let semaphore = Semaphore { wants: &[1], keeper: true, revokes: true, ..CALM }.renewing(2);
    let milestones = [&SURVIVED[..5], &["loses its session", "is asked to release"]].concat();
    search::prove(semaphore.world_of::<Requeued>(), 10_119, &milestones);
}

mod long {
    use super::*;

    #[test]
    #[ignore = "a minute in a release build"]
    fn two_queue_again() {
        let milestones = [&SURVIVED[..5], &[TWO, "loses its session"]].concat();
        search::prove(CALM.renewing(2).world_of::<Requeued>(), 1_758_053, &milestones);
    }
}

// ---- Negative controls --------------------------------------------------------------------------

#[test]
fn counting_before_creating_is_unsafe() {
    // Another client deletes the first contender's queue node, so two contenders count (H43).
    let wrong = "1 is granted permits that there are not";
    CALM.faults(1).refutes(Bug::CountedBeforeCreated, wrong, 10);
}

#[test]
fn watching_one_permit_node_misses_the_end_of_others() {
    // The watched permit node stays, and another one is deleted (H42).
    let semaphore = Semaphore { wants: &[1, 1, 1], keeper: true, ..ROOMY };
    semaphore.refutes(Bug::OnePermitWatched(2), "2 waits for ever", 24);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn permits_acquired_one_at_a_time_deadlock() {
    // Each holds one of two permits and wants the other (H44).
    let semaphore = Semaphore { wants: &[1; 4], one_at_a_time: true, ..ROOMY };
    search::refute(semaphore.world(), "0 waits for ever", 27);
}

#[test]
fn a_maximum_that_is_not_watched_keeps_waiters_waiting() {
    // The maximum is raised, and no contender notices (H45).
    let semaphore = Semaphore { keeper: true, changes: &[2], ..CALM };
    semaphore.refutes(Bug::DataUnwatched, "1 waits for ever", 17);
}

#[test]
fn a_permit_node_whose_data_is_not_watched_is_never_released() {
    let semaphore = Semaphore { keeper: true, revokes: true, ..CALM };
    semaphore.refutes(Bug::DataUnwatched, "0 waits for ever", 17);
}
