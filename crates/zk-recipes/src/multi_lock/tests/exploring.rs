//! Every course of several locks that are acquired together, within bounds.

use alloc::collections::{BTreeSet, VecDeque};

use super::super::super::multi_lock;
use super::super::super::multi_lock::{LockSpec, Mode, MultiAcquire, acquisition_order};
use crate::tests::exploring::world::{
    Line, Milestones, Owner, Progress, ReportContext, Timing, Tree, Workload, guid, session,
};
use crate::tests::exploring::*;
use crate::tests::{Command, Input};

/// A bug of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Flaw {
    /// It acquires the locks in the order in which they are given.
    OrderGiven,
    /// After a failure, it keeps the locks that it holds.
    KeepsLocks,
    /// After a failure, it stays in the queue of the lock that it waits for.
    KeepsItsPlace,
}

/// A client that acquires several locks: a [`MultiAcquire`], and a contender for each lock.
#[derive(Clone, Debug)]
struct Client {
    multi: MultiAcquire,
    /// In the order of acquisition.
    configs: Vec<AttemptConfig>,
    /// The contenders so far.
    contenders: Vec<Contender>,
    suspended: BTreeSet<u32>,
    session: Option<State>,
    flaw: Option<Flaw>,
    /// Whether all locks are held.
    is_held: bool,
    is_releasing: bool,
    /// Whether the result was reported.
    is_over: bool,
    /// Events of the contenders that are not handled yet.
    heard: VecDeque<(u32, Event)>,
}

impl Machine for Client {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        match input {
            Input::Reply { tag, .. } | Input::Watch { tag, .. } => {
                self.tell(OpId(tag).part(), input, turn);
            }
            Input::State(state) => {
                self.session = Some(state);
                self.tell_all(|| Input::State(state), turn);
            }
            Input::Timer => self.tell_all(|| Input::Timer, turn),
            Input::LeaseEnded => self.tell_all(|| Input::LeaseEnded, turn),
            Input::Settled => self.tell_all(|| Input::Settled, turn),
            input => panic!("{input:?}"),
        }
        self.settle(turn);
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        match command {
            Command::Leave => self.multi.handle(multi_lock::Input::TimedOut),
            Command::Release => {
                self.is_releasing = true;
                self.multi.handle(multi_lock::Input::Release);
            }
            command => panic!("{command:?}"),
        }
        self.settle(turn);
    }

    fn is_done(&self) -> bool {
        self.is_over && self.contenders.iter().all(Contender::is_done)
    }
}

impl Client {
    fn new(client: usize, paths: &[&str], flaw: Option<Flaw>) -> Self {
        let spec = |path: &&str| LockSpec {
            session: session(client),
            root: "/".to_string(),
            path: path.to_string(),
            mode: Mode::Lock { scheme: SCHEME, mode: LockMode::Exclusive },
        };
        let specs: Vec<_> = paths.iter().map(spec).collect();
        let order = acquisition_order(&specs).expect("compatible locks");
        let order: Vec<_> = match flaw {
            Some(Flaw::OrderGiven) => (0..paths.len()).collect(),
            _ => order.into_iter().map(|(index, _)| index).collect(),
        };
        let config = |index: usize| {
            let guid = guid(client, index as u128);
            AttemptConfig::of_node(paths[index].into(), SCHEME, guid, session(client))
        };
        Self {
            multi: MultiAcquire::new(paths.len()),
            configs: order.into_iter().map(config).collect(),
            contenders: Vec::new(),
            suspended: BTreeSet::new(),
            session: None,
            flaw,
            is_held: false,
            is_releasing: false,
            is_over: false,
            heard: VecDeque::new(),
        }
    }

    fn tell(&mut self, part: u32, given: impl Into<Given>, turn: &mut Turn<'_>) {
        let (given, contender) = (given.into(), &mut self.contenders[part as usize]);
        let mut hear = |event| {
            self.heard.push_back((part, event));
            None
        };
        turn.filtered(part, &mut hear, |turn| given.to(contender, turn));
    }

    fn tell_all(&mut self, input: impl Fn() -> Input, turn: &mut Turn<'_>) {
        (0..self.contenders.len()).for_each(|part| self.tell(part as u32, input(), turn));
    }

    /// Carries out the outputs and events of all machines.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            let (next, output) = (self.heard.pop_front(), self.multi.poll_output());
            if next.is_none() && output.is_none() {
                break;
            }
            output.into_iter().for_each(|output| self.perform(output, turn));
            next.into_iter().for_each(|(part, event)| self.heard(part, event, turn));
        }
        if self.is_releasing && self.contenders.iter().all(Contender::is_done) {
            self.conclude(Event::Released, turn);
        }
    }

    fn perform(&mut self, output: multi_lock::Output, turn: &mut Turn<'_>) {
        match output {
            multi_lock::Output::Enter(index) => {
                self.contenders.push(Contender::new(self.configs[index].clone()));
                let state = self.session.map_or(Input::Settled, Input::State);
                self.tell(index as u32, state, turn);
            }
            multi_lock::Output::Release(index) => {
                let is_last = index + 1 == self.contenders.len();
                let is_kept = match self.flaw {
                    Some(Flaw::KeepsLocks) => !self.is_releasing && !is_last,
                    Some(Flaw::KeepsItsPlace) => !self.is_releasing && is_last,
                    _ => false,
                };
                if !is_kept {
                    self.tell(index as u32, Command::Release, turn);
                }
            }
            multi_lock::Output::Acquired => self.is_held = true,
            multi_lock::Output::Failed(_, SemaphoreError::Lock(error)) => {
                self.conclude(Event::Failed(error), turn);
            }
            multi_lock::Output::Failed(_, error) => self.conclude(Event::Refused(error), turn),
        }
    }

    /// Handles an event of the contender with this number.
    fn heard(&mut self, part: u32, event: Event, turn: &mut Turn<'_>) {
        match event {
            Event::Acquired { .. } => {
                self.multi.handle(multi_lock::Input::Acquired);
                if part as usize + 1 == self.configs.len() && !self.is_releasing && !self.is_over {
                    self.report(event, turn);
                    if !self.suspended.is_empty() {
                        self.report(Event::Suspended, turn);
                    }
                }
            }
            Event::Failed(error) => self.multi.handle(multi_lock::Input::Failed(error.into())),
            // The caller gives up all locks.
            Event::Lost(_) if self.is_held => {
                self.conclude(event, turn);
                self.multi.handle(multi_lock::Input::Release);
            }
            Event::Lost(loss) => self.multi.handle(multi_lock::Input::Lost(part as usize, loss)),
            Event::Suspended => {
                let is_first = self.suspended.insert(part) && self.suspended.len() == 1;
                if is_first && self.is_held {
                    self.report(event, turn);
                }
            }
            Event::Resumed => {
                let was_last = self.suspended.remove(&part) && self.suspended.is_empty();
                if was_last && self.is_held {
                    self.report(event, turn);
                }
            }
            Event::Waiting { .. } => self.report(event, turn),
            _ => {}
        }
    }

    fn report(&mut self, event: Event, turn: &mut Turn<'_>) {
        if !self.is_over {
            turn.report(event);
        }
    }

    fn conclude(&mut self, event: Event, turn: &mut Turn<'_>) {
        self.report(event, turn);
        self.is_over = true;
    }
}

/// The locks of each client, in the order in which they are given.
type Wants = &'static [&'static [&'static str]];

/// Clients that want the same locks.
#[derive(Clone, Hash)]
struct SeveralLocks {
    wants: Wants,
    /// Whether no single node is deleted.
    nobody_meddles: bool,
    flaw: Option<Flaw>,
}

impl Workload for SeveralLocks {
    type Machine = Client;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        let paths: BTreeSet<_> = self.wants.iter().flat_map(|paths| paths.iter()).collect();
        paths.into_iter().map(|path| (*path, &b""[..])).collect()
    }

    fn machines(&self) -> Vec<Client> {
        let clients = self.wants.iter().enumerate();
        clients.map(|(client, paths)| Client::new(client, paths, self.flaw)).collect()
    }

    fn twin(&self, client: usize) -> Option<usize> {
        let paths = |client: usize| self.wants[client].iter().collect::<BTreeSet<_>>();
        let is_like =
            |other: &usize| self.flaw != Some(Flaw::OrderGiven) && paths(*other) == paths(client);
        client.checked_sub(1).filter(is_like)
    }

    /// A client that waits may also run out of time.
    fn owner_actions(&self, client: usize, owners: &[Owner]) -> Vec<(Command, Timing)> {
        let owner = &owners[client];
        let waits = owner.progress == Progress::Nothing && !owner.release;
        let leave = waits.then_some((Command::Leave, Timing::Budgeted));
        owner.release_action().into_iter().chain(leave).collect()
    }

    fn reported(
        &mut self,
        client: usize,
        event: &Event,
        mut context: ReportContext<'_>,
    ) -> Result<Progress, String> {
        let owner = &context.owners[client];
        let after = owner.after(client, event)?;
        let has_held = owner.progress != Progress::Nothing;
        match event {
            Event::Acquired { .. } => {
                for path in self.wants[client] {
                    let nodes = context.tree.at(context.now).map(|(_, node)| node);
                    let first = nodes.filter(|node| node.is_in(path)).min_by_key(|it| it.place);
                    if first.is_none_or(|first| first.owner != Some(client)) && self.nobody_meddles
                    {
                        return Err(format!("{client} does not hold {path}"));
                    }
                }
                context.reach(ACQUIRES[client]);
            }
            Event::Waiting { .. } => context.reach("waits"),
            Event::Resumed => context.reach("resumes"),
            Event::Lost(loss) => context.reach(lost_by(client, loss)?),
            Event::Released if !has_held => context.reach("gives up"),
            Event::Failed(error) => context.reach(match error {
                LockError::TimedOut => "runs out of time",
                LockError::Lost(Loss::NodeDeleted) => "loses a lock while it waits",
                LockError::Lost(Loss::Ended(_)) | LockError::Ended(_) => "ends with its session",
                LockError::NodeVanished => "vanishes",
                error => return Err(format!("{client} fails: {error}")),
            }),
            _ => {}
        }
        Ok(after)
    }

    fn check(
        &mut self,
        tree: &Tree,
        owners: &[Owner],
        _: &[&Line],
        _: &mut Milestones,
    ) -> Result<(), String> {
        for (path, _) in self.nodes() {
            let owns =
                |client: &usize| tree.owned_by(*client, tree.log).any(|node| node.is_in(path));
            if (0..owners.len()).filter(|it| owners[*it].holds()).filter(owns).count() > 1 {
                return Err(format!("two hold {path}"));
            }
        }
        Ok(())
    }
}

const OPPOSITE: Wants = &[&["/a", "/b"], &["/b", "/a"]];

const CALM: Bounds = Bounds { deletions: Some(0), timers: Timers::AtLast, ..Bounds::CALM };

fn locks(wants: Wants, bounds: Bounds) -> World<SeveralLocks> {
    flawed(wants, bounds, None)
}

fn flawed(wants: Wants, bounds: Bounds, flaw: Option<Flaw>) -> World<SeveralLocks> {
    let nobody_meddles = bounds.deletions == Some(0);
    World::new(bounds, SeveralLocks { wants, nobody_meddles, flaw })
}

#[test]
fn two_that_give_two_locks_in_opposite_orders_take_turns() {
    let bounds = Bounds { late: true, ..CALM };
    search::prove(locks(OPPOSITE, bounds), 230, &[ONE, TWO, "waits"]);
}

#[test]
fn two_take_turns_with_three_locks() {
    let wants: Wants = &[&["/a", "/b", "/c"], &["/c", "/b", "/a"]];
    search::prove(locks(wants, CALM), 222, &[ONE, TWO, "waits"]);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn three_that_want_two_of_three_locks_each_take_turns() {
    let wants: Wants = &[&["/a", "/b"], &["/b", "/c"], &["/c", "/a"]];
    search::prove(locks(wants, CALM), 23_338, &[ONE, TWO, THREE, "waits"]);
}

#[test]
fn one_that_gives_up_or_runs_out_of_time_holds_nothing() {
    let bounds = Bounds { early_commands: 2, ..CALM };
    search::prove(
        locks(OPPOSITE, bounds),
        3_756,
        &[ONE, TWO, "waits", "gives up", "runs out of time"],
    );
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn one_that_loses_a_lock_releases_the_others() {
    let bounds = Bounds { deletions: Some(1), timers: Timers::AmongFaults, ..CALM };
    let lost = ["loses its node", "loses a lock while it waits", "vanishes"];
    search::prove(locks(OPPOSITE, bounds), 7_780, &[&[ONE, TWO, "waits"][..], &lost].concat());
}

const SURVIVED: [&str; 4] = [ONE, TWO, "waits", "resumes"];

#[test]
fn two_survive_one_fault() {
    search::prove(locks(OPPOSITE, Bounds { faults: 1, ..CALM }), 2_081, &SURVIVED);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn two_survive_two_faults() {
    let more = ["loses its session", "ends with its session"];
    let world = locks(OPPOSITE, Bounds { faults: 2, ..CALM });
    search::prove(world, 21_711, &[&SURVIVED[..], &more].concat());
}

// ---- Negative controls --------------------------------------------------------------------------

#[test]
fn two_that_acquire_in_the_order_given_deadlock() {
    search::refute(flawed(OPPOSITE, CALM, Some(Flaw::OrderGiven)), "0 waits for ever", 20);
}

#[test]
fn locks_kept_after_a_failure_block_others() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    search::refute(flawed(OPPOSITE, bounds, Some(Flaw::KeepsLocks)), "0 waits for ever", 12);
}

#[test]
fn a_place_kept_after_a_failure_blocks_others() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    search::refute(flawed(OPPOSITE, bounds, Some(Flaw::KeepsItsPlace)), "0 waits for ever", 9);
}
