//! Every course of a lock within bounds.
//!
//! A [`Scenario`] says which contenders there are, and what may happen to them.

mod controls;
mod long;
mod queueing;
mod requeuing;
mod returning;
mod revoking;
mod sharing;
mod trying;
mod workload;

use crate::tests::exploring::world::Bug;
use crate::tests::exploring::*;
use workload::Lock;

const LOCK_PATH: &str = "/lock";

/// The behaviour of a contender.
#[derive(Clone, Copy, PartialEq)]
struct Role {
    mode: LockMode,
    wait_policy: WaitPolicy,
    /// The mode that it may convert to while it holds the lock.
    conversion: Option<LockMode>,
    /// The mode of its second attempt, which uses the hint of the first. `None`: there is none.
    returns: Option<LockMode>,
    /// Whether it begins when the contender before it is released, with its hint. In a client both
    /// have one session, and lose its connection together. Here they have two, so this is not for
    /// worlds with faults.
    succeeds: bool,
    /// Whether it releases the lock only when it is asked to.
    keeps: bool,
}

impl Hash for Role {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.mode, self.conversion, self.returns).hash(state);
    }
}

const fn role(mode: LockMode) -> Role {
    let (conversion, returns) = (None, None);
    let wait_policy = WaitPolicy::Queue;
    Role { mode, wait_policy, conversion, returns, succeeds: false, keeps: false }
}

const READER: Role = role(LockMode::Shared);
const WRITER: Role = role(LockMode::Exclusive);
const DOWNGRADER: Role = Role { conversion: Some(LockMode::Shared), ..WRITER };
const UPGRADER: Role = Role { conversion: Some(LockMode::Exclusive), ..READER };
const RETURNER: Role = Role { returns: Some(LockMode::Exclusive), ..WRITER };
const PROMOTED: Role = Role { returns: Some(LockMode::Exclusive), ..READER };
const REREADER: Role = Role { returns: Some(LockMode::Shared), ..READER };
const DEMOTED: Role = Role { returns: Some(LockMode::Shared), ..DOWNGRADER };
const SUCCESSOR: Role = Role { succeeds: true, ..WRITER };
const KEEPER: Role = Role { keeps: true, ..WRITER };
const FREE_ONLY: Role = Role { wait_policy: WaitPolicy::OnlyIfFree, ..WRITER };
const FIRST_ONLY: Role = Role { wait_policy: WaitPolicy::OnlyIfFirst, ..WRITER };

/// What a contender wrongly concludes from what it knows: that it need not list the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InjectedBug {
    /// It was behind a single one, although another may have its place now.
    ShortcutAmongReaders,
    /// It has a hint, whatever its number is.
    HintForAnyNumber,
    /// It has the next number, although the lock path may be another one.
    HintForEver,
    /// It has the next number, although the one before it may be there still.
    HintBeforeDeletion,
}

/// The contenders of a world, and its special conditions.
#[derive(Clone, Copy)]
struct Scenario {
    scheme: Scheme,
    roles: &'static [Role],
    /// Whether another program may create nodes that look like a contender's.
    forgeries: bool,
    /// Whether another program may delete and create the lock path again, while it is empty.
    recreations: bool,
    /// The number of nodes created below the lock path before.
    created_before: i32,
    injected_bug: Option<InjectedBug>,
    /// An injected bug: a writer uses the hint of a reader.
    forgets_readers: bool,
    bounds: Bounds,
}

impl Scenario {
    pub(crate) const fn of(roles: &'static [Role]) -> Self {
        let bounds = Bounds { late: true, timers: Timers::Always, ..Bounds::CALM };
        Self {
            scheme: SCHEME,
            roles,
            forgeries: false,
            recreations: false,
            created_before: 0,
            injected_bug: None,
            forgets_readers: false,
            bounds,
        }
    }

    pub(crate) const fn shared(roles: &'static [Role]) -> Self {
        Self { scheme: READ_WRITE, ..Self::of(roles) }
    }

    /// The sequence numbers are so high that a hint stays valid for some transactions.
    pub(crate) const fn later(roles: &'static [Role]) -> Self {
        Self { created_before: 1, recreations: true, ..Self::of(roles) }
    }

    pub(crate) const fn later_shared(roles: &'static [Role]) -> Self {
        Self { scheme: READ_WRITE, ..Self::later(roles) }
    }

    pub(crate) const fn faults(self, faults: usize) -> Self {
        Self { bounds: Bounds { faults, ..self.bounds }, ..self }
    }

    pub(crate) const fn refusals(self, refusals: usize) -> Self {
        Self { bounds: Bounds { refusals, ..self.bounds }, ..self }
    }

    /// Servers apply transactions, and sessions receive messages, with a delay.
    pub(crate) const fn late(self) -> Self {
        Self { bounds: Bounds { late: true, timers: Timers::Always, ..self.bounds }, ..self }
    }

    /// Two servers, one of which lags.
    pub(crate) const fn lagging(self) -> Self {
        self.on(2)
    }

    pub(crate) const fn on(self, servers: usize) -> Self {
        Self { bounds: Bounds { servers, ..self.bounds }, ..self }
    }

    /// Servers and sessions do all at once, and expired sessions are renewed.
    pub(crate) const fn renewing(self, faults: usize) -> Self {
        Self { bounds: Bounds { renews: true, faults, ..Bounds::CALM }, ..self }
    }

    pub(crate) const fn with_early_release(self) -> Self {
        Self { bounds: Bounds { early_commands: 1, ..self.bounds }, ..self }
    }

    pub(crate) const fn in_pieces(self) -> Self {
        Self { bounds: Bounds { in_pieces: true, ..self.bounds }, ..self }
    }

    pub(crate) const fn numbers(self, numbers: Numbers) -> Self {
        Self { bounds: Bounds { numbers, ..self.bounds }, ..self }
    }

    pub(crate) fn world(self) -> World<Lock<Contender>> {
        self.world_of()
    }

    /// Returns the world with another machine around each contender.
    pub(crate) fn world_of<M>(self) -> World<Lock<M>>
    where
        M: Machine + Clone + Send + Sync + From<Contender>,
    {
        let mut world = World::new(self.bounds, Lock::new(self));
        world.tree.created_before(LOCK_PATH, self.created_before);
        world
    }

    #[track_caller]
    pub(crate) fn proves(self, states: usize, milestones: &[&'static str]) {
        search::prove(self.world(), states, milestones);
    }

    #[track_caller]
    pub(crate) fn refutes(self, bug: Bug, wrong: &str, steps: usize) {
        let bounds = Bounds { bug: Some(bug), ..self.bounds };
        search::refute(Self { bounds, ..self }.world(), wrong, steps);
    }
}

/// Then the order in which states are visited makes no difference, nor the number of threads.
#[test]
#[ignore = "some seconds; in a release build one"]
fn equal_states_have_equal_futures() {
    let two = Scenario::of(&[WRITER; 2]);
    for scenario in [
        Scenario::of(&[WRITER; 3]).on(3),
        two.faults(1),
        two.renewing(1).with_early_release(),
        Scenario::of(&[WRITER]).faults(2).lagging(),
        Scenario::shared(&[UPGRADER, WRITER]).with_early_release(),
        Scenario::later(&[RETURNER, WRITER]),
    ] {
        search::prove_equal_futures(scenario.world());
    }
}

const FAULT: [&str; 5] = ["adopts", "creates again", "resumes", "loses its node", "vanishes"];
/// The milestones of contenders that reconnect in time, and of those that do not.
const FAULTS: [&str; 7] = [
    "adopts",
    "creates again",
    "resumes",
    "loses its node",
    "vanishes",
    "loses its session",
    "ends with its session",
];

/// The milestones of upgrades.
const UPGRADED: [&str; 5] = [ONE, TWO, "is upgraded", "is not upgraded", "leaves while converting"];
