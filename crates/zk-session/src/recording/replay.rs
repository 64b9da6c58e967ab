//! The same session and dispatcher once more, from their recording.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use zk_proto::frame::FrameError;
use zk_proto::recording::{FieldReader, Kind, Malformed, Reader, Record};
use zk_proto::{OpCode, Request};

use super::Recording;
use super::recorder::LIST;
use super::settings::{self, LONGEST_SECRET, MOST_SERVERS};
use super::sink::{Shared, Sink, lock};
use crate::dispatch::{Attached, Dispatcher, Input, Key, Port, Token};
use crate::session::RequestId;
use crate::threads::Mutex;
use crate::time::Instant;

/// A replay that went as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// The records that were compared, inputs included.
    pub records: usize,
    /// The inputs.
    pub inputs: usize,
    /// The time from the first record to the last.
    pub duration: Duration,
}

/// The first record that a replay does not repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The number of the record, from 0, without those of parts and of servers' names.
    pub step: usize,
    /// What was recorded, or `None` behind the end.
    pub recorded: Option<String>,
    /// What the replay did, or `None` for nothing.
    pub replayed: Option<String>,
}

zk_proto::named! {
    /// A recording that cannot be replayed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ReplayError {
        /// It cannot be read.
        Malformed(Malformed),
        /// Its beginning is missing, as in a ring that has forgotten some.
        Incomplete,
        /// The replay went another way.
        Diverged(Divergence),
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "{error}"),
            Self::Incomplete => f.write_str("the beginning of the recording is missing"),
            Self::Diverged(Divergence { step, recorded, replayed }) => {
                let [recorded, replayed] =
                    [recorded, replayed].map(|it| it.as_deref().unwrap_or("nothing"));
                write!(f, "step {step} diverged: recorded {recorded}; replayed {replayed}")
            }
        }
    }
}

impl core::error::Error for ReplayError {}

impl From<Malformed> for ReplayError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

/// The records to repeat, and how far that has come.
#[derive(Debug, Default)]
pub(super) struct Script {
    records: Vec<Step>,
    position: usize,
    divergence: Option<Divergence>,
}

#[derive(Clone, Debug)]
struct Step {
    kind: Kind,
    time: Instant,
    /// The whole record.
    bytes: Bytes,
    fields: Bytes,
}

impl Step {
    fn of(record: Record<'_>, recording: &Bytes) -> Self {
        Self {
            kind: record.kind,
            time: Instant::after_start(record.time),
            bytes: recording.slice_ref(record.bytes),
            fields: recording.slice_ref(record.fields().rest()),
        }
    }

    fn fields(&self) -> FieldReader<'_> {
        FieldReader::new(&self.fields)
    }

    /// Returns what a divergence shows.
    fn shown(&self) -> String {
        let record = Reader::of_records(&self.bytes).flatten().next();
        record.map_or_else(String::new, |record| shown(record, self.time))
    }
}

/// The time of a record by itself is only the difference to the one before.
fn shown(mut record: Record<'_>, time: Instant) -> String {
    record.time = time.since_start();
    record.to_string()
}

impl Script {
    /// Compares what the replay records with the recording.
    pub(super) fn compare(&mut self, records: &[u8]) {
        for record in Reader::of_records(records).flatten() {
            if let Kind::CLOCK | Kind::SERVERS = record.kind {
                continue;
            }
            let step = self.records.get(self.position);
            if self.divergence.is_none() && step.is_none_or(|step| step.bytes != record.bytes) {
                let recorded = step.map(Step::shown);
                let replayed = Some(shown(record, step.map_or(Instant::START, |step| step.time)));
                self.divergence = Some(Divergence { step: self.position, recorded, replayed });
            }
            self.position += 1;
        }
    }

    fn next(&self) -> Option<Step> {
        self.records.get(self.position).filter(|_| self.divergence.is_none()).cloned()
    }
}

/// Replays a recording: gives the recorded inputs to a new session and dispatcher, at the recorded
/// times, and compares their outputs with those of the recording.
///
/// It needs no network and no time. A recording that ends in the middle is replayed as far as it goes.
///
/// # Errors
///
/// [`ReplayError::Diverged`] with the first step that differs. Then the recording was altered, or
/// made by a version that decides otherwise.
pub fn replay(recording: &[u8]) -> Result<Replayed, ReplayError> {
    let recording = Bytes::copy_from_slice(recording);
    let mut reader = Reader::new(&recording)?;
    let begin = reader.next().filter(|first| first.is_ok_and(|it| it.kind == Kind::BEGIN));
    let begin = begin.ok_or(Malformed::Record)??;
    let mut fields = begin.fields();
    let (_since_1970, _version) = (fields.number()?, fields.bytes()?);
    let keeps_data = fields.number()? != 0;
    let config = settings::get(&mut fields)?;
    let begun_at = Instant::after_start(begin.time);

    let (mut script, mut parts) = (Script::default(), 0);
    for record in reader {
        let record = record?;
        match record.kind {
            Kind::CLOCK => {
                let mut fields = record.fields();
                if fields.number()? != parts {
                    return Err(ReplayError::Incomplete);
                }
                parts += 1;
            }
            Kind::SERVERS => {}
            _ => script.records.push(Step::of(record, &recording)),
        }
    }
    let end = script.records.last().map_or(begun_at, |last| last.time);
    let script = Arc::new(Mutex::new(script));
    let sink = Recording::new(Sink::Script(script.clone())).node_data(keeps_data);
    let mut dispatcher = Dispatcher::recorded(begun_at, config, &sink, &[]);
    let mut inputs = 0;
    while let Some(step) = { lock(&script).next() } {
        let before = lock(&script).position;
        inputs += usize::from(step.kind.is_input());
        apply(&mut dispatcher, &step, &script)?;
        drop(dispatcher.take_effects());
        let mut script = lock(&script);
        if script.position == before {
            let recorded = Some(step.shown());
            script.divergence.get_or_insert(Divergence { step: before, recorded, replayed: None });
        }
    }
    let script = lock(&script);
    match &script.divergence {
        Some(divergence) => Err(ReplayError::Diverged(divergence.clone())),
        None => Ok(Replayed { records: script.position, inputs, duration: end - begun_at }),
    }
}

/// Gives an input to the dispatcher, or asks for an action. Other outputs come by themselves: if one
/// is left over, it is not repeated.
fn apply(
    dispatcher: &mut Dispatcher<()>,
    step: &Step,
    script: &Shared<Script>,
) -> Result<(), Malformed> {
    let (now, mut fields) = (step.time, step.fields());
    match step.kind {
        Kind::ATTACH => {
            dispatcher.attach(now, Box::new(Replica::new(script.clone())));
        }
        Kind::COMMAND => {
            let key = Key { place: fields.small()?, generation: fields.small()? };
            dispatcher.command(now, key, &mut ());
        }
        Kind::CLOSE_ALL => dispatcher.close(now),
        Kind::CLOSE_WHEN_DONE => dispatcher.close_when_done(),
        Kind::POLL => drop(dispatcher.poll_event(now)),
        Kind::TIMEOUT => dispatcher.handle_timeout(now),
        // It must not be called while events are undrained.
        Kind::SETTLE if !dispatcher.has_events() => dispatcher.settle(now),
        kind => return apply_to_session(dispatcher, kind, now, &mut fields),
    }
    Ok(())
}

fn apply_to_session(
    dispatcher: &mut Dispatcher<()>,
    kind: Kind,
    now: Instant,
    fields: &mut FieldReader<'_>,
) -> Result<(), Malformed> {
    let session = &mut dispatcher.session_mut().0;
    match kind {
        Kind::CONNECTED => session.handle_connected(now),
        Kind::SENT => session.handle_sent(now, fields.small()?),
        Kind::RECEIVED => session.handle_received(now, fields.small()?),
        Kind::FRAME => session.handle_frame(now, Bytes::from(fields.message()?)),
        Kind::OVERSIZED => {
            let start = fields.bytes()?;
            session.handle_oversized(now, start, fields.small()?);
        }
        Kind::REST => session.handle_rest(now, Bytes::from(fields.message()?)),
        Kind::BAD_FRAME => {
            let error = match fields.number()? {
                0 => {
                    let length = i32::try_from(fields.signed()?);
                    FrameError::Negative(length.map_err(|_| Malformed::Record)?)
                }
                _ => FrameError::TooLong { length: fields.small()?, limit: fields.small()? },
            };
            session.handle_bad_frame(now, error);
        }
        Kind::DISCONNECTED => session.handle_disconnected(now),
        Kind::PROBED => session.handle_probed(now, fields.small()?, fields.number()? != 0),
        Kind::ADDRESSES => {
            let count = servers(fields)?;
            let counts: Result<Vec<_>, _> = (0..count).map(|_| servers(fields)).collect();
            session.set_addresses(&counts?);
        }
        Kind::UPDATE_SERVERS => {
            let (moves, count, old) = (fields.number()? != 0, servers(fields)?, servers(fields)?);
            let kept = (0..old).map(|_| Ok(fields.small::<usize>()?.checked_sub(1)));
            let kept: Result<Vec<_>, Malformed> = kept.collect();
            session.replace_servers(now, &kept?, count, moves);
        }
        Kind::AUTHENTICATE => {
            let (opcode, body) = request(fields)?;
            // A refusal is repeated by the session.
            let _ = session.authenticate(&decode(opcode, &body)?);
        }
        Kind::AUTHENTICATED => session.authenticated(now),
        Kind::AUTHENTICATION_FAILED => session.authentication_failed(),
        Kind::SUBMIT => {
            let _xid = fields.number()?;
            let deadline = fields.number()?.checked_sub(1).map(Duration::from_nanos);
            let in_pieces = fields.number()? != 0;
            let (opcode, body) = request(fields)?;
            let (request, token) = (decode(opcode, &body)?, Token::Caller(()));
            // So are the results, whose parts the record has.
            let _ = match deadline.map(Instant::after_start) {
                #[cfg(feature = "full")]
                Some(deadline) => session.submit_until(&request, token, deadline),
                _ if in_pieces => session.submit_in_pieces(&request, token),
                _ => session.submit(&request, token),
            };
        }
        Kind::ADD_AUTH => {
            let scheme = core::str::from_utf8(fields.bytes()?).map_err(|_| Malformed::Record)?;
            let (number, length) = (fields.number()?, fields.small::<usize>()?);
            if length > LONGEST_SECRET {
                return Err(Malformed::Record);
            }
            // Different credentials stay different.
            let auth: Vec<_> = number
                .to_le_bytes()
                .into_iter()
                .chain(core::iter::repeat(0))
                .take(length)
                .collect();
            let _ = session.add_auth(scheme, &auth, Token::Caller(()));
        }
        Kind::UNWATCH => {
            session.unwatch(RequestId { number: fields.number()?, place: fields.small()? });
        }
        Kind::DETACH => drop(session.detach()),
        Kind::CLOSE => session.close(),
        Kind::ACTION => drop(session.poll_action()),
        _ => {}
    }
    Ok(())
}

fn servers(fields: &mut FieldReader<'_>) -> Result<usize, Malformed> {
    fields.small().ok().filter(|count| *count <= MOST_SERVERS).ok_or(Malformed::Record)
}

fn request(fields: &mut FieldReader<'_>) -> Result<(OpCode, Vec<u8>), Malformed> {
    let opcode = i32::try_from(fields.signed()?).map_err(|_| Malformed::Record)?;
    Ok((OpCode(opcode), fields.message()?))
}

fn decode(opcode: OpCode, body: &[u8]) -> Result<Request<'_>, Malformed> {
    Request::decode(opcode, body).map_err(|_| Malformed::Record)
}

/// Repeats the recorded calls of a machine, without deciding anything. The script compares its inputs.
struct Replica {
    script: Shared<Script>,
    is_done: bool,
    outlives_session: bool,
}

impl Replica {
    const fn new(script: Shared<Script>) -> Self {
        Self { script, is_done: false, outlives_session: false }
    }

    fn act(&mut self, port: &mut Port<'_>) {
        while let Some(step) = { lock(&self.script).next() }
            && self.repeat(&step, port) == Ok(true)
        {}
    }

    /// Returns whether the call goes on.
    fn repeat(&mut self, step: &Step, port: &mut Port<'_>) -> Result<bool, Malformed> {
        let mut fields = step.fields();
        match step.kind {
            Kind::MACHINE_SUBMIT => {
                let (tag, kind) = (fields.number()?, fields.number()?);
                let script = lock(&self.script);
                let submission = script.records.get(script.position + 1).cloned();
                drop(script);
                let submission = submission.filter(|step| step.kind == Kind::SUBMIT);
                let submission = submission.ok_or(Malformed::Record)?;
                let mut fields = submission.fields();
                let (_xid, _deadline, _in_pieces) =
                    (fields.number()?, fields.number()?, fields.number()?);
                let (opcode, body) = request(&mut fields)?;
                let request = decode(opcode, &body)?;
                match kind {
                    1 => port.submit_in_pieces(tag, &request),
                    2 => port.submit_and_watch(tag, &request),
                    LIST => port.list(tag, &Arc::from(request.path().unwrap_or_default())),
                    _ => port.submit(tag, &request),
                }
            }
            Kind::MACHINE_UNWATCH => port.unwatch(fields.number()?),
            Kind::MACHINE_UNWATCH_ALL => port.unwatch_all(),
            Kind::MACHINE_TIMER => {
                let at = fields.number()?.checked_sub(1).map(Duration::from_nanos);
                port.set_timer(at.map(Instant::after_start));
            }
            Kind::MACHINE_SETTLE => port.settle(),
            Kind::RETURN => {
                (self.is_done, self.outlives_session) =
                    (fields.number()? != 0, fields.number()? != 0);
                return Ok(false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Attached for Replica {
    fn handle(&mut self, _: Input, port: &mut Port<'_>) {
        self.act(port);
    }

    fn command(&mut self, _: &mut dyn Any, port: &mut Port<'_>) {
        self.act(port);
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn outlives_session(&self) -> bool {
        self.outlives_session
    }
}
