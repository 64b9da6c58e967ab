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

pub(crate) mod action;
pub(crate) mod bug;
pub(crate) mod line;
pub(crate) mod reduction;
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

/// Returns the cuts that leave the pending writes unexecuted.
pub(crate) fn cuts_before_writes(client: usize, line: &Line) -> impl Iterator<Item = Action> {
    (0..=line.unserved()).map(move |sent| Action::Cut { client, sent, applied: 0 })
}

/// Returns the cuts after a pending write is executed.
pub(crate) fn cuts_after_writes(client: usize, line: &Line) -> impl Iterator<Item = Action> {
    let all = line.unserved_writes().map(|before| before + 1);
    let cut = move |applied, sent| Action::Cut { client, sent, applied };
    all.flat_map(move |applied| (applied..=line.unserved()).map(move |sent| cut(applied, sent)))
}

// ---- Possible actions
// ----------------------------------------------------------------------------

impl<P: Workload> World<P> {
    pub(crate) fn local_actions(
        &self,
        index: usize,
        steps: &mut Vec<Action>,
        faults: &mut Vec<Action>,
    ) {
        let client = &self.clients[index];
        if client.line.has_events() {
            steps.push(Action::Receive(index));
        }
        if client.settling.is_some() && client.line.inbox.is_empty() {
            steps.push(Action::Settle(index));
        }
        if client.timer && self.bounds.timers == Timers::Always {
            steps.push(Action::Timer(index));
        }
        if self.bounds.leases > 0 {
            faults.push(Action::LeaseEnds(index));
        }
        for (act, when) in self.workload.owner_actions(index, &self.owners) {
            match when {
                Timing::Eventually => steps.push(Action::Command(index, act)),
                Timing::Budgeted if self.bounds.early_commands == 0 => {}
                Timing::Optional | Timing::Budgeted => faults.push(Action::Command(index, act)),
            }
        }
    }

    /// Adds the faults that lose the messages in transit.
    ///
    /// Others may act before the connection breaks. That matters only if a write of this client is
    /// executed in between.
    pub(crate) fn losses(&self, index: usize, faults: &mut Vec<Action>) {
        let line = &self.clients[index].line;
        if self.bounds.faults > 0 && line.inbox.is_empty() {
            faults.extend(cuts_before_writes(index, line));
            faults.extend(line.unserved_writes().next().map(|_| Action::LoseReplies(index)));
        }
    }

    pub(crate) fn session_actions(
        &self,
        index: usize,
        steps: &mut Vec<Action>,
        faults: &mut Vec<Action>,
    ) {
        let client = &self.clients[index];
        let unserved = client.line.unserved();
        if client.line.loses_replies {
            steps.extend(cuts_after_writes(index, &client.line));
            // Others may act between two writes.
            let is_last = client.line.unserved_writes().count() == 1;
            return steps.extend((!is_last).then_some(Action::Serve(index)));
        }
        if client.server.is_some() && unserved > 0 {
            steps.push(Action::Serve(index));
            if self.bounds.refusals > 0 {
                let next = &client.line.next().operation;
                let refusals = next.with_request(|request| self.workload.refusals(request));
                faults.extend(refusals.iter().map(|it| Action::Refuse(index, *it)));
            }
        }
        if client.server.is_none() && !client.line.ended && !client.line.is_renewing {
            let orders = if client.line.has_several_watches() { 2 } else { 1 };
            for (server, at) in self.resumptions(client.line.seen) {
                let resume = |reversed| Action::Resume { client: index, server, at, reversed };
                steps.extend([false, true].into_iter().take(orders).map(resume));
            }
        }
        if self.bounds.faults > 0 {
            match client.server {
                Some(_) => {
                    faults.extend(cuts_before_writes(index, &client.line));
                    faults.extend(cuts_after_writes(index, &client.line));
                }
                None if !client.line.expired => faults.push(Action::Expire(index)),
                None => {}
            }
        }
    }

    // ---- Actions -------------------------------------------------------------------------------

    pub(crate) fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Serve(client) => self.serve(client),
            Action::Refuse(client, refusal) => {
                self.bounds.refusals -= 1;
                self.refuse(client, refusal);
            }
            Action::Receive(client) => self.receive(client)?,
            Action::Settle(client) => {
                let since = self.client(client).settling.take().unwrap_or_default();
                self.perform(client, Some(Input::Settled.into()), Cause::Settled, since)?;
            }
            Action::Timer(client) => {
                self.client(client).timer = false;
                self.perform(client, Some(Input::Timer.into()), Cause::Other, 0)?;
            }
            Action::Command(client, act) => {
                let actions = self.workload.owner_actions(client, &self.owners);
                let is_whim = actions.contains(&(act, Timing::Budgeted));
                self.bounds.early_commands -= usize::from(is_whim);
                self.workload.owner_acted(client, act, &self.owners, &mut self.milestones);
                self.owners[client].release |= act == Command::Release;
                self.perform(client, Some(act.into()), Cause::Other, 0)?;
            }
            Action::LoseReplies(client) => {
                self.bounds.faults -= 1;
                self.client(client).line.lose_replies();
            }
            Action::Cut { client, sent, applied } => {
                self.bounds.faults -= usize::from(!self.clients[client].line.loses_replies);
                self.cut(client, sent, applied);
            }
            Action::Resume { client, server, at, reversed } => {
                self.resume(client, server, at, reversed);
            }
            Action::Expire(client) => {
                self.bounds.faults -= 1;
                self.client(client).line.expired = true;
                self.tree.expire(client);
            }
            Action::LeaseEnds(client) => {
                self.bounds.leases -= 1;
                self.perform(client, Some(Input::LeaseEnded.into()), Cause::Other, 0)?;
            }
            Action::DeleteNode(node) => {
                let budget = self.bounds.deletions.as_mut().unwrap_or(&mut self.bounds.faults);
                *budget -= 1;
                self.tree.delete(node);
            }
            Action::OutsideChange(outside) => {
                let is_fault = matches!(outside, OutsideChange::Forge(_) | OutsideChange::Recreate);
                self.bounds.faults -= usize::from(is_fault);
                self.workload.apply_outside(outside, &mut self.tree);
            }
            Action::CatchUp(server) => self.apply_next(server),
        }
        Ok(())
    }

    pub(crate) fn apply_next(&mut self, server: usize) {
        let (now, events) = self.tree.apply_next(server);
        for client in 0..self.clients.len() {
            if self.clients[client].server == Some(server) {
                let line = &mut self.client(client).line;
                events.iter().for_each(|(path, event)| line.fire(path, *event, now));
            }
        }
    }

    pub(crate) fn cut(&mut self, index: usize, sent: usize, applied: usize) {
        let line = &self.clients[index].line;
        let lost: Vec<_> = line.asked.iter().skip(line.served).take(applied).cloned().collect();
        for asked in lost {
            asked.operation.with_request(|request| drop(self.tree.write(index, request)));
        }
        let bug = self.bounds.bug;
        let client = self.client(index);
        client.line.cut(sent, |asked| {
            asked.operation.with_request(|request| match (bug, request) {
                (Some(Bug::LostSyncTrusted), Request::Sync(_)) => AfterLoss::SeemsAnswered,
                (Some(Bug::ResendsDeletions), Request::Delete(_)) => AfterLoss::IsResent,
                _ => AfterLoss::Fails,
            })
        });
        client.server = None;
    }

    pub(crate) fn resume(&mut self, index: usize, server: usize, at: Index, reversed: bool) {
        let client = Arc::make_mut(&mut self.clients[index]);
        match client.line.expired {
            true if self.bounds.renews => client.line.renew(),
            true => client.line.end(),
            false => {
                client.server = Some(server);
                self.tree.advance(server, at);
                client.line.resume(&self.tree, at, self.tree.session(index), reversed);
            }
        }
    }

    // ---- The server ----------------------------------------------------------------------------

    pub(crate) fn serve(&mut self, index: usize) {
        let server = self.clients[index].server.expect("a connection");
        let asked = self.clients[index].line.next().clone();
        let answer =
            asked.operation.with_request(|request| self.answer(index, server, &asked, request));
        let is_cut = self.bounds.in_pieces && asked.operation.comes_in_pieces();
        self.client(index).line.reply(answer, is_cut);
    }

    pub(crate) fn refuse(&mut self, index: usize, refusal: Refusal) {
        let server = self.clients[index].server.expect("a connection");
        let result = match refusal {
            Refusal::Temporary => refused(ErrorCode::THROTTLED_OP),
            Refusal::Permanent => refused(ErrorCode::NO_AUTH),
            Refusal::Garbage => {
                let asked = self.clients[index].line.next().clone();
                asked.operation.with_request(|request| drop(self.tree.write(index, request)));
                self.catch_up(server);
                ok()
            }
        };
        let asked = &self.clients[index].line.next().operation;
        let watch = (result.is_ok() && asked.watches()).then(|| {
            let now = self.tree.now(server);
            asked.with_request(|request| self.tree.read(index, request, now).1)
        });
        let answer = Answer::new(result, watch, self.tree.now(server));
        self.client(index).line.reply(answer, false);
    }

    /// A server replies to a write, or a sync, after it has applied everything before it.
    pub(crate) fn catch_up(&mut self, server: usize) {
        while self.tree.is_lagging(server) {
            self.apply_next(server);
        }
    }

    pub(crate) fn answer(
        &mut self,
        index: usize,
        server: usize,
        asked: &PendingRequest,
        request: &Request<'_>,
    ) -> Answer {
        if let Some(result) = self.tree.write(index, request) {
            self.catch_up(server);
            return Answer::new(result, None, self.tree.now(server));
        }
        let bug = self.bounds.bug;
        if let Request::Sync(_) = request {
            let is_for_stat = || {
                let next = self.clients[index].line.asked.get(self.clients[index].line.served + 1);
                next.is_some_and(|next| next.is(|next| matches!(next, Request::Exists(_))))
            };
            let waits = match bug {
                Some(Bug::NoSync) => false,
                Some(Bug::NoSyncForReader) => !is_for_stat(),
                _ => true,
            };
            if waits {
                self.catch_up(server);
            }
        }
        let now = self.tree.now(server);
        let (mut result, mut watch) = self.tree.read(index, request, now);
        let is_set = result.is_ok() || watch == tree::Watched::Absence;
        if let Request::GetChildren(list) = request
            && !asked.operation.watches()
            && self.workload.overlooks_others(index, &self.tree, now)
        {
            result = self.tree.list(list.path, index, now, |it| it.owner == Some(index));
        }
        if let Request::GetChildren(list) = request {
            let noted = self.clients[index].noted;
            match bug {
                Some(Bug::NamesWithoutGuid) if asked.is_behind_sync => {
                    let own = guid(index, 0).as_hyphenated().to_string();
                    result = self.tree.list(list.path, index, now, |it| !it.path.contains(&own));
                }
                Some(Bug::SplitNameDropped) if asked.operation.comes_in_pieces() => {
                    let mut names = self.tree.at(now).filter(|(_, it)| it.is_in(list.path));
                    let first = names.next().filter(|(_, it)| it.owner != Some(index));
                    let first = first.map(|(_, node)| node.path.clone());
                    let rest = |it: &Node| first.as_ref() != Some(&it.path);
                    result = self.tree.list(list.path, index, now, rest);
                }
                Some(Bug::CountedBeforeCreated) if list.path.ends_with("/leases") => {
                    let counts = |it: &Node| it.owner == Some(index) || it.exists_at(noted);
                    result = self.tree.list(list.path, index, now, counts);
                }
                Some(Bug::OnePermitWatched(maximum)) if list.path.ends_with("/leases") => {
                    let others = self.tree.at(now).map(|(_, node)| node);
                    let others: Vec<_> = others
                        .filter(|it| it.is_in(list.path) && it.owner != Some(index))
                        .map(|it| it.path.clone())
                        .collect();
                    let one = others.into_iter().rev().nth(maximum - 1);
                    self.client(index).line.redirect(asked.op, one.unwrap_or_else(|| "/".into()));
                    watch = tree::Watched::Children;
                }
                _ => {}
            }
        }
        let is_watched = asked.operation.watches() && is_set;
        Answer::new(result, is_watched.then_some(watch), now)
    }

    // ---- The machine ---------------------------------------------------------------------------

    /// Delivers the session's next event to the machine.
    pub(crate) fn receive(&mut self, index: usize) -> Result<(), String> {
        let client = self.client(index);
        if client.line.inbox.is_empty() {
            client.line.receive();
        }
        // The watch may have been removed.
        let Some(event) = client.line.inbox.pop_front() else {
            return Ok(());
        };
        let (input, cause, now) = match event {
            SessionEvent::Reply(asked, answer) => {
                let cause = asked.operation.with_request(|request| match request {
                    Request::Create2(_) => Cause::Created,
                    Request::Exists(_) => Cause::Looked,
                    _ => Cause::Other,
                });
                let result = (*answer.result).clone();
                let result = self.with_lost_pieces(index, &asked, result);
                if result.is_ok() {
                    let Self { workload, milestones, .. } = self;
                    asked.operation.with_request(|request| workload.replied(request, milestones));
                }
                (Input::Reply { tag: asked.op.tag(), result }, cause, answer.now)
            }
            SessionEvent::Fired(op, event, now) => (fired(op, EventType(event)), Cause::Other, now),
            SessionEvent::Suspended | SessionEvent::Connected(_)
                if self.bounds.bug == Some(Bug::ReconnectUnnoticed)
                    && self.owners[index].progress == Progress::Nothing =>
            {
                return Ok(());
            }
            SessionEvent::Suspended => (Input::State(State::Suspended), Cause::Other, 0),
            SessionEvent::Connected(session) => {
                (Input::State(State::Connected { server: 0, session }), Cause::Other, 0)
            }
            SessionEvent::Renewing => (Input::State(State::Renewing), Cause::Other, 0),
            SessionEvent::Expired => (Input::State(State::Ended(End::Expired)), Cause::Other, 0),
        };
        let is_end = matches!(input, Input::State(State::Ended(_)));
        let is_renewed = matches!(input, Input::State(State::Renewing));
        self.perform(index, Some(input.into()), cause, now)?;
        if is_renewed {
            self.client(index).line.is_renewing = false;
            if self.owners[index].progress.is_held() {
                return Err(format!("{index} holds a lock across sessions"));
            }
        }
        match is_end && !self.clients[index].machine.is_done() {
            true => Err(format!("{index} outlives its session")),
            false => Ok(()),
        }
    }

    /// Puts the pieces of a list that was lost before those of the next one, for an injected bug.
    fn with_lost_pieces(
        &mut self,
        index: usize,
        asked: &PendingRequest,
        result: Result<Reply, Error>,
    ) -> Result<Reply, Error> {
        let is_list = asked.operation.comes_in_pieces();
        let Ok(reply) = result else { return result };
        if self.bounds.bug != Some(Bug::LostPiecesKept) || !is_list {
            return Ok(reply);
        }
        let client = self.client(index);
        let (op, mut pieces) = client.pieces.take().unwrap_or((asked.op, Vec::new()));
        let is_lost = op != asked.op;
        pieces.extend_from_slice(&reply.body);
        let body = if is_lost { pieces.clone().into() } else { reply.body.clone() };
        client.pieces = reply.has_more.then_some((asked.op, pieces));
        Ok(harness::piece(&reply, body, reply.has_more))
    }

    /// Gives the machine an input, and carries out its outputs.
    pub(crate) fn perform(
        &mut self,
        index: usize,
        given: Option<Given>,
        cause: Cause,
        now: Index,
    ) -> Result<(), String> {
        let mut machine = (*self.clients[index].machine).clone();
        self.workload.begin_turn(index);
        // As a dispatcher does, with the current state.
        let session = self.tree.session(index);
        let first = || Input::State(State::Connected { server: 0, session }).into();
        machine.handle(given.unwrap_or_else(first));
        let mut outputs = 0;
        while let Some(output) = machine.poll_output() {
            outputs += 1;
            match output {
                Output::SetTimer(_) => self.client(index).timer = true,
                Output::Settle => self.client(index).settling = Some(now),
                Output::Unwatch(op) => self.client(index).line.unwatch(op),
                Output::Submit { op, operation } => self.submit(index, op, operation),
                Output::Event(event) => {
                    let Self { workload, tree, owners, milestones, .. } = self;
                    let context = ReportContext { tree, owners, now, cause, milestones };
                    owners[index].progress = workload.reported(index, &event, context)?;
                }
            }
        }
        if outputs > 12 {
            return Err(format!("{index} is busy"));
        }
        let done = machine.is_done();
        let client = self.client(index);
        (client.fingerprint, client.ops) =
            reduction::digest_without_ops(&(&machine.machine, machine.connection()));
        client.machine = Arc::new(machine);
        let begins = self.workload.end_turn(index, &mut self.milestones);
        if done {
            self.finish(index)?;
        }
        begins.map_or(Ok(()), |(client, machine)| self.begin(client, machine))
    }

    pub(crate) fn submit(&mut self, index: usize, op: OpId, mut operation: Operation) {
        let Self { bounds: Bounds { bug, .. }, workload, tree, milestones, .. } = self;
        let bug = *bug;
        operation.with_request(|request| workload.requested(index, request, milestones));
        let is_several = |request: &Request<'_>| matches!(request, Request::Multi(_));
        let notes = bug == Some(Bug::CountedBeforeCreated) && operation.with_request(is_several);
        let (log, watches) = (tree.log, operation.watches());
        let is_own = tree.find(&operation.path()).is_some_and(|node| node.owner == Some(index));
        let first = tree.owned().next().map(|(_, node)| node.path.to_string());
        if bug == Some(Bug::Herd) && watches && !is_own {
            operation = first.map_or(operation, Operation::watch);
        }
        let is_data = |request: &Request<'_>| matches!(request, Request::GetData(_));
        let is_unwatched = match bug {
            Some(Bug::NoWatchOnOwnNode) => is_own,
            Some(Bug::DataUnwatched) => operation.with_request(is_data),
            _ => false,
        };
        let client = self.client(index);
        if notes {
            client.noted = log;
        }
        client.line.submit(op, operation);
        if is_unwatched {
            client.line.unwatch(op);
        }
    }

    /// Checks that a finished machine has left no node, watch or request.
    pub(crate) fn finish(&mut self, index: usize) -> Result<(), String> {
        let Client { line, server, .. } = &*self.clients[index];
        let creates = |asked: &PendingRequest| {
            asked.is(|request| match request {
                Request::Create2(_) => true,
                // An announcement needs the node.
                Request::Multi(multi) => !multi.iter().any(|it| matches!(it, MultiOp::Check(_))),
                _ => false,
            })
        };
        if self.owners[index].progress != Progress::Over {
            return Err(format!("{index} is done and has not progress how"));
        }
        if !line.expired {
            if !line.watches.is_empty() {
                return Err(format!("{index} is done and leaves a watch"));
            }
            let leaves_node = self.tree.owned_by(index, self.tree.log).next().is_some();
            if leaves_node || line.asked.iter().any(creates) {
                return Err(format!("{index} is done and leaves a node"));
            }
        }
        let next = self.workload.next(index, server.is_some() && !line.ended);
        let client = self.client(index);
        (client.timer, client.settling) = (false, None);
        client.line.forget();
        if next.is_none() {
            // Nothing happens to it any more.
            (client.fingerprint, client.ops, client.server) = (0, Arc::default(), None);
        }
        next.map_or(Ok(()), |next| {
            self.milestones.insert("returns");
            self.begin(index, next)
        })
    }

    /// Begins the next attempt of a client.
    pub(crate) fn begin(&mut self, index: usize, machine: P::Machine) -> Result<(), String> {
        let client = self.client(index);
        client.line.forget();
        client.machine = Arc::new(Driven::idle(machine));
        self.owners[index] = Owner::default();
        self.perform(index, None, Cause::Other, 0)
    }
}
