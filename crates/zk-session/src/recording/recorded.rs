//! What writes a recording.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use zk_proto::conversation::{Conversation, Direction, Kind as Message};
use zk_proto::explain::MessageKind;
use zk_proto::frame::{self, FrameError};
use zk_proto::recording::{self, Description, Fields, Kind, Writer};
use zk_proto::{OpCode, Request, RequestHeader, Xid};

use super::sink::Sink;
use super::{Start, settings};
use crate::connect_string::ServerAddress;
use crate::dispatch::{Attached, Input, Key};
use crate::error::Error;
use crate::recorder::{Record, Recorder, nanoseconds};
use crate::session::{Cause, Config, Event, Reply, RequestId, State};
use crate::threads::Mutex;
use crate::time::Instant;

/// How many bytes of records have one start of time. A ring forgets so many at once, at most.
const PART: usize = 16 << 10;

/// How long a file may lack the newest records.
const UNWRITTEN: u64 = 1_000_000_000;

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
    /// The xids of lists that may come in pieces. Names of nodes are not data.
    lists: VecDeque<u64>,
    /// Whether the reply that comes in pieces is one of them.
    is_list: bool,
    /// The credentials, each with its number. The recording has the numbers only.
    credentials: Vec<(String, Bytes)>,
}

impl Start for Mutex<Option<Sink>> {
    fn start(
        &self,
        keeps_data: bool,
        now: Instant,
        config: &Config,
        servers: &[ServerAddress],
    ) -> Recorder {
        let Some(mut sink) = self.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Recorder::default();
        };
        let (mut writer, mut start) = (Writer::default(), Writer::MAGIC.to_vec());
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        writer.record(&mut start, Kind::BEGIN, nanoseconds(now), |fields| {
            fields.number(since_1970.as_nanos() as u64);
            fields.bytes(env!("CARGO_PKG_VERSION").as_bytes());
            fields.number(keeps_data.into());
            settings::put(fields, config);
        });
        writer.record(&mut start, Kind::SERVERS, 0, |fields| put_servers(fields, servers));
        sink.begin(&start);
        Recorder([Some(Box::new(Recorded {
            sink,
            writer,
            keeps_data,
            depth: 0,
            parts: 0,
            part: PART,
            written_at: nanoseconds(now),
            record: Vec::new(),
            conversation: Conversation::new(i32::MAX as usize),
            sent: Vec::new(),
            frame: Vec::new(),
            lists: VecDeque::new(),
            is_list: false,
            credentials: Vec::new(),
        }))])
    }
}

impl Record for Recorded {
    fn begin(&mut self, kind: Kind, now: Instant, numbers: &[u64]) {
        self.input(kind, Some(now), numbers);
        self.depth += 1;
    }

    fn attached(&mut self, now: Instant, machine: &dyn Attached) {
        let keeps_data = self.keeps_data;
        self.write_at(Kind::ATTACH, Some(now), &|fields| {
            machine.describe(&mut Description::new(fields, keeps_data));
        });
        self.depth += 1;
    }

    fn commanded(
        &mut self,
        now: Instant,
        key: Key,
        machine: Option<&dyn Attached>,
        message: &mut dyn Any,
    ) {
        let keeps_data = self.keeps_data;
        self.write_at(Kind::COMMAND, Some(now), &|fields| {
            put_key(fields, key);
            if let Some(machine) = machine {
                machine.describe_command(message, &mut Description::new(fields, keeps_data));
            }
        });
        self.depth += 1;
    }

    fn end(&mut self) {
        self.depth -= 1;
    }

    fn input(&mut self, kind: Kind, now: Option<Instant>, numbers: &[u64]) {
        if self.depth == 0 {
            self.write_at(kind, now, &|fields| put_numbers(fields, numbers));
        }
    }

    fn output(&mut self, kind: Kind, numbers: &[u64]) {
        self.write_at(kind, None, &|fields| put_numbers(fields, numbers));
    }

    fn connected(&mut self, now: Instant) {
        self.conversation = Conversation::new(i32::MAX as usize);
        self.sent.clear();
        self.write_at(Kind::CONNECTED, Some(now), &|_| {});
    }

    fn rest(&mut self, now: Instant, bytes: &[u8]) {
        let is_left_out = !self.keeps_data && !self.is_list && !bytes.is_empty();
        let gaps: Vec<_> = is_left_out.then_some(0..bytes.len()).into_iter().collect();
        self.write_at(Kind::REST, Some(now), &|fields| fields.message(bytes, &gaps));
    }

    fn bad_frame(&mut self, now: Instant, error: FrameError) {
        self.write_at(Kind::BAD_FRAME, Some(now), &|fields| {
            if let FrameError::Negative(length) = error {
                fields.number(0);
                fields.signed(length.into());
            } else if let FrameError::TooLong { length, limit } = error {
                put_numbers(fields, &[1, length as u64, limit as u64]);
            }
        });
    }

    fn oversized(&mut self, now: Instant, start: &[u8], length: usize) {
        self.is_list = self.answered(start);
        self.write_at(Kind::OVERSIZED, Some(now), &|fields| {
            fields.bytes(start);
            fields.number(length as u64);
        });
    }

    fn addresses(&mut self, counts: &[usize]) {
        self.write_at(Kind::ADDRESSES, None, &|fields| {
            fields.number(counts.len() as u64);
            counts.iter().for_each(|count| fields.number(*count as u64));
        });
    }

    fn update_servers(&mut self, now: Instant, kept: &[Option<usize>], count: usize, moves: bool) {
        self.write_at(Kind::UPDATE_SERVERS, Some(now), &|fields| {
            put_numbers(fields, &[moves.into(), count as u64, kept.len() as u64]);
            kept.iter().for_each(|new| fields.number(new.map_or(0, |new| new as u64 + 1)));
        });
    }

    fn add_auth(&mut self, scheme: &str, auth: &[u8]) {
        let same = |(known, secret): &(String, Bytes)| known == scheme && secret == auth;
        let number = self.credentials.iter().position(same).unwrap_or_else(|| {
            self.credentials.push((scheme.into(), Bytes::copy_from_slice(auth)));
            self.credentials.len() - 1
        });
        self.write_at(Kind::ADD_AUTH, None, &|fields| {
            fields.bytes(scheme.as_bytes());
            fields.number(number as u64);
            fields.number(auth.len() as u64);
        });
    }

    fn called(&mut self, key: Key, input: Option<&Input>) {
        self.write_at(Kind::CALL, None, &|fields| {
            put_key(fields, key);
            put_input(fields, input);
        });
    }

    /// Records the operation and the body of a request behind other fields.
    fn request(&mut self, kind: Kind, numbers: &[u64], request: &Request<'_>) {
        let opcode = request.opcode();
        if let (Request::GetChildren(_), &[xid, _, 1]) = (request, numbers)
            && xid != 0
        {
            self.lists.push_back(xid);
        }
        let mut frame = core::mem::take(&mut self.frame);
        frame.clear();
        // What is too long to be encoded is refused, too.
        let _ = frame::encode(&(RequestHeader { xid: Xid::FIRST, opcode }, request), &mut frame);
        let mut gaps = Vec::new();
        recording::gaps(&frame, MessageKind::Request, self.keeps_data, &mut gaps);
        let header = HEADER.min(frame.len());
        shift(&mut gaps, header);
        self.write_at(kind, None, &|recorded| {
            put_numbers(recorded, numbers);
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
        self.write_at(Kind::SENT, Some(now), &|fields| {
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
        self.answered(payload);
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
        self.write_at(Kind::FRAME, Some(now), &|fields| fields.message(payload, &gaps));
        self.keep(frame);
    }

    fn event(&mut self, event: Event<()>) {
        let has_ended = matches!(event, Event::State(State::Ended(_)));
        self.write_at(Kind::EVENT, None, &|fields| put_event(fields, &event));
        if has_ended {
            self.sink.flush();
        }
    }

    fn sees(&mut self, what: u64, is_seen: bool, numbers: &mut [u64]) -> bool {
        let is_seen = self.sink.recorded(what, numbers).unwrap_or(is_seen);
        if is_seen {
            self.write_at(Kind::MACHINE_SEES, None, &|fields| {
                fields.number(what);
                put_numbers(fields, numbers);
            });
        }
        is_seen
    }

    fn write(&mut self, kind: Kind, write: &dyn Fn(&mut Fields<'_>)) {
        self.write_at(kind, None, write);
    }
}

impl Recorded {
    fn write_at(&mut self, kind: Kind, now: Option<Instant>, fields: &dyn Fn(&mut Fields<'_>)) {
        let time = now.map_or(self.writer.time(), nanoseconds);
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

    /// Returns whether the reply with this start answers one of the lists. Those are answered in
    /// order, unless they were lost.
    fn answered(&mut self, start: &[u8]) -> bool {
        let xid = start.first_chunk().map_or(0, |xid| u32::from_be_bytes(*xid));
        let place = self.lists.binary_search(&xid.into());
        place.is_ok_and(|place| self.lists.drain(..=place).next().is_some())
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

fn put_numbers(fields: &mut Fields<'_>, numbers: &[u64]) {
    numbers.iter().for_each(|number| fields.number(*number));
}

fn put_key(fields: &mut Fields<'_>, key: Key) {
    put_numbers(fields, &[key.place.into(), key.generation.into()]);
}

pub(super) fn put_servers(fields: &mut Fields<'_>, servers: &[ServerAddress]) {
    fields.number(servers.len() as u64);
    for server in servers {
        put_text(fields, server);
    }
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
    let (number, connected) = match state {
        State::Connecting => (0, None),
        State::Connected { server, session } => (1, Some((server, session))),
        State::ReadOnly { server, session } => (2, Some((server, session))),
        State::Suspended => (3, None),
        State::Renewing => (4, None),
        State::Ended(_) => (5, None),
    };
    fields.number(number);
    if let Some((server, session)) = connected {
        fields.number(server as u64);
        fields.signed(session.0);
    }
    if let State::Ended(end) = state {
        put_text(fields, &end);
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

fn put_event(fields: &mut Fields<'_>, event: &Event<()>) {
    match *event {
        Event::State(state) => {
            fields.number(0);
            put_state(fields, state);
        }
        Event::Disconnected { server, cause } => {
            put_numbers(fields, &[1, server as u64]);
            match cause {
                // Where exactly depends on bytes that are left out.
                Cause::Malformed(_) => fields.bytes(b"malformed frame"),
                cause => put_text(fields, &cause),
            }
        }
        Event::Authenticate { server } => put_numbers(fields, &[2, server as u64]),
        Event::AuthenticationReply { server, ref result } => {
            put_numbers(fields, &[3, server as u64]);
            put_result(fields, result);
        }
        Event::Reply { ref result, .. } => {
            fields.number(4);
            put_result(fields, result);
        }
        Event::Watch { ref requests, ref persistent, ref event } => {
            fields.number(5);
            put_requests(fields, requests);
            put_requests(fields, persistent);
            fields.signed(event.event_type.0.into());
        }
        Event::Gap { ref requests } => {
            fields.number(6);
            put_requests(fields, requests);
        }
        Event::WatchLost { ref requests, code } => {
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
    match input {
        None => fields.number(0),
        Some(Input::State(state)) => {
            fields.number(1);
            put_state(fields, *state);
        }
        Some(Input::Reply { tag, result }) => {
            put_numbers(fields, &[2, *tag]);
            put_result(fields, result);
        }
        Some(Input::Watch { tag, event }) => {
            put_numbers(fields, &[3, *tag]);
            fields.signed(event.event_type.0.into());
        }
        Some(Input::Gap { tag }) => put_numbers(fields, &[4, *tag]),
        Some(Input::WatchLost { tag, code }) => {
            put_numbers(fields, &[5, *tag]);
            fields.signed(code.0.into());
        }
        Some(Input::LeaseEnded) => fields.number(6),
        Some(Input::Closing) => fields.number(7),
        Some(Input::Timer) => fields.number(8),
        Some(Input::Settled) => fields.number(9),
    }
}
