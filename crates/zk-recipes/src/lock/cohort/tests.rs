//! Explores all orders in which attempts of one process and one of another one come and go.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use core::time::Duration;

use super::*;
use LockMode::{Exclusive, Shared};

const BOUND: HandOver = HandOver { turns: 2, time: Duration::from_millis(100) };

/// How the surroundings of the cohort may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// No attempt is woken.
    WakesNobody,
    /// The front does not learn of a loss.
    HidesLosses,
    /// A holder deletes the node that it passes on.
    DeletesWhatIsPassed,
    /// The cohort is bound less than it should be.
    HasTooManyTurns,
    IgnoresTime,
    /// The cohort does not learn of another process.
    HidesContenders,
}

/// A node in ZooKeeper's queue: its number, and its mode. Number 0 is that of the other process.
type Queued = (u32, LockMode);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    Waiting {
        ticket: Ticket,
        is_woken: bool,
    },
    /// It has a node in ZooKeeper's queue.
    Attempting {
        ticket: Ticket,
        node: u32,
    },
    Holding {
        id: u64,
        node: u32,
    },
}

#[derive(Clone, Debug)]
struct World {
    bug: Bug,
    cohort: Cohort<u32, usize, u32>,
    owners: Vec<State>,
    modes: Vec<LockMode>,
    /// How often each owner may still come.
    visits: Vec<u32>,
    /// ZooKeeper's queue.
    queue: Vec<Queued>,
    last_node: u32,
    lost: Vec<u32>,
    losses: u32,
    foreign_visits: u32,
    now: Instant,
    is_late: bool,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Enter(usize),
    Poll(usize),
    Acquire(usize),
    Release(usize),
    Drop(usize),
    Lose,
    ForeignEnter,
    ForeignRelease,
    Timer,
    /// The lock was idle for long enough.
    Late,
}

impl World {
    fn new(bug: Bug, keeps_idle: bool, modes: &[LockMode], visits: u32) -> Self {
        let bound = match bug {
            Bug::HasTooManyTurns => HandOver { turns: 3, ..BOUND },
            Bug::IgnoresTime => HandOver { time: Duration::MAX, ..BOUND },
            _ => BOUND,
        };
        Self {
            bug,
            cohort: Cohort::new(bound, keeps_idle),
            owners: vec![State::Out; modes.len()],
            modes: modes.to_vec(),
            visits: vec![visits; modes.len()],
            queue: Vec::new(),
            last_node: 0,
            lost: Vec::new(),
            losses: 1,
            foreign_visits: 1,
            now: Instant::START,
            is_late: false,
        }
    }

    /// Returns whether ZooKeeper grants the lock to this node.
    fn is_granted(&self, node: u32) -> bool {
        let Some(place) = self.queue.iter().position(|queued| queued.0 == node) else {
            return false;
        };
        let mode = self.queue[place].1;
        self.queue[..place].iter().all(|ahead| (ahead.1, mode) == (Shared, Shared))
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (owner, state) in self.owners.iter().enumerate() {
            match *state {
                State::Out if self.visits[owner] > 0 => actions.push(Action::Enter(owner)),
                State::Out => {}
                State::Waiting { is_woken, .. } => {
                    actions.extend(is_woken.then_some(Action::Poll(owner)));
                    actions.push(Action::Drop(owner));
                }
                State::Attempting { node, .. } => {
                    actions.extend(self.is_granted(node).then_some(Action::Acquire(owner)));
                    actions.push(Action::Drop(owner));
                }
                State::Holding { .. } => actions.push(Action::Release(owner)),
            }
        }
        let is_held = self.cohort.held().is_some_and(|node| !self.lost.contains(node));
        actions.extend((self.losses > 0 && is_held).then_some(Action::Lose));
        let is_queued = self.queue.iter().any(|queued| queued.0 == 0);
        actions.extend((self.foreign_visits > 0 && !is_queued).then_some(Action::ForeignEnter));
        actions.extend(self.is_granted(0).then_some(Action::ForeignRelease));
        actions.extend((!self.is_late && self.cohort.held().is_some()).then_some(Action::Timer));
        actions.extend(self.cohort.keeps_idle.then_some(Action::Late));
        actions
    }

    fn finish(&mut self, after: After<u32, usize, u32>) {
        for woken in after.wake {
            if let State::Waiting { is_woken, .. } = &mut self.owners[woken]
                && self.bug != Bug::WakesNobody
            {
                *is_woken = true;
            }
        }
        self.delete_unused();
    }

    /// The last share of a node deletes it.
    fn delete_unused(&mut self) {
        let Self { queue, owners, cohort, .. } = self;
        queue.retain(|(node, _)| {
            *node == 0
                || cohort.held() == Some(node)
                || cohort.left.is_some_and(|(_, left)| left == *node)
                || cohort
                    .entries
                    .iter()
                    .any(|(_, entry)| entry.turn.as_ref().is_some_and(|turn| turn.held == *node))
                || owners.iter().any(|owner| match owner {
                    State::Attempting { node: of, .. } | State::Holding { node: of, .. } => {
                        of == node
                    }
                    _ => false,
                })
        });
    }

    /// As the driver does before each call.
    fn refresh(&mut self) {
        if let Some(node) = self.cohort.held() {
            let is_lost = self.lost.contains(node);
            let is_contended = self.queue.iter().any(|queued| queued.0 == 0);
            let standing = match is_contended && self.bug != Bug::HidesContenders {
                _ if is_lost => Standing::Lost,
                true => Standing::Contended,
                false => Standing::Held,
            };
            let after = self.cohort.update(self.now, standing);
            self.finish(after);
        }
    }

    fn hold(&mut self, owner: usize, turn: &Turn<u32>) {
        self.owners[owner] = State::Holding { id: turn.node, node: turn.held };
    }

    fn act(&mut self, action: Action) {
        if !matches!(action, Action::Lose) {
            self.refresh();
        }
        match action {
            Action::Enter(owner) => {
                self.visits[owner] -= 1;
                let ticket = self.cohort.enter(self.modes[owner]);
                self.owners[owner] = State::Waiting { ticket, is_woken: true };
            }
            Action::Poll(owner) => {
                let State::Waiting { ticket, .. } = self.owners[owner] else { unreachable!() };
                let (next, after) = self.cohort.poll(ticket, self.now, owner);
                match next {
                    Next::Hold(turn) => self.hold(owner, &turn),
                    Next::Wait => self.owners[owner] = State::Waiting { ticket, is_woken: false },
                    Next::Attempt(left) => {
                        let node = left.unwrap_or_else(|| {
                            self.last_node += 1;
                            self.queue.push((self.last_node, self.modes[owner]));
                            self.last_node
                        });
                        self.owners[owner] = State::Attempting { ticket, node };
                    }
                }
                self.finish(after);
            }
            Action::Acquire(owner) => {
                let State::Attempting { ticket, node } = self.owners[owner] else { unreachable!() };
                let (turn, after) = self.cohort.acquired(ticket, self.now, node);
                self.is_late = false;
                self.hold(owner, &turn);
                self.finish(after);
            }
            Action::Release(owner) => {
                let State::Holding { id, node } = self.owners[owner] else { unreachable!() };
                self.owners[owner] = State::Out;
                let (_, after) = self.cohort.leave(id, self.now);
                self.finish(after);
                if self.bug == Bug::DeletesWhatIsPassed {
                    self.queue.retain(|queued| queued.0 != node);
                }
            }
            Action::Drop(owner) => {
                let state = mem::replace(&mut self.owners[owner], State::Out);
                let (ticket, attempt) = match state {
                    State::Waiting { ticket, .. } => (ticket, None),
                    State::Attempting { ticket, node } => (ticket, Some(node)),
                    _ => unreachable!(),
                };
                let after = self.cohort.withdraw(ticket, self.now, attempt);
                self.finish(after);
            }
            Action::Lose => {
                self.losses -= 1;
                let node = *self.cohort.held().expect("held");
                self.queue.retain(|queued| queued.0 != node);
                self.lost.push(node);
                if self.bug != Bug::HidesLosses {
                    self.refresh();
                }
            }
            Action::ForeignEnter => {
                self.foreign_visits -= 1;
                self.queue.push((0, Exclusive));
                self.refresh();
            }
            Action::ForeignRelease => self.queue.retain(|queued| queued.0 != 0),
            Action::Timer => {
                self.now = self.now + BOUND.time;
                self.is_late = true;
            }
            Action::Late => {
                let standing = self.cohort.node.as_ref().map(|node| node.standing);
                if standing == Some(Standing::Held) {
                    let after = self.cohort.update(self.now, Standing::Late);
                    self.finish(after);
                }
            }
        }
    }

    fn check(&self, before: &Self) -> Result<(), String> {
        let holds = |state: &State| match state {
            State::Holding { node, .. } if !self.lost.contains(node) => Some(*node),
            _ => None,
        };
        let holders: Vec<u32> = self.owners.iter().filter_map(holds).collect();
        if let Some(node) = holders.iter().find(|node| !self.is_granted(**node)) {
            return Err(format!("ZooKeeper has not granted the lock to {node}"));
        }
        let is_exclusive = |node| self.queue.contains(&(node, Exclusive));
        if holders.len() > 1 && holders.iter().any(|node| is_exclusive(*node)) {
            return Err(format!("several hold the lock: {holders:?}"));
        }
        if let (Some(was), Some(is)) = (&before.cohort.node, &self.cohort.node)
            && was.id == is.id
            && was.turns < is.turns
            && is.counted.is_some_and(|(since, before)| {
                is.turns - before > BOUND.turns || self.now - since >= BOUND.time
            })
        {
            return Err(format!("turn {} is beyond the bound", is.turns));
        }
        let can_go_on = |action: &Action| {
            matches!(
                action,
                Action::Poll(_) | Action::Acquire(_) | Action::Release(_) | Action::ForeignRelease
            )
        };
        let waits =
            |state: &State| matches!(state, State::Waiting { .. } | State::Attempting { .. });
        if !self.actions().iter().any(can_go_on) && self.owners.iter().any(waits) {
            return Err("an attempt waits for ever".into());
        }
        let is_queued = self.queue.iter().any(|queued| queued.0 == 0);
        if is_queued && !self.is_granted(0) && self.owners.iter().all(|it| *it == State::Out) {
            return Err("another process waits for an idle lock".into());
        }
        // A holder whose lock is lost keeps nobody waiting.
        let is_lost = |state: &State| match state {
            State::Holding { node, .. } => self.lost.contains(node),
            _ => true,
        };
        let polls = |action: &Action| matches!(action, Action::Poll(_) | Action::Acquire(_));
        let has_foreign = self.queue.iter().any(|queued| queued.0 == 0);
        if self
            .owners
            .iter()
            .filter(|state| !waits(state))
            .all(|state| *state == State::Out || is_lost(state))
            && self.owners.iter().any(waits)
            && !has_foreign
            && !self.actions().iter().any(polls)
        {
            return Err("an attempt waits for a holder that has lost".into());
        }
        Ok(())
    }
}

/// Visits every state. Returns how many there are.
fn explore(bug: Bug, keeps_idle: bool, modes: &[LockMode], visits: u32) -> Result<usize, String> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![World::new(bug, keeps_idle, modes, visits)];
    while let Some(world) = todo.pop() {
        for action in world.actions() {
            let mut next = world.clone();
            next.act(action);
            next.check(&world).map_err(|error| format!("{error}, after {action:?}: {next:?}"))?;
            if seen.insert(format!("{next:?}")) {
                todo.push(next);
            }
        }
    }
    Ok(seen.len())
}

const WRITERS: [LockMode; 3] = [Exclusive; 3];

#[test]
fn at_most_one_holds_and_none_waits_for_ever() {
    for (modes, visits) in [
        (&WRITERS[..], 1),
        (&WRITERS[..2], 2),
        (&[Exclusive, Exclusive, Shared], 1),
        (&[Exclusive, Shared, Shared], 1),
        (&[Shared, Shared, Shared], 1),
        (&[Exclusive, Shared], 2),
    ] {
        for keeps_idle in [false, true] {
            let states = explore(Bug::None, keeps_idle, modes, visits);
            let states = states.unwrap_or_else(|error| panic!("{error}"));
            assert!(states > 1_000, "{modes:?}: {states} states");
        }
    }
}

#[test]
fn every_bug_of_the_surroundings_is_found() {
    for (bug, keeps_idle, finding) in [
        (Bug::WakesNobody, false, "waits for ever"),
        (Bug::HidesLosses, false, "waits for a holder that has lost"),
        (Bug::DeletesWhatIsPassed, false, "ZooKeeper has not granted"),
        (Bug::HasTooManyTurns, false, "turn 3 is beyond the bound"),
        (Bug::IgnoresTime, false, "turn 2 is beyond the bound"),
        (Bug::HidesContenders, true, "another process waits for an idle lock"),
        (Bug::HasTooManyTurns, true, "turn 3 is beyond the bound"),
        (Bug::IgnoresTime, true, "is beyond the bound"),
    ] {
        let found = explore(bug, keeps_idle, &WRITERS, 1).expect_err("a bug");
        assert!(found.contains(finding), "{bug:?}: {found}");
    }
}

const NOW: Instant = Instant::START;

/// Acquires a node, and releases it while nobody waits.
fn idle(mode: LockMode) -> Cohort<u32, usize, u32> {
    let mut cohort = Cohort::new(BOUND, true);
    let ticket = cohort.enter(mode);
    let _ = cohort.acquired(ticket, NOW, 7);
    let (is_kept, after) = cohort.leave(1, NOW);
    assert!(is_kept && after.unused.is_empty());
    cohort
}

/// Returns the turn that an attempt gets at once.
fn turn(cohort: &mut Cohort<u32, usize, u32>, mode: LockMode) -> Option<u32> {
    let ticket = cohort.enter(mode);
    match cohort.poll(ticket, NOW, 0).0 {
        Next::Hold(turn) => Some(turn.number),
        _ => None,
    }
}

#[test]
fn an_idle_lock_is_kept_for_its_process_beyond_the_bound() {
    let mut cohort = idle(Exclusive);
    for number in 1..10 {
        assert!(cohort.admits(Exclusive));
        assert_eq!(turn(&mut cohort, Exclusive), Some(number));
        assert_eq!(cohort.idle(), None);
        assert!(cohort.leave(1, NOW).0);
    }
    assert_eq!(cohort.idle(), Some(&7));
}

#[test]
fn an_idle_lock_is_given_up_after_its_time_or_if_it_is_not_held_for_sure() {
    for standing in [Standing::Late, Standing::Contended, Standing::Withheld, Standing::Lost] {
        let mut cohort = idle(Exclusive);
        assert!(cohort.update(NOW, Standing::Held).unused.is_empty());
        assert_eq!(cohort.update(NOW, standing).unused, [7], "{standing:?}");
        assert_eq!((cohort.held(), cohort.idle()), (None, None));
    }
}

#[test]
fn a_lock_in_use_is_not_late() {
    let mut cohort = idle(Exclusive);
    assert_eq!(turn(&mut cohort, Exclusive), Some(1));
    assert!(cohort.update(NOW, Standing::Late).unused.is_empty());
    assert!(cohort.leave(1, NOW).0);
    assert_eq!(cohort.idle(), Some(&7));
}

#[test]
fn an_idle_lock_of_another_mode_makes_room() {
    let mut cohort = idle(Shared);
    assert_eq!(turn(&mut cohort, Shared), Some(1));
    assert!(cohort.leave(1, NOW).0);
    let ticket = cohort.enter(Exclusive);
    let (next, after) = cohort.poll(ticket, NOW, 0);
    assert!(matches!(next, Next::Attempt(None)));
    assert_eq!(after.unused, [7]);
}

#[test]
fn an_attempt_waits_until_its_turn_is_given() {
    let mut cohort: Cohort<u32, usize, u32> = Cohort::new(BOUND, false);
    let first = cohort.enter(Exclusive);
    assert_eq!(cohort.waiting(), 1);
    let _ = cohort.acquired(first, NOW, 7);
    assert_eq!(cohort.waiting(), 0);
    for waiting in 1..4 {
        let _ = cohort.enter(Exclusive);
        assert_eq!(cohort.waiting(), waiting);
    }
    assert!(cohort.leave(1, NOW).0, "it is passed on");
    assert_eq!(cohort.waiting(), 2);
}
