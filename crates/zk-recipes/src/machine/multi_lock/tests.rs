//! The order of acquisition, single attempts, and an exhaustive exploration of two attempts.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use core::fmt::Write;

use super::super::tests::search;
use super::*;

fn spec(path: &str, mode: Mode) -> LockSpec {
    LockSpec { session: SessionId(1), root: "/".to_string(), path: path.to_string(), mode }
}

const fn lock(mode: LockMode) -> Mode {
    Mode::Lock { scheme: Scheme::CURATOR_READ_WRITE, mode }
}

const READ: Mode = lock(LockMode::Shared);
const WRITE: Mode = lock(LockMode::Exclusive);

#[test]
fn locks_are_acquired_in_the_order_of_their_paths() {
    let specs = ["/c", "/a", "/b"].map(|path| spec(path, WRITE));
    assert_eq!(acquisition_order(&specs), Ok([1, 2, 0].map(|index| (index, WRITE)).to_vec()));
}

#[test]
fn a_lock_given_twice_is_acquired_once_in_a_mode_that_satisfies_both() {
    let specs = [spec("/b", READ), spec("/a", READ), spec("/b", WRITE)];
    assert_eq!(acquisition_order(&specs), Ok([(1, READ), (0, WRITE)].to_vec()));
    let specs = [1, 2, u32::MAX].map(|permits| spec("/s", Mode::Permits(permits)));
    assert_eq!(acquisition_order(&specs[..2]), Ok([(0, Mode::Permits(3))].to_vec()));
    assert_eq!(acquisition_order(&specs), Ok([(0, Mode::Permits(u32::MAX))].to_vec()));
}

#[test]
fn locks_that_cannot_be_acquired_together_are_refused() {
    let a = spec("/a", READ);
    assert_eq!(acquisition_order(&[]), Err(MultiLockError::Empty));
    let elsewhere = LockSpec { session: SessionId(2), ..a.clone() };
    assert_eq!(acquisition_order(&[a.clone(), elsewhere]), Err(MultiLockError::Sessions));
    let below = LockSpec { root: "/app".to_string(), ..a.clone() };
    assert_eq!(acquisition_order(&[a.clone(), below]), Err(MultiLockError::Chroots));
    let mutex = Mode::Lock { scheme: Scheme::CURATOR_MUTEX, mode: LockMode::Exclusive };
    for other in [mutex, Mode::Permits(1)] {
        let refusal = Err(MultiLockError::Schemes { path: "/a".to_string() });
        assert_eq!(acquisition_order(&[a.clone(), spec("/a", other)]), refusal);
    }
}

// ---- One attempt --------------------------------------------------------------------------------

fn outputs(machine: &mut MultiAcquire) -> Vec<Output> {
    core::iter::from_fn(|| machine.poll_output()).collect()
}

/// Returns an attempt to acquire three locks that holds this many.
fn holding(held: usize) -> MultiAcquire {
    let mut machine = MultiAcquire::new(3);
    for index in 0..held {
        assert_eq!(outputs(&mut machine), [Output::Enter(index)]);
        machine.handle(Input::Acquired);
    }
    machine
}

#[test]
fn each_lock_is_entered_when_the_one_before_it_is_held() {
    assert_eq!(outputs(&mut holding(3)), [Output::Acquired]);
}

#[test]
fn a_failure_releases_all_locks_in_reverse_order() {
    let busy = LockError::Busy;
    for (input, index, error) in [
        (Input::Failed(busy.clone()), 2, busy),
        (Input::TimedOut, 2, LockError::TimedOut),
        (Input::Lost(0, Loss::NodeDeleted), 0, LockError::Lost(Loss::NodeDeleted)),
    ] {
        let mut machine = holding(2);
        outputs(&mut machine);
        machine.handle(input);
        let all = [2, 1, 0].map(Output::Release);
        assert_eq!(outputs(&mut machine), [&all[..], &[Output::Failed(index, error)]].concat());
    }
}

#[test]
fn release_releases_all_locks_in_reverse_order_and_ends_the_attempt() {
    for held in 0..=3 {
        let mut machine = holding(held);
        outputs(&mut machine);
        machine.handle(Input::Release);
        let first = held.min(2);
        let all: Vec<_> = (0..=first).rev().map(Output::Release).collect();
        assert_eq!(outputs(&mut machine), all);
        for late in [Input::Acquired, Input::TimedOut, Input::Release] {
            machine.handle(late);
        }
        assert_eq!(outputs(&mut machine), []);
    }
}

#[test]
fn held_locks_are_released_only_at_the_callers_command() {
    let mut machine = holding(3);
    outputs(&mut machine);
    for late in [Input::TimedOut, Input::Lost(1, Loss::NodeDeleted)] {
        machine.handle(late);
    }
    assert_eq!(outputs(&mut machine), []);
}

// ---- Two attempts -------------------------------------------------------------------------------

/// Two clients that want the same locks and list them in opposite orders. Each lock is a queue.
#[derive(Clone)]
struct World {
    queues: Vec<VecDeque<usize>>,
    clients: [Client; 2],
    faults: usize,
    milestones: BTreeSet<Milestone>,
}

#[derive(Clone, Debug)]
struct Client {
    machine: MultiAcquire,
    /// The queue of each lock, in the order of acquisition.
    order: Vec<usize>,
    report: Report,
    /// How many locks it has acquired.
    held: usize,
    release: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    Nothing,
    Acquired,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// It acquires the lock that it waits for.
    Acquire(usize),
    Release(usize),
    TimeOut(usize),
    Fail(usize),
    /// Another client deletes the lock node: the client, the index of the lock.
    Lose(usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Milestone {
    Acquired(usize),
    Failed,
    Waited,
}

const LOCKS: usize = 3;

impl World {
    /// `is_ordered`: acquire in the order of paths instead of the order given.
    fn new(faults: usize, is_ordered: bool) -> Self {
        let client = |paths: [&str; LOCKS]| {
            let specs = paths.map(|path| spec(path, WRITE));
            let order = acquisition_order(&specs).expect("compatible locks").into_iter();
            let places: Vec<_> = match is_ordered {
                true => order.map(|(index, _)| index).collect(),
                false => (0..LOCKS).collect(),
            };
            let queue = |index: usize| ["/a", "/b", "/c"].iter().position(|it| *it == paths[index]);
            Client {
                machine: MultiAcquire::new(LOCKS),
                order: places.into_iter().filter_map(queue).collect(),
                report: Report::Nothing,
                held: 0,
                release: false,
            }
        };
        let clients = [client(["/a", "/b", "/c"]), client(["/c", "/b", "/a"])];
        let queues = alloc::vec![VecDeque::new(); LOCKS];
        let mut world = Self { queues, clients, faults, milestones: BTreeSet::new() };
        for client in 0..2 {
            world.perform(client).expect("no input yet");
        }
        world
    }

    /// Carries out the outputs of an attempt.
    fn perform(&mut self, index: usize) -> Result<(), String> {
        while let Some(output) = self.clients[index].machine.poll_output() {
            let client = &mut self.clients[index];
            match output {
                Output::Enter(lock) => self.queues[client.order[lock]].push_back(index),
                Output::Release(lock) => {
                    let later = client.order[lock + 1..].iter();
                    if later.into_iter().any(|queue| self.queues[*queue].contains(&index)) {
                        return Err(format!("{index} releases {lock} before the next"));
                    }
                    client.held = client.held.min(lock);
                    self.queues[client.order[lock]].retain(|other| *other != index);
                }
                Output::Acquired => {
                    client.report = Report::Acquired;
                    self.milestones.insert(Milestone::Acquired(index));
                    if self.queues.iter().any(|queue| queue.front() != Some(&index)) {
                        return Err(format!("{index} does not hold all locks"));
                    }
                }
                Output::Failed(..) => {
                    client.report = Report::Failed;
                    self.milestones.insert(Milestone::Failed);
                }
            }
        }
        let Client { report, release, .. } = self.clients[index];
        let is_over = release || report == Report::Failed;
        match is_over && self.queues.iter().any(|queue| queue.contains(&index)) {
            true => Err(format!("{index} keeps a lock")),
            false => Ok(()),
        }
    }
}

impl search::World for World {
    type Action = Action;
    type Milestone = Milestone;

    fn fingerprint(&self) -> u64 {
        let Self { queues, clients, faults, .. } = self;
        search::fingerprint(|text| write!(text, "{queues:?}{clients:?}{faults}"))
    }

    fn actions(&self) -> (Vec<Action>, Vec<Action>) {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        for (index, client) in self.clients.iter().enumerate() {
            match client.report {
                _ if client.release => {}
                Report::Failed => {}
                Report::Acquired => steps.push(Action::Release(index)),
                Report::Nothing => {
                    let queue = &self.queues[client.order[client.held]];
                    steps.extend((queue.front() == Some(&index)).then_some(Action::Acquire(index)));
                    if self.faults > 0 {
                        let injected = [Action::Release, Action::TimeOut, Action::Fail];
                        faults.extend(injected.map(|fault| fault(index)));
                        faults.extend((0..client.held).map(|lock| Action::Lose(index, lock)));
                    }
                }
            }
        }
        (steps, faults)
    }

    fn after(&self, action: Action) -> Result<Self, String> {
        let mut world = self.clone();
        let (index, input) = match action {
            Action::Acquire(index) => (index, Input::Acquired),
            Action::Release(index) => (index, Input::Release),
            Action::TimeOut(index) => (index, Input::TimedOut),
            Action::Fail(index) => (index, Input::Failed(LockError::Busy)),
            Action::Lose(index, lock) => (index, Input::Lost(lock, Loss::NodeDeleted)),
        };
        let client = &mut world.clients[index];
        if let Action::Lose(_, lock) = action {
            // The next contender in the queue proceeds.
            world.queues[client.order[lock]].retain(|other| *other != index);
        }
        client.held += usize::from(action == Action::Acquire(index));
        if action == Action::Release(index) {
            client.release = true;
        }
        if client.report == Report::Nothing && action != Action::Acquire(index) {
            world.faults -= 1;
        }
        client.machine.handle(input);
        world.perform(index)?;
        if world.queues.iter().any(|queue| queue.len() > 1) {
            world.milestones.insert(Milestone::Waited);
        }
        Ok(world)
    }

    fn check_end(&self) -> Result<(), String> {
        let waits = |client: &Client| client.report == Report::Nothing && !client.release;
        match self.clients.iter().position(waits) {
            Some(index) => Err(format!("{index} waits for ever")),
            None => Ok(()),
        }
    }

    fn take_milestones(&mut self) -> BTreeSet<Milestone> {
        core::mem::take(&mut self.milestones)
    }
}

#[test]
fn two_clients_in_path_order_never_deadlock_and_hold_all_or_none() {
    let milestones = [Milestone::Acquired(0), Milestone::Acquired(1), Milestone::Waited];
    search::prove(World::new(0, true), 9, &milestones);
    search::prove(World::new(2, true), 33, &[&milestones[..], &[Milestone::Failed]].concat());
}

#[test]
fn two_clients_in_the_order_given_deadlock() {
    search::refute(World::new(0, false), "0 waits for ever", 3);
}
