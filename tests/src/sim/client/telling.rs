//! What a client tells, and to whom: the session's news to those who made requests.

use super::*;

impl SimClient {
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Gives everything that the session tells to whom it concerns, until it has no more to tell.
    pub(super) fn settle(&mut self, now: Duration) {
        loop {
            if let Some((token, result)) = self.answers.pop_front() {
                self.answered(now, token, result);
            } else if let Some(event) = self.session.poll_event() {
                self.handle_event(now, event);
            } else {
                return;
            }
        }
    }

    fn handle_event(&mut self, now: Duration, event: Event<Token>) {
        match event {
            Event::State(state) => {
                self.notes.push_back(Note::State(state));
                self.lease = match state {
                    State::Connected { .. } => None,
                    _ => self.lease.or(self.session.lease()),
                };
                if state == State::Suspended && self.quirk == Some(Quirk::TakesLossForEvent) {
                    self.take_loss_for_event(now);
                }
                for id in self.attempts.keys().copied().collect::<Vec<_>>() {
                    self.tell_attempt(now, id, Input::Session(state));
                }
            }
            Event::Reply { token, result } => self.answered(now, token, result),
            Event::Watch { .. } if self.quirk == Some(Quirk::DropsEvents) => {}
            Event::Watch { requests, persistent, event } => {
                for request in persistent {
                    if let Some(Token::Call(id)) = self.watches.get(&request) {
                        self.notes.push_back(Note::Fired(*id, event.clone()));
                    }
                }
                for request in requests {
                    match self.watches.remove(&request) {
                        Some(Token::Call(id)) => {
                            self.notes.push_back(Note::Fired(id, event.clone()));
                        }
                        Some(Token::Lock(id, op)) => {
                            self.notes.push_back(Note::Woken(id, event.path.to_string()));
                            let event_type = event.event_type;
                            self.tell_attempt(now, id, Input::Watch { op, event_type });
                        }
                        None => {}
                    }
                }
            }
            Event::Gap { .. } if self.quirk == Some(Quirk::ConcealsGaps) => {}
            Event::Gap { requests } => {
                for request in requests {
                    if let Some(Token::Call(id)) = self.watches.get(&request) {
                        self.notes.push_back(Note::Gap(*id));
                    }
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, now: Duration, token: Token, result: Result<Reply, Error>) {
        match token {
            Token::Call(id) => {
                let call = self.calls.remove(&id);
                match (call, &result) {
                    (Some(call), Err(Error::ConnectionLost))
                        if self.quirk == Some(Quirk::RepeatsWhatWasLost) =>
                    {
                        self.submit_call(id, call, None);
                    }
                    (_, Err(Error::DeadlinePassed { .. }))
                        if self.quirk == Some(Quirk::TakesDeadlineForRefusal) =>
                    {
                        let outcome = Outcome::NotApplied;
                        let result = Err(Error::DeadlinePassed { outcome });
                        self.notes.push_back(Note::Answered(id, result));
                    }
                    _ => self.notes.push_back(Note::Answered(id, result)),
                }
            }
            Token::Lock(id, op) => {
                let result = match (self.quirk, self.attempts.get(&id)) {
                    (Some(Quirk::SeesOnlyItself), Some(attempt)) => {
                        result.map(|reply| without_others(reply, &attempt.guid.to_string()))
                    }
                    _ => result,
                };
                self.tell_attempt(now, id, Input::Reply { op, result });
            }
        }
    }

    pub(super) fn submit_call(&mut self, id: CallId, call: Arc<Call>, until: Option<Duration>) {
        let (request, token) = (call.request(), Token::Call(id));
        let submitted = match until {
            Some(until) => self.session.submit_until(&request, token, instant(until)),
            None => self.session.submit(&request, token),
        };
        match submitted {
            Ok(request) if call.watches() => {
                self.watches.insert(request, Token::Call(id));
            }
            Ok(_) => {}
            Err(error) => self.answers.push_back((Token::Call(id), Err(error))),
        }
        self.calls.insert(id, call);
    }

    pub(super) fn tell_attempt(&mut self, now: Duration, id: AttemptId, input: Input) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let is_creation = |reply: &Reply| reply.opcode == OpCode::CREATE2;
        let created =
            matches!(&input, Input::Reply { result: Ok(reply), .. } if is_creation(reply));
        attempt.machine.handle(input);
        while let Some(output) = attempt.machine.poll_output() {
            match output {
                Output::Submit { op, operation } => {
                    let token = Token::Lock(id, op);
                    let is_sync = operation.with_request(|r| matches!(r, Request::Sync(_)));
                    if is_sync && self.quirk == Some(Quirk::LooksWithoutSync) {
                        let body = Bytes::new();
                        let reply = Reply { opcode: OpCode::SYNC, zxid: Zxid::ZERO, body };
                        self.answers.push_back((token, Ok(reply)));
                        continue;
                    }
                    let watch_directory =
                        operation.watches() && self.quirk == Some(Quirk::WatchesTheDirectory);
                    let directory = path::parent(operation.path()).unwrap_or("/");
                    let listing = GetChildrenRequest { path: directory, watch: true };
                    match operation.with_request(|request| match watch_directory {
                        true => self.session.submit(&Request::GetChildren(listing), token),
                        false => self.session.submit(request, token),
                    }) {
                        Ok(request) if operation.watches() => {
                            self.watches.insert(request, token);
                        }
                        Ok(_) => {}
                        Err(error) => self.answers.push_back((token, Err(error))),
                    }
                }
                Output::Unwatch(op) => {
                    unwatch(&mut self.session, &mut self.watches, Token::Lock(id, op));
                }
                Output::SetTimer(after) => attempt.alarm = Some(instant(now) + after),
                Output::Event(event) => {
                    if created && matches!(event, zk_recipes::machine::Event::Acquired { .. }) {
                        self.notes.push_back(Note::Unlisted(id));
                    }
                    self.notes.push_back(Note::Lock(id, event));
                }
            }
        }
        if attempt.machine.is_done() {
            match attempt.machine.precedent() {
                Some(left) => self.precedents.insert(attempt.directory.clone(), left),
                None => self.precedents.remove(&attempt.directory),
            };
            self.attempts.remove(&id);
            self.notes.push_back(Note::Done(id));
        }
    }

    fn take_loss_for_event(&mut self, now: Duration) {
        // The last watch of a lock is on the node before its own.
        let mut last = BTreeMap::new();
        for owner in self.watches.values() {
            if let Token::Lock(id, op) = *owner {
                last.insert(id, op);
            }
        }
        for (id, op) in last {
            self.tell_attempt(now, id, Input::Watch { op, event_type: EventType::NODE_DELETED });
        }
    }
}

/// A list in which everybody else is missing.
fn without_others(reply: Reply, guid: &str) -> Reply {
    if reply.opcode != OpCode::GET_CHILDREN {
        return reply;
    }
    let Ok(response) = reply.decode::<GetChildrenResponse<'_>>() else { return reply };
    let own: Vec<_> = response.children.iter().filter(|child| child.contains(guid)).collect();
    let mut body = BytesMut::new();
    GetChildrenResponse { children: own[..].into() }.encode(&mut body);
    Reply { body: body.freeze(), ..reply }
}

/// Whoever made a request wants its watch no more.
pub(super) fn unwatch(
    session: &mut Session<Token>,
    watches: &mut BTreeMap<RequestId, Token>,
    token: Token,
) {
    let watch = watches.iter().find(|(_, owner)| **owner == token);
    if let Some(request) = watch.map(|(request, _)| *request) {
        watches.remove(&request);
        session.unwatch(request);
    }
}
