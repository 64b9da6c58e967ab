//! Tasks of one client that take turns with one lock node, and what must hold for them.
//!
//! [`Tasks`] drives the core of local hand-over as the recipes of a client do. [`Turns`] counts who
//! holds a lock, each task for itself.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::mem;
use core::time::Duration;

use uuid::Uuid;
use zk_proto::Zxid;
use zk_recipes::machine::cohort::{After, Cohort, HandOver, Next, Standing, Ticket, Turn};
use zk_recipes::machine::{Event, LockMode};
use zk_session::State as SessionState;
use zk_session::time::Instant;

use super::behaviour::{MUTEX, SHARED};
use super::locks::{LockChecker, may_hold_together};
use super::{AttemptId, Bug, ClientEvent, LockKind, SimClient};
use crate::server::Ensemble;

/// The tasks of each client at each lock.
const TASKS: usize = 3;
/// Short, so that contenders of other clients have their turn often.
const BOUND: HandOver = HandOver::DEFAULT.turns(4);
/// How long some clients keep an idle lock.
const KEEP: Duration = Duration::from_secs(3);
/// How long a client may pass on a lock that others wait for. Nobody tells it on a stalled connection,
/// until its lease ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than any run.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// A share of a node, named by the attempt that it belongs to. The last one releases it.
type Share = Arc<AttemptId>;
/// A task is woken by its number.
type Rest = After<Share, usize, AttemptId>;

/// The tasks of one client at one lock.
#[derive(Debug)]
pub(super) struct Tasks {
    lock: &'static str,
    cohort: Cohort<Share, usize, AttemptId>,
    keep: Option<Duration>,
    tasks: [Task; TASKS],
    /// The nodes that have shares.
    nodes: BTreeMap<AttemptId, Weak<AttemptId>>,
    rng: fastrand::Rng,
    bug: Option<Bug>,
    is_active: bool,
    /// Whether an event may let a task go on.
    is_woken: bool,
}

#[derive(Debug)]
struct Task {
    state: State,
    is_woken: bool,
    /// When to begin, to give up, to convert the lock or to release it.
    due: Duration,
    mode: LockMode,
}

#[derive(Debug)]
enum State {
    Out,
    Waiting(Ticket),
    Attempting(Ticket, AttemptId),
    Holding {
        /// The node in the cohort. `None` once it belongs to this task alone.
        node: Option<u64>,
        share: Share,
    },
}

impl Tasks {
    /// Returns the tasks of a client at all locks.
    pub(super) fn all(now: Duration, rng: &mut fastrand::Rng, bug: Option<Bug>) -> Vec<Self> {
        let keep = rng.bool().then_some(KEEP);
        let tasks = |lock| {
            let mut rng = rng.fork();
            let tasks = [(); TASKS].map(|()| Task {
                state: State::Out,
                is_woken: false,
                due: now + up_to(&mut rng, 1_000),
                mode: LockMode::Exclusive,
            });
            let (cohort, nodes) = (Cohort::new(BOUND, keep.is_some()), BTreeMap::new());
            Self { lock, cohort, keep, tasks, nodes, rng, bug, is_active: true, is_woken: false }
        };
        [MUTEX, SHARED].map(tasks).into()
    }

    /// Returns when [`act`](Self::act) is due.
    pub(super) fn poll_timeout(&self) -> Duration {
        let due = self.tasks.iter().map(|task| task.due).min();
        if self.is_woken { Duration::ZERO } else { due.unwrap_or(NEVER) }
    }

    /// Returns how many tasks wait or hold.
    pub(super) fn busy(&self) -> usize {
        self.tasks.iter().filter(|task| !matches!(task.state, State::Out)).count()
    }

    /// Stops new attempts.
    pub(super) fn wind_down(&mut self) {
        self.is_active = false;
        for task in &mut self.tasks {
            if let State::Out = task.state {
                task.due = NEVER;
            }
        }
    }

    /// Handles an event of the client.
    pub(super) fn handle_event(&mut self, now: Duration, event: &ClientEvent) {
        self.is_woken |= matches!(
            event,
            ClientEvent::Contended(_) | ClientEvent::Late(_) | ClientEvent::Lock(..)
        );
        let ClientEvent::Lock(id, event) = event else { return };
        let converts = |task: &&mut Task| matches!(&task.state, State::Holding { node: None, share } if **share == *id);
        let Some(task) = self.tasks.iter_mut().find(converts) else { return };
        if let Event::Converted { .. } | Event::NotConverted(_) | Event::Lost(_) = event {
            task.due = now + up_to(&mut self.rng, 100);
        }
        if let Event::Converted { mode, .. } = event {
            task.mode = *mode;
        }
    }

    /// Does what is due, and what tasks were woken for.
    pub(super) fn act(
        &mut self,
        now: Duration,
        client: &mut SimClient,
        guid: &mut impl FnMut() -> Uuid,
    ) {
        self.is_woken = false;
        self.refresh(client, now);
        while let Some(task) = self.ready(now, client) {
            let was_idle = self.cohort.idle().is_some();
            self.step(task, now, client, guid);
            if let Some(attempt) = self.cohort.idle().filter(|_| !was_idle) {
                client.begin_idle(now, **attempt);
            }
            self.refresh(client, now);
        }
    }

    /// Returns a task that can go on.
    fn ready(&self, now: Duration, client: &SimClient) -> Option<usize> {
        self.tasks.iter().position(|task| {
            task.due <= now
                || match task.state {
                    State::Waiting(_) => task.is_woken,
                    State::Attempting(_, attempt) => client.standing(attempt).is_some(),
                    State::Out | State::Holding { .. } => false,
                }
        })
    }

    /// Reports what is known of the node that is held.
    fn refresh(&mut self, client: &mut SimClient, now: Duration) {
        let Some(attempt) = self.cohort.held().map(|share| **share) else { return };
        let is_late = client.take_late(attempt);
        let is_contended = client.is_contended(attempt) && self.bug != Some(Bug::KeepsFromOthers);
        let standing = match client.standing(attempt) {
            _ if self.bug == Some(Bug::PassesOnLostLocks) => Standing::Held,
            Some(Standing::Held) if is_contended => Standing::Contended,
            Some(Standing::Held) if is_late => Standing::Late,
            standing => standing.unwrap_or(Standing::Lost),
        };
        let rest = self.cohort.update(Instant::after_start(now), standing);
        self.finish(rest, client, now);
    }

    fn finish(&mut self, rest: Rest, client: &mut SimClient, now: Duration) {
        let After { unused, unused_attempt, wake, .. } = rest;
        drop(unused);
        if let Some(attempt) = unused_attempt {
            client.release(now, attempt);
        }
        self.release_unused(client, now);
        for woken in wake {
            self.tasks[woken].is_woken |= self.bug != Some(Bug::ForgetsLocalWaiters);
        }
    }

    /// Releases nodes without shares.
    fn release_unused(&mut self, client: &mut SimClient, now: Duration) {
        let is_unused = |shares: &Weak<AttemptId>| shares.strong_count() == 0;
        let unused = self.nodes.iter().filter(|(_, shares)| is_unused(shares));
        let unused: Vec<_> = unused.map(|(attempt, _)| *attempt).collect();
        for attempt in unused {
            self.nodes.remove(&attempt);
            client.unwatch_queue(now, attempt);
            client.release(now, attempt);
        }
    }

    /// Lets one task go on.
    fn step(
        &mut self,
        place: usize,
        now: Duration,
        client: &mut SimClient,
        guid: &mut impl FnMut() -> Uuid,
    ) {
        let at = Instant::after_start(now);
        let is_due = self.tasks[place].due <= now;
        match mem::replace(&mut self.tasks[place].state, State::Out) {
            State::Out if !matches!(client.state(), SessionState::Connected { .. }) => {
                self.tasks[place].due = now + Duration::from_millis(100);
            }
            State::Out => {
                let mode = match self.lock {
                    SHARED if self.rng.u8(..3) > 0 => LockMode::Shared,
                    _ => LockMode::Exclusive,
                };
                let gives_up = self.rng.u8(..4) == 0;
                let patience = if gives_up { up_to(&mut self.rng, 2_000) } else { NEVER };
                let state = State::Waiting(self.cohort.enter(mode));
                self.tasks[place] = Task { state, is_woken: true, due: now + patience, mode };
            }
            State::Waiting(ticket) if is_due => {
                let rest = self.cohort.withdraw(ticket, at, None);
                self.leave(place, now);
                self.finish(rest, client, now);
            }
            State::Waiting(ticket) => {
                self.tasks[place].is_woken = false;
                let (next, rest) = self.cohort.poll(ticket, at, place);
                match next {
                    Next::Hold(turn) => self.hold(place, turn, now, client),
                    Next::Attempt(left) => {
                        let attempt = left.unwrap_or_else(|| {
                            client.contend(now, self.lock, self.kind(place), guid())
                        });
                        self.tasks[place].state = State::Attempting(ticket, attempt);
                    }
                    _ => self.tasks[place].state = State::Waiting(ticket),
                }
                self.finish(rest, client, now);
                if self.bug == Some(Bug::HoldsWithoutTurn)
                    && let State::Waiting(_) = self.tasks[place].state
                    && let Some(share) = self.cohort.held().cloned()
                {
                    let rest = self.cohort.withdraw(ticket, at, None);
                    let turn = (None, u32::MAX, share);
                    self.take(place, turn, now, client);
                    self.finish(rest, client, now);
                }
            }
            State::Attempting(ticket, attempt) => match client.standing(attempt) {
                None => {
                    let rest = self.cohort.withdraw(ticket, at, Some(attempt));
                    self.leave(place, now);
                    self.finish(rest, client, now);
                }
                Some(Standing::Lost) => {
                    let rest = self.cohort.withdraw(ticket, at, None);
                    self.leave(place, now);
                    self.finish(rest, client, now);
                }
                Some(_) => {
                    let share = Arc::new(attempt);
                    self.nodes.insert(attempt, Arc::downgrade(&share));
                    if let Some(keep) = self.keep {
                        client.watch_queue(now, attempt, self.lock, keep);
                    }
                    let (turn, rest) = self.cohort.acquired(ticket, at, share);
                    self.hold(place, turn, now, client);
                    self.finish(rest, client, now);
                }
            },
            State::Holding { node, share } => {
                let attempt = *share;
                if self.lock == SHARED && self.rng.u8(..3) == 0 {
                    return self.convert(place, (node, share), now, client);
                }
                client.check_lease(now, attempt);
                self.refresh(client, now);
                client.record(ClientEvent::EndedTurn(attempt, place));
                self.leave(place, now);
                if self.bug == Some(Bug::ReleasesWhatIsPassedOn) {
                    client.release(now, attempt);
                }
                let rest = node.map(|node| self.cohort.leave(node, at).1);
                drop(share);
                self.finish(rest.unwrap_or_default(), client, now);
            }
        }
    }

    fn kind(&self, place: usize) -> LockKind {
        match (self.lock, self.tasks[place].mode) {
            (MUTEX, _) => LockKind::Mutex,
            (_, LockMode::Exclusive) => LockKind::Write,
            (_, LockMode::Shared) => LockKind::Read,
        }
    }

    fn hold(&mut self, place: usize, turn: Turn<Share>, now: Duration, client: &mut SimClient) {
        self.take(place, (Some(turn.node), turn.number, turn.held), now, client);
    }

    fn take(
        &mut self,
        place: usize,
        (node, number, share): (Option<u64>, u32, Share),
        now: Duration,
        client: &mut SimClient,
    ) {
        client.record(ClientEvent::TookTurn(*share, place, number));
        let is_long = self.rng.u8(..16) == 0;
        let hold = up_to(&mut self.rng, if is_long { 5_000 } else { 50 });
        let task = &mut self.tasks[place];
        (task.state, task.due) = (State::Holding { node, share }, now + hold);
        task.is_woken = false;
    }

    /// Keeps the node for this task, and changes its mode if no other task has it.
    fn convert(
        &mut self,
        place: usize,
        (node, share): (Option<u64>, Share),
        now: Duration,
        client: &mut SimClient,
    ) {
        if let Some(node) = node {
            let rest = self.cohort.take_away(node);
            self.finish(rest, client, now);
        }
        let is_alone = Arc::strong_count(&share) == 1;
        let node = node.filter(|_| !is_alone);
        if is_alone && client.standing(*share) != Some(Standing::Lost) {
            let other = match self.tasks[place].mode {
                LockMode::Shared => LockMode::Exclusive,
                LockMode::Exclusive => LockMode::Shared,
            };
            self.tasks[place].due = NEVER;
            client.convert(now, *share, other);
        } else {
            self.tasks[place].due = now + up_to(&mut self.rng, 50);
        }
        self.tasks[place].state = State::Holding { node, share };
    }

    /// The task is out, and comes again later.
    fn leave(&mut self, place: usize, now: Duration) {
        let pause = match self.rng.u8(..8) {
            _ if !self.is_active => NEVER,
            0 => up_to(&mut self.rng, 2_000),
            _ => up_to(&mut self.rng, 20),
        };
        (self.tasks[place].state, self.tasks[place].due) = (State::Out, now + pause);
    }
}

fn up_to(rng: &mut fastrand::Rng, millis: u64) -> Duration {
    Duration::from_micros(rng.u64(..millis * 1_000))
}

/// Checks that tasks hold a lock only as they may, whichever client they are of.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The tasks that hold a lock, by client, lock and number.
    open: BTreeMap<(u64, AttemptId, usize), String>,
    /// The last turn of an exclusive holder of each lock.
    last: BTreeMap<String, (Zxid, u32)>,
    /// Since when others wait for a lock that is passed on.
    awaited: BTreeMap<(u64, AttemptId), Duration>,
}

impl Turns {
    /// Handles an event of a client. Returns what is wrong.
    pub(super) fn handle_event(
        &mut self,
        now: Duration,
        client: u64,
        event: &ClientEvent,
        locks: &LockChecker,
        ensemble: &Ensemble,
    ) -> Result<Option<&'static str>, String> {
        match event {
            ClientEvent::TookTurn(attempt, task, number) => {
                let who = (client, *attempt);
                let Some((path, kind, token)) = locks.holding(who) else {
                    return Err(format!("{who:?}: passed on, although it is not held"));
                };
                self.open.insert((client, *attempt, *task), path.to_owned());
                let holders = self.open.iter().filter(|(_, of)| *of == path).map(|(it, _)| *it);
                let owners = holders.filter(|it| locks.is_there((it.0, it.1), ensemble));
                let kinds: Vec<_> =
                    owners.filter_map(|it| Some(locks.holding((it.0, it.1))?.1)).collect();
                if !may_hold_together(kinds.iter()) {
                    return Err(format!("{path}: held by tasks that want {kinds:?}"));
                }
                if !locks.is_awaited(who, ensemble) {
                    self.awaited.remove(&who);
                } else if now - *self.awaited.entry(who).or_insert(now) > PATIENCE {
                    return Err(format!("{who:?}: passed on for longer than {PATIENCE:?}"));
                }
                // A client may not know yet that its node is gone.
                if locks.is_there(who, ensemble) {
                    let last = self.last.entry(path.to_owned()).or_default();
                    if (token, *number) <= *last {
                        return Err(format!("{path}: turn {token}.{number} comes after {last:?}"));
                    }
                    if kind != LockKind::Read {
                        *last = (token, *number);
                    }
                }
                return Ok(Some(if *number > 0 { "turns passed on" } else { "turns with a node" }));
            }
            ClientEvent::EndedTurn(attempt, task) => {
                self.open.remove(&(client, *attempt, *task));
            }
            ClientEvent::Released(attempt) => {
                let all = (client, *attempt, 0)..=(client, *attempt, usize::MAX);
                if let Some((who, _)) = self.open.range(all).next() {
                    return Err(format!("{who:?}: its node is released during its turn"));
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Forgets a client that was removed.
    pub(super) fn forget(&mut self, client: u64) {
        self.open.retain(|who, _| who.0 != client);
    }

    /// Tokens may be smaller from now on.
    pub(super) fn history_is_lost(&mut self) {
        self.last.clear();
    }
}
