//! The steps of a scene: what the client is asked, and what a scripted server does.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;

use zk_proto::{
    Decode as _, Encode, ErrorCode, EventType, KeeperState, OpCode, Reader, ReplyHeader,
    RequestHeader, SessionId, WatcherEvent, Xid, Zxid,
};

use super::body::{body, hex};
use super::pattern::{
    abridged, explained, has_fields, integer, matches, number, parse, parse_byte,
};
use super::player::{
    LONG, PASSWORD, Played, Player, SESSION, Stop, TIMEOUT, fail, send, send_welcome,
};
use super::scene::Step;

impl Player<'_> {
    pub(super) fn step(&mut self, step: &Step) -> Played {
        let words = &step.words[..];
        let rest = words.join(" ");
        match step.verb.as_str() {
            "do" => self.ask(step.client, &rest),
            "ok" => self.judge(step.client, &format!("ok {rest}")),
            "error" => self.judge(step.client, &format!("error {rest}")),
            "answer" => self.judge(step.client, &rest),
            "auth-failed" => match self.judge(step.client, "error -115") {
                // Some clients report it only as a state.
                Err(Stop::Failed(why)) if why.ends_with("`ok`") => {
                    self.state(step.client, "auth-failed")
                }
                judged => judged,
            },
            "state" => self.state(step.client, &rest),
            "event" => self.event(step.client, &rest),
            "never" => {
                self.never.push(rest);
                Ok(())
            }
            "session" => {
                self.ask(step.client, "connect $0")?;
                self.accept(&[])?;
                self.welcome(words)?;
                self.state(step.client, "connected")
            }
            "ensemble" => self.start_ensemble(words),
            "accept" => self.accept(words),
            "welcome" => self.welcome(words),
            "reject" => {
                let timeout = number(words, "timeout", 0)?;
                self.answer_handshake((SessionId::NONE, 0), timeout, Some(false))
            }
            "expect" => self.expect(words),
            "again" => {
                self.follow_to_next_connection()?;
                self.expect(words)
            }
            "eventually" => self.expect_eventually(words),
            "unordered" => self.expect_unordered(words),
            "reply" => self.reply(words, &mut |stream, bytes| stream.write_all(bytes)),
            "drip" => self.reply(words, &mut |stream, bytes| {
                bytes.chunks(1).try_for_each(|byte| stream.write_all(byte))
            }),
            "cut-reply" => {
                let length: usize = parse(words.first())?;
                self.reply(&words[1..], &mut |stream, bytes| {
                    let cut = bytes.len().min(length);
                    stream.write_all(&bytes[..cut])?;
                    stream.shutdown(Shutdown::Both)
                })
            }
            "refuse" => self.refuse(words),
            "forget" => {
                self.connection()?.pending.pop_front();
                Ok(())
            }
            "fire" => self.fire(words),
            "raw" => {
                let bytes = hex(&words.concat()).map_err(Stop::Failed)?;
                Ok(self.connection()?.stream.write_all(&bytes)?)
            }
            "cut" => self.cut(),
            "closed" => {
                let number = self.current()?;
                self.wait("the client closes the connection", |player| {
                    player.connections[&number].is_closed.then_some(Ok(()))
                })
            }
            "ping" => {
                let number = self.current()?;
                self.wait("a ping", |player| {
                    (player.connections[&number].pings > 0).then_some(Ok(()))
                })?;
                self.connection()?.pings = 0;
                Ok(())
            }
            "hush" => {
                self.answers_pings = false;
                Ok(())
            }
            "speak" => {
                self.answers_pings = true;
                Ok(())
            }
            "down" | "up" => {
                let server: usize = parse(words.first())?;
                self.down[server].store(step.verb == "down", Ordering::Relaxed);
                Ok(())
            }
            "granted" => {
                let [session, password] = words else { return fail("a session and a byte") };
                self.granted = (SessionId(integer(session)?), parse_byte(password)?);
                self.connection()?.is_answered = true;
                Ok(())
            }
            "isro" => {
                self.is_writable = rest == "rw";
                Ok(())
            }
            "zxid" => {
                self.zxid = integer(&rest)?;
                Ok(())
            }
            "catch" => {
                self.trap = Some(rest);
                Ok(())
            }
            "caught" => {
                self.wait("the request", |player| player.caught.as_ref().map(|_| Ok(())))?;
                self.current = self.caught.as_ref().map(|(number, _)| *number);
                Ok(())
            }
            "apply" | "pass" => {
                self.trap = None;
                let Some((number, frame)) = self.caught.take() else { return fail("no request") };
                if step.verb == "apply"
                    && let Some(connection) = self.connections.get_mut(&number)
                {
                    connection.is_muted = true;
                }
                self.forward(number, &frame);
                Ok(())
            }
            "drop" => {
                (self.trap, self.caught) = (None, None);
                Ok(())
            }
            "expire" => self.expire(),
            "children" => self.count_children(words),
            _ => fail("no such step"),
        }
    }

    pub(super) fn ask(&mut self, client: usize, command: &str) -> Played {
        let command = command.replace("$long", &"x".repeat(LONG));
        let mut command = command.replace("$refused", &self.refused.address().to_string());
        for (server, address) in self.addresses.iter().enumerate() {
            let local = format!("localhost:{}", address.port());
            command = command.replace(&format!("$localhost{server}"), &local);
            command = command.replace(&format!("${server}"), &address.to_string());
        }
        self.note(format!("client {client} < {}", abridged(&command)));
        self.subjects[client].ask(&command).or_else(|error| fail(format!("it has ended: {error}")))
    }

    /// Compares the answer to the oldest command with a pattern.
    pub(super) fn judge(&mut self, client: usize, pattern: &str) -> Played {
        let Some((number, command)) = self.subjects[client].asked.pop_front() else {
            return fail("no command waits for an answer");
        };
        let what = format!("the answer to `{command}`");
        let answer =
            self.wait(&what, |player| player.subjects[client].answers.remove(&number).map(Ok))?;
        match matches(pattern, &answer) {
            true => Ok(()),
            false => fail(format!("`{command}` is answered `{answer}`")),
        }
    }

    pub(super) fn state(&mut self, client: usize, pattern: &str) -> Played {
        // `connect` has no other answer than the states.
        self.pass_over_connect(client)?;
        self.wait("the state", |player| {
            let subject = &mut player.subjects[client];
            let states = &subject.states[subject.states_judged..];
            let place = states.iter().position(|state| matches(pattern, state))?;
            subject.states_judged += place + 1;
            Some(Ok(()))
        })
        .map_err(|stop| match stop {
            Stop::Failed(why) => {
                Stop::Failed(format!("{why}; the states were {:?}", self.subjects[client].states))
            }
            unsupported => unsupported,
        })
    }

    pub(super) fn pass_over_connect(&mut self, client: usize) -> Played {
        match self.subjects[client].asked.front() {
            Some((_, command)) if command.starts_with("connect") => self.judge(client, "ok"),
            _ => Ok(()),
        }
    }

    pub(super) fn event(&mut self, client: usize, pattern: &str) -> Played {
        let event =
            self.wait("the event", |player| player.subjects[client].events.pop_front().map(Ok))?;
        match matches(pattern, &event) {
            true => Ok(()),
            false => fail(format!("the event is `{event}`")),
        }
    }

    pub(super) fn accept(&mut self, words: &[String]) -> Played {
        let at = number(words, "at", -1)?;
        let number = self.wait("a connection with a handshake", |player| {
            let place = player.arrived.iter().position(|number| {
                let connection = &player.connections[number];
                connection.handshake.is_some()
                    && !connection.is_closed
                    && (at < 0 || usize::try_from(at) == Ok(connection.server))
            })?;
            player.arrived.remove(place).map(Ok)
        })?;
        self.current = Some(number);
        let Some(handshake) = self.connection()?.handshake.clone() else { return Ok(()) };
        self.note(format!("{handshake:x?}"));
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let is_as_expected = match key {
                "at" => true,
                "session" => handshake.session == SessionId(integer(value)?),
                "zxid" => handshake.zxid == integer(value)?,
                "timeout" => i64::from(handshake.timeout) == integer(value)?,
                "readonly" => handshake.read_only.unwrap_or(false) == (value == "true"),
                "password" if value == "none" => {
                    handshake.password.as_ref().is_none_or(|bytes| *bytes == [0; 16])
                }
                "password" => handshake.password == Some(vec![parse_byte(value)?; 16]),
                _ => return fail(format!("no such field: {key}")),
            };
            if !is_as_expected {
                let handshake = self.connection()?.handshake.clone();
                return fail(format!("the handshake is {handshake:x?}"));
            }
        }
        Ok(())
    }

    pub(super) fn welcome(&mut self, words: &[String]) -> Played {
        let (mut session, mut password) = (SESSION, PASSWORD);
        let mut read_only = Some(false);
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "session" => session = SessionId(integer(value)?),
                "password" => password = parse_byte(value)?,
                "no-flag" => read_only = None,
                "read-only" => read_only = Some(true),
                "timeout" => {}
                _ => return fail(format!("no such field: {key}")),
            }
        }
        self.granted = (session, password);
        let timeout = number(words, "timeout", TIMEOUT)?;
        self.answer_handshake(self.granted, timeout, read_only)
    }

    pub(super) fn answer_handshake(
        &mut self,
        granted: (SessionId, u8),
        timeout: i32,
        read_only: Option<bool>,
    ) -> Played {
        let connection = self.connection()?;
        // Servers read on when they have a session, so what belongs to the handshake may come early.
        let early = connection.requests.iter().find(|request| {
            RequestHeader::decode(&mut Reader::new(request)).is_ok_and(|header| {
                ![OpCode::AUTH, OpCode::SET_WATCHES, OpCode::SET_WATCHES2].contains(&header.opcode)
            })
        });
        if let Some(request) = early {
            let text = explained(request).unwrap_or_default();
            return fail(format!("a request before the answer to the handshake: {text}"));
        }
        connection.is_answered = true;
        Ok(send_welcome(&mut connection.stream, granted, timeout, read_only)?)
    }

    pub(super) fn next_request(&mut self) -> Played<(RequestHeader, String)> {
        let number = self.current()?;
        let request = self.wait("a request", |player| {
            let connection = player.connections.get_mut(&number)?;
            match connection.requests.pop_front() {
                Some(request) => Some(Ok(request)),
                None if connection.is_closed => Some(fail("the client has closed the connection")),
                None => None,
            }
        })?;
        let header = RequestHeader::decode(&mut Reader::new(&request));
        let header = header.or_else(|error| fail(error.to_string()))?;
        Ok((header, explained(&request).map_err(Stop::Failed)?))
    }

    pub(super) fn expect(&mut self, words: &[String]) -> Played {
        let (header, text) = self.next_request()?;
        self.connection()?.pending.push_back((header.xid, header.opcode));
        match has_fields(words, &text) {
            true => Ok(()),
            false => fail(format!("the request is {text}")),
        }
    }

    /// Confirms other requests until the expected one comes.
    pub(super) fn expect_eventually(&mut self, words: &[String]) -> Played {
        loop {
            let (header, text) = self.next_request()?;
            self.connection()?.pending.push_back((header.xid, header.opcode));
            if has_fields(words, &text) {
                return Ok(());
            }
            self.reply(&[], &mut |stream, bytes| stream.write_all(bytes))?;
        }
    }

    /// Waits for a request, and welcomes the client if it connects again first.
    pub(super) fn follow_to_next_connection(&mut self) -> Played {
        loop {
            let number = self.current()?;
            let is_next = self.wait("a request", |player| {
                let connection = &player.connections[&number];
                let has_request = !connection.requests.is_empty() && !connection.is_closed;
                (has_request || !player.arrived.is_empty()).then_some(Ok(!has_request))
            })?;
            if !is_next {
                return Ok(());
            }
            self.accept(&[])?;
            self.welcome(&[])?;
        }
    }

    /// Expects one request for each operation, in any order. Their replies follow the order of the
    /// words.
    pub(super) fn expect_unordered(&mut self, words: &[String]) -> Played {
        let mut found = vec![None; words.len()];
        for _ in words {
            let (header, text) = self.next_request()?;
            let open = (0..words.len())
                .find(|&index| found[index].is_none() && has_fields(&words[index..=index], &text));
            match open {
                Some(index) => found[index] = Some((header.xid, header.opcode)),
                None => return fail(format!("the request is {text}")),
            }
        }
        self.connection()?.pending.extend(found.into_iter().flatten());
        Ok(())
    }

    pub(super) fn reply(
        &mut self,
        words: &[String],
        write: &mut dyn FnMut(&mut TcpStream, &[u8]) -> io::Result<()>,
    ) -> Played {
        let default = self.zxid + 1;
        let (mut zxid, mut err, mut shift, mut place) = (default, 0, 0, 0);
        let mut fixed_xid = None;
        let mut rest = Vec::new();
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "zxid" => zxid = integer(value)?,
                "err" => err = i32::try_from(integer(value)?).unwrap_or(0),
                "shift" => shift = i32::try_from(integer(value)?).unwrap_or(0),
                "xid" => fixed_xid = Some(i32::try_from(integer(value)?).unwrap_or(0)),
                "nth" => place = usize::try_from(integer(value)?).unwrap_or(0),
                _ => rest.push(word.clone()),
            }
        }
        if zxid > 0 {
            self.zxid = self.zxid.max(zxid);
        }
        let connection = self.connection()?;
        let Some((xid, opcode)) = connection.pending.remove(place) else {
            return fail("no request waits for a reply");
        };
        let xid = Xid(fixed_xid.unwrap_or(xid.0 + shift));
        let body = body(opcode, &rest).map_err(Stop::Failed)?;
        let header = ReplyHeader { xid, zxid: Zxid(zxid), err: ErrorCode(err) };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.extend(body);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend(bytes);
        // The client may have closed the connection, which later steps judge.
        let _ = write(&mut self.connection()?.stream, &frame);
        Ok(())
    }

    pub(super) fn refuse(&mut self, words: &[String]) -> Played {
        let Some((code, rest)) = words.split_first() else { return fail("no code") };
        let mut words = vec![format!("err={code}")];
        words.extend(rest.iter().cloned());
        self.reply(&words, &mut |stream, bytes| stream.write_all(bytes))
    }

    pub(super) fn fire(&mut self, words: &[String]) -> Played {
        let event_type = match words.first().map(String::as_str) {
            Some("created") => EventType::NODE_CREATED,
            Some("deleted") => EventType::NODE_DELETED,
            Some("changed") => EventType::NODE_DATA_CHANGED,
            Some("children") => EventType::NODE_CHILDREN_CHANGED,
            Some(other) => EventType(i32::try_from(integer(other)?).unwrap_or(0)),
            None => return fail("no type"),
        };
        let path = words.get(1).map_or("", String::as_str);
        let zxid = Zxid(i64::from(number(words, "zxid", -1)?));
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: ErrorCode::OK };
        let state = KeeperState(number(words, "state", KeeperState::SYNC_CONNECTED.0)?);
        let event = WatcherEvent { event_type, state, path };
        Ok(send(&mut self.connection()?.stream, &(header, event))?)
    }

    pub(super) fn cut(&mut self) -> Played {
        let number = self.current()?;
        self.close(number);
        Ok(())
    }

    pub(super) fn close(&mut self, number: usize) {
        if let Some(connection) = self.connections.get_mut(&number) {
            let _ = connection.stream.shutdown(Shutdown::Both);
            connection.is_closed = true;
            connection.requests.clear();
            if let (Some(ensemble), Some(served)) = (&mut self.ensemble, connection.served.take()) {
                ensemble.handle_disconnect(served);
            }
        }
    }
}
