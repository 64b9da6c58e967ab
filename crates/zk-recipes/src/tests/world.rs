//! A small model of an ensemble and its clients, for any machine.
//!
//! The servers lag. Sessions lose their connection, resume on another server, and expire. Every
//! step is an [`Action`]. Faults are taken from a budget, so the number of states is finite, and
//! all of them can be explored. A [`Workload`] says what the clients do.
//!
//! The model follows what servers promise and the dispatcher delivers:
//!
//! * Transactions are ordered. A server applies them in order, and answers each session in order.
//! * A session resumes only on a server that is as new as the newest reply of the session.
//! * A watch fires once, in order with replies. After a resumption, missed events arrive in the
//!   order in which watches are set again: by class and path. GUIDs are random, and so is that
//!   order.
//! * Requests sent on a lost connection fail, in order, before the loss is reported. Requests that
//!   were not sent are sent on the next connection.
//! * A session that expires ends, or is renewed. What was asked until the machine knows of a renewal
//!   fails without a reply, and its watches are gone.
//! * A machine that asks to settle may receive more inputs first. It settles when the session has
//!   no more to deliver.

mod acting;
pub(crate) mod action;
pub(crate) mod bug;
mod client;
pub(crate) mod line;
mod possible;
pub(crate) mod reduction;
mod server;
pub(crate) mod tree;
pub(crate) mod workload;

pub(crate) use alloc::collections::{BTreeSet, VecDeque};
pub(crate) use alloc::sync::Arc;
pub(crate) use core::fmt::{Debug, Write};
pub(crate) use core::hash::{Hash, Hasher};
pub(crate) use std::hash::DefaultHasher;

pub(crate) use zk_session::Outcome;

pub(crate) use super::search;
pub(crate) use super::*;
pub(crate) use action::Action;
pub(crate) use bug::Bug;
pub(crate) use line::Line;
pub(crate) use line::{AfterLoss, Answer, PendingRequest, SessionEvent};
pub(crate) use tree::{Index, Node, NodeId, Numbers, OTHER_PROGRAM, Tree};
pub(crate) use workload::{
    Cause, Milestones, OutsideChange, Owner, Progress, Refusal, ReportContext, Timing, Workload,
};

/// When timers fire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timers {
    Always,
    /// Always in a world where something may go wrong. In others, when nothing else can happen.
    AmongFaults,
    /// When nothing else can happen.
    AtLast,
}

/// The properties of a world, and its budget of faults.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) servers: usize,
    pub(crate) numbers: Numbers,
    /// The number of lost connections, expired sessions and other faults.
    pub(crate) faults: usize,
    /// The number of nodes deleted by others, if these do not count as faults.
    pub(crate) deletions: Option<usize>,
    /// The number of leases that may end.
    pub(crate) leases: usize,
    /// The number of requests that the server refuses, or answers with garbage.
    pub(crate) refusals: usize,
    /// The number of commands that owners give early.
    pub(crate) early_commands: usize,
    pub(crate) timers: Timers,
    /// Whether an expired session is renewed.
    pub(crate) renews: bool,
    /// Whether servers apply transactions, and sessions receive messages, with a delay.
    ///
    /// Without delay, an input affects no other client before the machine's next request is served.
    /// A reply lost with its connection then equals one that was never sent.
    pub(crate) late: bool,
    /// Whether lists that may come in pieces do: three, cut within the first name and the last.
    pub(crate) in_pieces: bool,
    pub(crate) bug: Option<Bug>,
}

impl Bounds {
    pub(crate) const CALM: Self = Self {
        servers: 1,
        numbers: Numbers::Rise,
        faults: 0,
        deletions: None,
        leases: 0,
        refusals: 0,
        early_commands: 0,
        timers: Timers::AmongFaults,
        renews: false,
        late: false,
        in_pieces: false,
        bug: None,
    };
}

#[derive(Clone)]
pub(crate) struct Client<M> {
    machine: Arc<Driven<M>>,
    /// A hash of the state of `machine`, without the ids of its requests.
    fingerprint: u64,
    /// The ids of requests in `machine`, in the order of its debug text.
    ops: Arc<[OpId]>,
    server: Option<usize>,
    timer: bool,
    /// The state of the tree that the machine knows, if it has asked to settle.
    settling: Option<Index>,
    /// The length of the log at the last request for several nodes. Only for an injected bug.
    noted: Index,
    /// The pieces of the last list so far. Only for an injected bug.
    pieces: Option<(OpId, Vec<u8>)>,
    /// Whether anything has happened to it.
    has_acted: bool,
    line: Line,
}

impl<M> Hash for Client<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { fingerprint, ops, server, timer, settling, noted, has_acted, line, .. } = self;
        (fingerprint, server, timer, settling, noted, has_acted, line).hash(state);
        self.pieces.iter().for_each(|(_, pieces)| pieces.hash(state));
        reduction::hash_order(ops.iter().copied().chain(line.ops()), state);
    }
}

#[derive(Clone)]
pub(crate) struct World<P: Workload> {
    bounds: Bounds,
    pub(crate) workload: P,
    pub(crate) tree: Tree,
    clients: Vec<Arc<Client<P::Machine>>>,
    owners: Vec<Owner>,
    milestones: Milestones,
}

/// GUIDs with enough distance for several attempts of each client.
pub(crate) const fn guid(client: usize, attempt: u128) -> Uuid {
    Uuid::from_u128(((client as u128 + 1) << 8) + attempt)
}

/// Returns whether a node is of this client, in any of its attempts and sessions.
pub(crate) fn is_guid_of(client: usize, guid: Uuid) -> bool {
    const MOST_SESSIONS: u8 = 8;
    (0..MOST_SESSIONS).any(|expiries| {
        let attempt = AttemptConfig::node_guid(guid, session_after(client, expiries));
        let first = AttemptConfig::node_guid(attempt, session(client));
        // Attempts that queue again differ in the upper half.
        first.as_u64_pair().1 >> 8 == client as u64 + 1
    })
}

/// Returns the session of a client after so many expiries.
pub(crate) const fn session_after(client: usize, expiries: u8) -> SessionId {
    SessionId(session(client).0 + ((expiries as i64) << 16))
}

pub(crate) const fn session(client: usize) -> SessionId {
    SessionId(client as i64 + 1)
}

/// Returns a hash of everything that determines the behaviour.
pub(crate) fn digest(value: &impl Debug) -> u64 {
    search::fingerprint(|text| write!(text, "{value:?}"))
}

impl<P: Workload> World<P> {
    pub(crate) fn new(mut bounds: Bounds, workload: P) -> Self {
        let Bounds { faults, deletions, refusals, .. } = bounds;
        bounds.timers = match bounds.timers {
            Timers::AmongFaults if faults + deletions.unwrap_or_default() + refusals > 0 => {
                Timers::Always
            }
            Timers::AmongFaults => Timers::AtLast,
            timers => timers,
        };
        let tree = Tree::new(bounds.numbers, bounds.servers, bounds.bug, &workload.nodes());
        let machines = workload.machines();
        let has_own_server = machines.len() <= bounds.servers;
        let client = |(client, machine)| {
            Arc::new(Client {
                machine: Arc::new(Driven::idle(machine)),
                fingerprint: 0,
                ops: Arc::default(),
                server: Some(if has_own_server { client } else { 0 }),
                timer: false,
                settling: None,
                noted: 0,
                pieces: None,
                has_acted: false,
                line: Line::default(),
            })
        };
        let clients: Vec<_> = machines.into_iter().enumerate().map(client).collect();
        let owners = alloc::vec![Owner::default(); clients.len()];
        let milestones = Milestones::new();
        let mut world = Self { bounds, workload, tree, clients, owners, milestones };
        for client in 0..world.clients.len() {
            world.perform(client, None, Cause::Other, 0).expect("nothing has happened");
        }
        world
    }

    pub(crate) fn client(&mut self, client: usize) -> &mut Client<P::Machine> {
        Arc::make_mut(&mut self.clients[client])
    }
}

impl<P: Workload> search::World for World<P> {
    type Action = Action;
    type Milestone = &'static str;

    fn fingerprint(&self) -> u64 {
        let Bounds { faults, deletions, leases, refusals, early_commands, .. } = self.bounds;
        let mut hasher = DefaultHasher::new();
        (faults, deletions, leases, refusals, early_commands).hash(&mut hasher);
        (&self.workload, &self.tree, &self.clients, &self.owners).hash(&mut hasher);
        hasher.finish()
    }

    fn actions(&self) -> (Vec<Action>, Vec<Action>) {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        // An input affects no other client before the machine's next request is served. So deliver
        // it at once, or lose it with the connection.
        if let Some(client) = self.clients.iter().position(|client| client.line.has_events()) {
            self.local_actions(client, &mut steps, &mut faults);
            self.losses(client, &mut faults);
            return (steps, faults);
        }
        steps.extend(self.tree.lagging().filter(|it| self.has_clients(*it)).map(Action::CatchUp));
        for (client, state) in self.clients.iter().enumerate() {
            let is_unstarted = self.workload.is_unstarted(client, &self.owners);
            if !state.machine.is_done() && !is_unstarted && !self.is_behind_twin(client) {
                self.local_actions(client, &mut steps, &mut faults);
                self.session_actions(client, &mut steps, &mut faults);
            }
        }
        let may_go_wrong = self.bounds.faults > 0;
        for (outside, when) in self.workload.outside_changes(&self.owners, &self.tree, may_go_wrong)
        {
            let actions = if when == Timing::Eventually { &mut steps } else { &mut faults };
            actions.push(Action::OutsideChange(outside));
        }
        if self.bounds.deletions.unwrap_or(self.bounds.faults) > 0 {
            faults.extend(self.tree.owned().map(|(node, _)| Action::DeleteNode(node)));
        }
        if steps.is_empty() {
            let timers = (0..self.clients.len())
                .filter(|client| self.clients[*client].timer && !self.is_behind_twin(*client));
            steps.extend(timers.map(Action::Timer));
        }
        (steps, faults)
    }

    fn after(&self, action: Action) -> Result<Self, String> {
        let mut world = self.clone();
        if let Some(client) = action.client() {
            world.client(client).has_acted = true;
        }
        world.act(action)?;
        while !world.bounds.late && world.bounds.servers == 1 && world.tree.is_lagging(0) {
            world.apply_next(0);
        }
        while !world.bounds.late
            && let Some(client) = world
                .clients
                .iter()
                .position(|client| client.line.has_events() && client.settling.is_none())
        {
            world.receive(client)?;
        }
        world.forget_the_past();
        world.sort_servers();
        let lines: Vec<_> = world.clients.iter().map(|client| &client.line).collect();
        world.workload.check(&world.tree, &world.owners, &lines, &mut world.milestones)?;
        Ok(world)
    }

    fn check_end(&self) -> Result<(), String> {
        let waits = |client: &usize| {
            let may_wait = self.workload.may_wait(*client, &self.owners, &self.tree);
            !self.clients[*client].machine.is_done() && !may_wait
        };
        match (0..self.clients.len()).find(waits) {
            Some(client) => Err(format!("{client} waits for ever")),
            None => Ok(()),
        }
    }

    fn take_milestones(&mut self) -> Milestones {
        core::mem::take(&mut self.milestones)
    }
}
