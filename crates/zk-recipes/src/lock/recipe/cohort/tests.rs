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
    cohort: Cohort<u32, usize>,
    owners: Vec<State>,
    modes: Vec<LockMode>,
    /// How often each owner may still come.
    visits: Vec<u32>,
    /// ZooKeeper's queue.
    queue: Vec<Queued>,
    last_node: u32,
    /// An attempt that is passed to the next front.
    passing: Option<u32>,
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
}

impl World {
    fn new(bug: Bug, modes: &[LockMode], visits: u32, now: Instant) -> Self {
        let bound = match bug {
            Bug::HasTooManyTurns => HandOver { turns: 3, ..BOUND },
            Bug::IgnoresTime => HandOver { time: Duration::MAX, ..BOUND },
            _ => BOUND,
        };
        Self {
            bug,
            cohort: Cohort::new(bound),
            owners: vec![State::Out; modes.len()],
            modes: modes.to_vec(),
            visits: vec![visits; modes.len()],
            queue: Vec::new(),
            last_node: 0,
            passing: None,
            lost: Vec::new(),
            losses: 1,
            foreign_visits: 1,
            now,
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
        actions
    }

    fn finish(&mut self, after: After<u32, usize>) {
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
        let Self { queue, owners, cohort, passing, .. } = self;
        queue.retain(|(node, _)| {
            *node == 0
                || cohort.held() == Some(node)
                || *passing == Some(*node)
                || cohort
                    .entries
                    .values()
                    .any(|entry| entry.turn.as_ref().is_some_and(|turn| turn.held == *node))
                || owners.iter().any(|owner| match owner {
                    State::Attempting { node: of, .. } | State::Holding { node: of, .. } => {
                        of == node
                    }
                    _ => false,
                })
        });
    }

    /// As the driver does before it looks.
    fn refresh(&mut self) {
        if self.cohort.held().is_some_and(|node| self.lost.contains(node)) {
            let after = self.cohort.lose();
            self.finish(after);
        }
    }

    fn hold(&mut self, owner: usize, turn: &Turn<u32>) {
        self.owners[owner] = State::Holding { id: turn.node(), node: turn.held };
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Enter(owner) => {
                self.visits[owner] -= 1;
                let ticket = self.cohort.enter(self.modes[owner]);
                self.owners[owner] = State::Waiting { ticket, is_woken: true };
            }
            Action::Poll(owner) => {
                self.refresh();
                let State::Waiting { ticket, .. } = self.owners[owner] else { unreachable!() };
                let (next, after) = self.cohort.poll(ticket, self.now, owner);
                match next {
                    Next::Hold(turn) => self.hold(owner, &turn),
                    Next::Wait => self.owners[owner] = State::Waiting { ticket, is_woken: false },
                    Next::Attempt => {
                        let node = self.passing.take().unwrap_or_else(|| {
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
                let may = !self.lost.contains(&node);
                let (_, after) = self.cohort.leave(id, self.now, may);
                self.finish(after);
                if self.bug == Bug::DeletesWhatIsPassed {
                    self.queue.retain(|queued| queued.0 != node);
                }
            }
            Action::Drop(owner) => {
                let state = mem::replace(&mut self.owners[owner], State::Out);
                let ticket = match state {
                    State::Waiting { ticket, .. } => ticket,
                    State::Attempting { ticket, node } => {
                        self.passing = Some(node);
                        ticket
                    }
                    _ => unreachable!(),
                };
                let may = self.cohort.held().is_some_and(|node| !self.lost.contains(node));
                let after = self.cohort.withdraw(ticket, self.now, may);
                let mode = |node| self.queue.iter().find(|queued| queued.0 == node).map(|of| of.1);
                if self.passing.and_then(mode) != self.cohort.front_mode() {
                    self.passing = None;
                }
                self.finish(after);
            }
            Action::Lose => {
                self.losses -= 1;
                let node = *self.cohort.held().expect("held");
                self.queue.retain(|queued| queued.0 != node);
                self.lost.push(node);
                if self.bug != Bug::HidesLosses {
                    let after = After {
                        wake: self.cohort.front_waker().into_iter().collect(),
                        ..After::default()
                    };
                    self.finish(after);
                }
            }
            Action::ForeignEnter => {
                self.foreign_visits -= 1;
                self.queue.push((0, Exclusive));
            }
            Action::ForeignRelease => self.queue.retain(|queued| queued.0 != 0),
            Action::Timer => {
                self.now += BOUND.time;
                self.is_late = true;
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
            && (is.turns > BOUND.turns || self.now >= is.since + BOUND.time)
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
fn explore(bug: Bug, modes: &[LockMode], visits: u32) -> Result<usize, String> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![World::new(bug, modes, visits, Instant::now())];
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
        let states = explore(Bug::None, modes, visits).unwrap_or_else(|error| panic!("{error}"));
        assert!(states > 1_000, "{modes:?}: {states} states");
    }
}

#[test]
fn every_bug_of_the_surroundings_is_found() {
    for (bug, finding) in [
        (Bug::WakesNobody, "waits for ever"),
        (Bug::HidesLosses, "waits for a holder that has lost"),
        (Bug::DeletesWhatIsPassed, "ZooKeeper has not granted"),
        (Bug::HasTooManyTurns, "turn 3 is beyond the bound"),
        (Bug::IgnoresTime, "turn 2 is beyond the bound"),
    ] {
        let found = explore(bug, &WRITERS, 1).expect_err("a bug");
        assert!(found.contains(finding), "{bug:?}: {found}");
    }
}
