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
                (self.failures, self.sleeps_until) = (0, None);
                if state == State::Suspended && self.quirk == Some(Quirk::TakesLossForEvent) {
                    self.take_loss_for_event(now);
                }
                for id in self.attempts.keys().copied().collect::<Vec<_>>() {
                    self.tell_attempt(now, id, Input::Session(state));
                    self.tell_end_of_lease(now, id);
                }
            }
            Event::LeaseEnded => {
                for id in self.attempts.keys().copied().collect::<Vec<_>>() {
                    self.tell_end_of_lease(now, id);
                }
            }
            Event::Disconnected { .. } if self.quirk == Some(Quirk::SleepsThroughOutages) => {
                self.failures += 1;
                if self.failures.is_multiple_of(self.members) {
                    let doublings = (self.failures / self.members - 1).min(16);
                    let longest =
                        Duration::from_millis(100 << doublings).min(Duration::from_secs(5));
                    self.sleeps_until = Some(instant(now) + longest * 3 / 4);
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
                        // The old watch, which stands until the new one is set, has fired as well.
                        Some(Token::Renewal(..)) | None => {}
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
            Token::Renewal(id, op) => self.renewed(now, id, op, result),
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
        let timeout = self.session.timeout();
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if let Input::Watch { op, .. } = &input {
            attempt.watches.retain(|(watch, _)| watch != op);
        }
        if matches!(input, Input::Session(_)) {
            attempt.silent_since = instant(now);
        }
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
                            attempt.watches.push((op, operation));
                            attempt.silent_since = instant(now);
                        }
                        Ok(_) => {}
                        Err(error) => self.answers.push_back((token, Err(error))),
                    }
                }
                Output::Unwatch(op) => {
                    attempt.watches.retain(|(watch, _)| *watch != op);
                    unwatch(&mut self.session, &mut self.watches, Token::Renewal(id, op));
                    unwatch(&mut self.session, &mut self.watches, Token::Lock(id, op));
                }
                Output::Settle => attempt.machine.handle(Input::Settled),
                Output::SetTimer(after) => attempt.alarm = Some(instant(now) + after),
                Output::Event(event) => {
                    if created && matches!(event, zk_recipes::machine::Event::Acquired { .. }) {
                        self.notes.push_back(Note::Unlisted(id));
                    }
                    self.notes.push_back(Note::Lock(id, event));
                }
            }
        }
        let renews = !attempt.watches.is_empty() && self.quirk != Some(Quirk::NeverRenews);
        let wait = attempt.renewal.wait(timeout);
        attempt.silent_until = renews.then(|| attempt.silent_since + wait);
        if attempt.machine.is_done() {
            match attempt.machine.precedent() {
                Some(left) => self.precedents.insert(attempt.directory.clone(), left),
                None => self.precedents.remove(&attempt.directory),
            };
            self.attempts.remove(&id);
            self.notes.push_back(Note::Done(id));
        }
    }

    /// The lease may have ended before what an attempt has just heard.
    pub(super) fn tell_end_of_lease(&mut self, now: Duration, id: AttemptId) {
        if self.session.lease_has_ended(instant(now)) {
            self.tell_attempt(now, id, Input::LeaseEnded);
        }
    }

    /// Makes the request of one of its watches again.
    pub(super) fn renew_watch(&mut self, now: Duration, id: AttemptId) {
        let timeout = self.session.timeout();
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.silent_since = instant(now);
        attempt.silent_until = Some(instant(now) + attempt.renewal.wait(timeout));
        let is_connected = matches!(self.session.state(), State::Connected { .. });
        let Some(place) = attempt.renewal.next(attempt.watches.len()) else { return };
        if is_connected {
            let (op, operation) = &attempt.watches[place];
            let token = Token::Renewal(id, *op);
            unwatch(&mut self.session, &mut self.watches, token);
            if let Ok(request) = operation.with_request(|it| self.session.submit(it, token)) {
                self.watches.insert(request, token);
            }
        }
    }

    fn renewed(&mut self, now: Duration, id: AttemptId, op: OpId, result: Result<Reply, Error>) {
        let is_set = |attempt: &Attempt| attempt.watches.iter().any(|(watch, _)| *watch == op);
        let is_wanted = result.is_ok() && self.attempts.get(&id).is_some_and(is_set);
        let new = self.watches.iter().find(|(_, owner)| **owner == Token::Renewal(id, op));
        if let (true, Some(request)) = (is_wanted, new.map(|(request, _)| *request)) {
            self.watches.remove(&request);
            unwatch(&mut self.session, &mut self.watches, Token::Lock(id, op));
            self.watches.insert(request, Token::Lock(id, op));
        } else {
            unwatch(&mut self.session, &mut self.watches, Token::Renewal(id, op));
        }
        if Renewal::is_news(&result) {
            self.tell_attempt(now, id, Input::Reply { op, result });
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
