//! The recorder of a session: writes down its inputs and outputs where they pass.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use zk_proto::conversation::{Conversation, Direction, Kind as Message};
use zk_proto::explain::MessageKind;
use zk_proto::frame::{self, FrameError};
use zk_proto::recording::{self, Fields, Kind, Writer};
use zk_proto::{OpCode, Request, RequestHeader, Xid};

use super::Recording;
use super::sink::Sink;
use crate::connect_string::ServerAddress;
use crate::dispatch::{Input, Key, Submission};
use crate::error::Error;
use crate::session::{Action, Cause, Config, Event, Reply, RequestId, State};
use crate::time::Instant;

/// How many bytes of records have one start of time. A ring forgets so many at once, at most.
const PART: usize = 16 << 10;

/// How long a file may lack the newest records.
const UNWRITTEN: u64 = 1_000_000_000;

/// Records a session, or nothing, which is the default. A clone of a session is not recorded.
#[derive(Default)]
pub(crate) struct Recorder(Option<Box<Recorded>>);

struct Recorded {
    sink: Sink,
    writer: Writer,
    keeps_data: bool,
    /// How many calls of the dispatcher are under way. What they do with the session is no input.
    depth: u32,
    /// How many parts have begun.
    parts: u64,
    /// The bytes of the current part.
    part: usize,
    written_at: u64,
    record: Vec<u8>,
    /// The messages of the connection, to know where secrets are.
    conversation: Conversation,
    /// What was sent of the next frame.
    sent: Vec<u8>,
    frame: Vec<u8>,
    /// The credentials, each with its number. The recording has the numbers only.
    credentials: Vec<(String, Bytes)>,
}

impl Clone for Recorder {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", if self.is_on() { "on" } else { "off" })
    }
}

impl Recorder {
    /// Begins a recording, unless it is one that another session has begun.
    pub(crate) fn new(
        recording: &Recording,
        now: Instant,
        config: &Config,
        servers: &[ServerAddress],
    ) -> Self {
        let Some(mut sink) = recording.take() else { return Self(None) };
        let (mut writer, mut start) = (Writer::default(), Writer::MAGIC.to_vec());
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        writer.record(&mut start, Kind::BEGIN, nanoseconds(now), |fields| {
            fields.number(since_1970.as_nanos() as u64);
            fields.bytes(env!("CARGO_PKG_VERSION").as_bytes());
            fields.number(recording.keeps_data.into());
            super::settings::put(fields, config);
        });
        writer.record(&mut start, Kind::SERVERS, 0, |fields| put_servers(fields, servers));
        sink.begin(&start);
        Self(Some(Box::new(Recorded {
            sink,
            writer,
            keeps_data: recording.keeps_data,
            depth: 0,
            parts: 0,
            part: PART,
            written_at: nanoseconds(now),
            record: Vec::new(),
            conversation: Conversation::new(i32::MAX as usize),
            sent: Vec::new(),
            frame: Vec::new(),
            credentials: Vec::new(),
        })))
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a call of the dispatcher.
    pub(crate) fn begin(&mut self, kind: Kind, now: Instant, fields: impl FnOnce(&mut Fields<'_>)) {
        self.input(kind, Some(now), fields);
        if let Some(recorded) = &mut self.0 {
            recorded.depth += 1;
        }
    }

    /// Ends the call.
    pub(crate) fn end(&mut self) {
        if let Some(recorded) = &mut self.0 {
            recorded.depth -= 1;
        }
    }

    /// Records an input, unless the dispatcher makes it.
    #[inline]
    pub(crate) fn input(
        &mut self,
        kind: Kind,
        now: Option<Instant>,
        fields: impl FnOnce(&mut Fields<'_>),
    ) {
        if let Some(recorded) = self.0.as_mut().filter(|recorded| recorded.depth == 0) {
            recorded.write_at(kind, now, fields);
        }
    }

    /// Records an output.
    #[inline]
    pub(crate) fn output(&mut self, kind: Kind, fields: impl FnOnce(&mut Fields<'_>)) {
        if let Some(recorded) = &mut self.0 {
            recorded.write_at(kind, None, fields);
        }
    }

    #[inline]
    pub(crate) fn servers(&mut self, servers: &[ServerAddress]) {
        if let Some(recorded) = &mut self.0 {
            recorded.write_at(Kind::SERVERS, None, |fields| put_servers(fields, servers));
        }
    }

    #[inline]
    pub(crate) fn connected(&mut self, now: Instant) {
        if let Some(recorded) = &mut self.0 {
            recorded.conversation = Conversation::new(i32::MAX as usize);
            recorded.sent.clear();
            recorded.write_at(Kind::CONNECTED, Some(now), |_| {});
        }
    }

    #[inline]
    pub(crate) fn sent(&mut self, now: Instant, bytes: &[u8]) {
        if let Some(recorded) = &mut self.0 {
            recorded.sent(now, bytes);
        }
    }

    #[inline]
    pub(crate) fn received(&mut self, now: Instant, payload: &[u8]) {
        if let Some(recorded) = &mut self.0 {
            recorded.received(now, payload);
        }
    }

    #[inline]
    pub(crate) fn rest(&mut self, now: Instant, bytes: &[u8]) {
        if let Some(recorded) = &mut self.0 {
            let gaps = match recorded.keeps_data || bytes.is_empty() {
                true => Vec::new(),
                false => Vec::from([0..bytes.len()]),
            };
            recorded.write_at(Kind::REST, Some(now), |fields| fields.message(bytes, &gaps));
        }
    }

    #[inline]
    pub(crate) fn bad_frame(&mut self, now: Instant, error: FrameError) {
        self.input(Kind::BAD_FRAME, Some(now), |fields| {
            if let FrameError::Negative(length) = error {
                fields.number(0);
                fields.signed(length.into());
            } else if let FrameError::TooLong { length, limit } = error {
                fields.number(1);
                fields.number(length as u64);
                fields.number(limit as u64);
            }
        });
    }

    #[inline]
    pub(crate) fn update_servers(
        &mut self,
        now: Instant,
        kept: &[Option<usize>],
        count: usize,
        moves: bool,
    ) {
        self.input(Kind::UPDATE_SERVERS, Some(now), |fields| {
            fields.number(moves.into());
            fields.number(count as u64);
            fields.number(kept.len() as u64);
            for new in kept {
                fields.number(new.map_or(0, |new| new as u64 + 1));
            }
        });
    }

    /// Records a submission, of a caller or of a machine.
    #[inline]
    pub(crate) fn submitted(
        &mut self,
        request: &Request<'_>,
        deadline: Option<Instant>,
        in_pieces: bool,
        xid: Option<Xid>,
    ) {
        if let Some(recorded) = &mut self.0 {
            recorded.with_body(Kind::SUBMIT, request, |fields| {
                fields.number(xid.map_or(0, |xid| xid.0 as u64));
                moment(fields, deadline);
                fields.number(in_pieces.into());
            });
        }
    }

    #[inline]
    pub(crate) fn authenticate(&mut self, request: &Request<'_>) {
        if let Some(recorded) = &mut self.0 {
            recorded.with_body(Kind::AUTHENTICATE, request, |_| {});
        }
    }

    #[inline]
    pub(crate) fn add_auth(&mut self, scheme: &str, auth: &[u8]) {
        if let Some(recorded) = &mut self.0 {
            let same = |(known, secret): &(String, Bytes)| known == scheme && secret == auth;
            let number = recorded.credentials.iter().position(same).unwrap_or_else(|| {
                recorded.credentials.push((scheme.into(), Bytes::copy_from_slice(auth)));
                recorded.credentials.len() - 1
            });
            recorded.write_at(Kind::ADD_AUTH, None, |fields| {
                fields.bytes(scheme.as_bytes());
                fields.number(number as u64);
                fields.number(auth.len() as u64);
            });
        }
    }

    #[inline]
    pub(crate) fn action(&mut self, action: Option<Action>) {
        if let Some(action) = action {
            self.output(Kind::ACTION, |fields| {
                let (number, server) = match action {
                    Action::Connect(server) => (0, server),
                    Action::Disconnect => (1, 0),
                    Action::Probe(server) => (2, server),
                };
                fields.number(number);
                fields.number(server as u64);
            });
        }
    }

    #[inline]
    pub(crate) fn event<T>(&mut self, event: Option<&Event<T>>) {
        if let Some(recorded) = &mut self.0
            && let Some(event) = event
        {
            recorded.write_at(Kind::EVENT, None, |fields| put_event(fields, event));
            if let Event::State(State::Ended(_)) = event {
                recorded.sink.flush();
            }
        }
    }

    #[inline]
    pub(crate) fn called(&mut self, key: Key, input: Option<&Input>) {
        self.output(Kind::CALL, |fields| {
            put_key(fields, key);
            put_input(fields, input);
        });
    }

    #[inline]
    pub(crate) fn machine_submits(&mut self, tag: u64, kind: Submission) {
        self.output(Kind::MACHINE_SUBMIT, |fields| {
            fields.number(tag);
            fields.number(kind as u64);
        });
    }

    #[inline]
    pub(crate) fn machine_sets_timer(&mut self, at: Option<Instant>) {
        self.output(Kind::MACHINE_TIMER, |fields| moment(fields, at));
    }
}

impl Recorded {
    fn write_at(&mut self, kind: Kind, now: Option<Instant>, fields: impl FnOnce(&mut Fields<'_>)) {
        let time = now.map_or(self.writer.time(), nanoseconds);
        self.write(kind, time, fields);
    }

    fn write(&mut self, kind: Kind, time: u64, fields: impl FnOnce(&mut Fields<'_>)) {
        self.record.clear();
        if self.part >= PART {
            let (before, number) = (self.writer.time(), self.parts);
            self.writer.record(&mut self.record, Kind::CLOCK, before, |it| it.number(number));
            self.sink.part();
            self.parts += 1;
            self.part = 0;
        }
        self.writer.record(&mut self.record, kind, time, fields);
        self.part += self.record.len();
        self.sink.write(&self.record);
        if time.saturating_sub(self.written_at) >= UNWRITTEN {
            self.written_at = time;
            self.sink.flush();
        }
    }

    /// Records the operation and the body of a request behind other fields.
    fn with_body(
        &mut self,
        kind: Kind,
        request: &Request<'_>,
        fields: impl FnOnce(&mut Fields<'_>),
    ) {
        let opcode = request.opcode();
        let mut frame = core::mem::take(&mut self.frame);
        frame.clear();
        // What is too long to be encoded is refused, too.
        let _ = frame::encode(&(RequestHeader { xid: Xid::FIRST, opcode }, request), &mut frame);
        let mut gaps = Vec::new();
        recording::gaps(&frame, MessageKind::Request, self.keeps_data, &mut gaps);
        let header = HEADER.min(frame.len());
        shift(&mut gaps, header);
        self.write_at(kind, None, |recorded| {
            fields(recorded);
            recorded.signed(opcode.0.into());
            recorded.message(frame.get(header..).unwrap_or_default(), &gaps);
        });
        self.keep(frame);
    }

    fn sent(&mut self, now: Instant, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        let sent = core::mem::take(&mut self.sent);
        let mut rest = &sent[..];
        let (mut count, mut ended) = (0, Vec::new());
        let mut fields = Fields::new(&mut ended);
        while let Ok(Some((message, behind))) = self.conversation.read(Direction::ToServer, rest) {
            count += 1;
            rest = behind;
            match message.kind {
                Message::Request(header) if header.xid > Xid(0) && !is_own(header.opcode) => {
                    fields.number(0);
                    fields.number(header.xid.0 as u64);
                }
                _ => {
                    let mut gaps = Vec::new();
                    let kind = message.explained_as().unwrap_or(MessageKind::Request);
                    recording::gaps(message.bytes, kind, self.keeps_data, &mut gaps);
                    fields.number(1);
                    fields.message(message.bytes, &gaps);
                }
            }
        }
        self.write_at(Kind::SENT, Some(now), |fields| {
            fields.number(bytes.len() as u64);
            fields.number(count);
            fields.fields(&ended);
        });
        let partly = rest.len();
        let mut sent = sent;
        sent.drain(..sent.len() - partly);
        sent.shrink_to(PART);
        self.sent = sent;
    }

    fn received(&mut self, now: Instant, payload: &[u8]) {
        let mut frame = core::mem::take(&mut self.frame);
        frame.clear();
        frame.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        frame.extend_from_slice(payload);
        let kind = match self.conversation.read(Direction::ToClient, &frame) {
            Ok(Some((message, _))) => message.explained_as(),
            _ => None,
        };
        let mut gaps = Vec::new();
        let kind = kind.unwrap_or(MessageKind::UnknownReply);
        recording::gaps(&frame, kind, self.keeps_data, &mut gaps);
        shift(&mut gaps, frame::PREFIX_LEN);
        self.write_at(Kind::FRAME, Some(now), |fields| fields.message(payload, &gaps));
        self.keep(frame);
    }

    /// Keeps a buffer, unless it has grown large.
    fn keep(&mut self, mut frame: Vec<u8>) {
        frame.clear();
        frame.shrink_to(PART);
        self.frame = frame;
    }
}

/// The length of a request's header, with the length prefix of the frame.
const HEADER: usize = 12;

/// Returns whether the session itself may send such requests, so that no submission has them.
fn is_own(opcode: OpCode) -> bool {
    matches!(
        opcode,
        OpCode::CLOSE_SESSION | OpCode::REMOVE_WATCHES | OpCode::SASL | OpCode::GET_EPHEMERALS
    )
}

fn shift(gaps: &mut [core::ops::Range<usize>], by: usize) {
    for gap in gaps {
        *gap = gap.start.saturating_sub(by)..gap.end.saturating_sub(by);
    }
}

pub(super) fn nanoseconds(now: Instant) -> u64 {
    now.since_start().as_nanos() as u64
}

fn moment(fields: &mut Fields<'_>, at: Option<Instant>) {
    fields.number(at.map_or(0, |at| nanoseconds(at).saturating_add(1)));
}

fn put_servers(fields: &mut Fields<'_>, servers: &[ServerAddress]) {
    fields.number(servers.len() as u64);
    for server in servers {
        put_text(fields, server);
    }
}

fn put_key(fields: &mut Fields<'_>, key: Key) {
    fields.number(key.place.into());
    fields.number(key.generation.into());
}

fn put_requests(fields: &mut Fields<'_>, requests: &[RequestId]) {
    fields.number(requests.len() as u64);
    for request in requests {
        fields.number(request.number);
    }
}

fn put_text(fields: &mut Fields<'_>, text: &dyn fmt::Display) {
    fields.bytes(alloc::format!("{text}").as_bytes());
}

fn put_state(fields: &mut Fields<'_>, state: State) {
    let (number, server, session) = match state {
        State::Connecting => (0, 0, 0),
        State::Connected { server, session } => (1, server, session.0),
        State::ReadOnly { server, session } => (2, server, session.0),
        State::Suspended => (3, 0, 0),
        State::Renewing => (4, 0, 0),
        State::Ended(_) => (5, 0, 0),
    };
    fields.number(number);
    match state {
        State::Connected { .. } | State::ReadOnly { .. } => {
            fields.number(server as u64);
            fields.signed(session);
        }
        State::Ended(end) => put_text(fields, &end),
        _ => {}
    }
}

fn put_result(fields: &mut Fields<'_>, result: &Result<Reply, Error>) {
    match result {
        Ok(reply) => {
            fields.number(0);
            fields.signed(reply.opcode.0.into());
            fields.number(reply.body.len() as u64);
            fields.number(reply.has_more.into());
        }
        Err(Error::Server(code)) => {
            fields.number(1);
            fields.signed(code.0.into());
        }
        Err(error) => {
            fields.number(2);
            put_text(fields, error);
        }
    }
}

fn put_event<T>(fields: &mut Fields<'_>, event: &Event<T>) {
    match event {
        Event::State(state) => {
            fields.number(0);
            put_state(fields, *state);
        }
        Event::Disconnected { server, cause } => {
            fields.number(1);
            fields.number(*server as u64);
            match cause {
                // Where exactly depends on bytes that are left out.
                Cause::Malformed(_) => fields.bytes(b"malformed frame"),
                cause => put_text(fields, cause),
            }
        }
        Event::Authenticate { server } => {
            fields.number(2);
            fields.number(*server as u64);
        }
        Event::AuthenticationReply { server, result } => {
            fields.number(3);
            fields.number(*server as u64);
            put_result(fields, result);
        }
        Event::Reply { result, .. } => {
            fields.number(4);
            put_result(fields, result);
        }
        Event::Watch { requests, persistent, event } => {
            fields.number(5);
            put_requests(fields, requests);
            put_requests(fields, persistent);
            fields.signed(event.event_type.0.into());
        }
        Event::Gap { requests } => {
            fields.number(6);
            put_requests(fields, requests);
        }
        Event::WatchLost { requests, code } => {
            fields.number(7);
            put_requests(fields, requests);
            fields.signed(code.0.into());
        }
        Event::LeaseEnded => fields.number(8),
        Event::Room => fields.number(9),
    }
}

/// A machine's input, or `None` for a message of its owner.
fn put_input(fields: &mut Fields<'_>, input: Option<&Input>) {
    let number = match input {
        None => 0,
        Some(Input::State(_)) => 1,
        Some(Input::Reply { .. }) => 2,
        Some(Input::Watch { .. }) => 3,
        Some(Input::Gap { .. }) => 4,
        Some(Input::WatchLost { .. }) => 5,
        Some(Input::LeaseEnded) => 6,
        Some(Input::Closing) => 7,
        Some(Input::Timer) => 8,
        Some(Input::Settled) => 9,
    };
    fields.number(number);
    match input {
        Some(Input::State(state)) => put_state(fields, *state),
        Some(Input::Reply { tag, result }) => {
            fields.number(*tag);
            put_result(fields, result);
        }
        Some(Input::Watch { tag, event }) => {
            fields.number(*tag);
            fields.signed(event.event_type.0.into());
        }
        Some(Input::Gap { tag }) => fields.number(*tag),
        Some(Input::WatchLost { tag, code }) => {
            fields.number(*tag);
            fields.signed(code.0.into());
        }
        _ => {}
    }
}
