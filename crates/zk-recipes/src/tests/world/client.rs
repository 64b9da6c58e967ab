//! A client: its machine receives inputs, submits requests and reports to its owner.

use super::*;

impl<P: Workload> World<P> {
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
