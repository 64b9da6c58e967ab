//! The same session and dispatcher once more, from their recording.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use zk_proto::frame::FrameError;
use zk_proto::recording::{Described, Description, FieldReader, Kind, Malformed, Reader};

use super::Recording;
use super::script::{Divergence, Script, Step, decode, request};
use super::settings::{self, LONGEST_SECRET, MOST_SERVERS};
use super::sink::{Shared, Sink, lock};
use crate::client::{ReplySender, ValueSlot, slot};
use crate::dispatch::{Attached, Dispatcher, Input, Key, Port, Token};
use crate::recorder::Recorder;
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
    /// The attached machines that were made again, and decided again.
    pub decided: usize,
    /// The other machines, whose recorded decisions were repeated.
    pub repeated: usize,
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
            Self::Diverged(Divergence { step, machine, recorded, replayed }) => {
                let [recorded, replayed] =
                    [recorded, replayed].map(|it| it.as_deref().unwrap_or("nothing"));
                write!(f, "step {step} diverged")?;
                if let Some(machine) = machine {
                    write!(f, " in {machine}")?;
                }
                write!(f, ": recorded {recorded}; replayed {replayed}")
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

/// Makes a machine again, as it was attached. Returns `None` for an unknown machine.
pub type MakeMachine<'m> =
    dyn FnMut(Described<'_>) -> Result<Option<Box<dyn Attached>>, Malformed> + 'm;

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
    replay_with(recording, &mut |_| Ok(None))
}

/// Replays a recording, like [`replay`]. The machines that `make` returns decide again, from the
/// same inputs. Other machines repeat what was recorded.
///
/// # Errors
///
/// Those of [`replay`].
pub fn replay_with(recording: &[u8], make: &mut MakeMachine<'_>) -> Result<Replayed, ReplayError> {
    let recording = Bytes::copy_from_slice(recording);
    let mut reader = Reader::new(&recording)?;
    let begin = reader.next().filter(|first| first.is_ok_and(|it| it.kind == Kind::BEGIN));
    let begin = begin.ok_or(Malformed::Record)??;
    let mut fields = begin.fields();
    let (_since_1970, _version) = (fields.number()?, fields.bytes()?);
    let keeps_data = fields.number()? != 0;
    let config = settings::get(&mut fields)?;
    let begun_at = Instant::after_start(begin.time);
    let script = Script { records: steps(reader, &recording)?, ..Script::default() };
    let end = script.records.last().map_or(begun_at, |last| last.time);
    let script = Arc::new(Mutex::new(script));
    let sink = Recording::new(Sink::Script(script.clone())).node_data(keeps_data);
    let mut dispatcher = Dispatcher::recorded(begun_at, config, &sink, &[]);
    let (mut inputs, mut decided, mut repeated) = (0, 0, 0);
    while let Some(step) = { lock(&script).next() } {
        let before = lock(&script).position;
        inputs += usize::from(step.kind.is_input());
        match step.kind {
            Kind::ATTACH => match again(&step, &script, make)? {
                Some(machine) => {
                    decided += 1;
                    dispatcher.attach(step.time, machine);
                }
                None => {
                    repeated += 1;
                    dispatcher.attach(step.time, Box::new(Replica::new(&step, script.clone())));
                }
            },
            _ => apply(&mut dispatcher, &step)?,
        }
        drop(dispatcher.take_effects());
        let mut script = lock(&script);
        if script.position == before {
            let recorded = Some(step.shown());
            let missing = Divergence { step: before, machine: None, recorded, replayed: None };
            script.divergence.get_or_insert(missing);
        }
    }
    let script = lock(&script);
    match &script.divergence {
        Some(divergence) => Err(ReplayError::Diverged(divergence.clone())),
        None => Ok(Replayed {
            records: script.position,
            inputs,
            duration: end - begun_at,
            decided,
            repeated,
        }),
    }
}

/// Returns the steps of a recording. Fails if one of its parts is missing.
fn steps(reader: Reader<'_>, recording: &Bytes) -> Result<Vec<Step>, ReplayError> {
    let (mut steps, mut parts) = (Vec::new(), 0);
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
            _ => steps.push(Step::of(record, recording)),
        }
    }
    Ok(steps)
}

/// Gives an input to the dispatcher, or asks for an action. Other outputs come by themselves: if one
/// is left over, it is not repeated.
fn apply(dispatcher: &mut Dispatcher<ReplySender>, step: &Step) -> Result<(), Malformed> {
    let (now, mut fields) = (step.time, step.fields());
    match step.kind {
        Kind::COMMAND => {
            let key = Key { place: fields.small()?, generation: fields.small()? };
            dispatcher.command(now, key, &mut RecordedCommand(step.bytes.slice_ref(fields.rest())));
        }
        Kind::CLOSE_ALL => dispatcher.close(now),
        Kind::CLOSE_WHEN_DONE => dispatcher.close_when_done(),
        // As `poll_event`, but by the `deliver` that the clients use, so that it is compiled once.
        // For that, the `None` has the type of their function.
        Kind::POLL => drop(dispatcher.deliver(now, false.then_some(ValueSlot::send))),
        Kind::TIMEOUT => dispatcher.handle_timeout(now),
        // It must not be called while events are undrained.
        Kind::SETTLE if !dispatcher.has_events() => dispatcher.settle(now),
        kind => return apply_to_session(dispatcher, kind, now, &mut fields),
    }
    Ok(())
}

fn apply_to_session(
    dispatcher: &mut Dispatcher<ReplySender>,
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
            let mut counts = Vec::new();
            for _ in 0..servers(fields)? {
                counts.push(servers(fields)?);
            }
            session.set_addresses(&counts);
        }
        Kind::UPDATE_SERVERS => {
            let (moves, count, old) = (fields.number()? != 0, servers(fields)?, servers(fields)?);
            let mut kept = Vec::new();
            for _ in 0..old {
                kept.push(fields.small::<usize>()?.checked_sub(1));
            }
            session.replace_servers(now, &kept, count, moves);
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
            let (request, token) = (decode(opcode, &body)?, token());
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
            let mut auth = number.to_le_bytes().to_vec();
            auth.resize(length, 0);
            let _ = session.add_auth(scheme, &auth, token());
        }
        Kind::UNWATCH => {
            session.unwatch(RequestId::of_caller(fields.number()?, fields.small()?));
        }
        Kind::DETACH => drop(session.detach()),
        Kind::CLOSE => session.close(),
        Kind::ACTION => drop(session.poll_action()),
        _ => {}
    }
    Ok(())
}

/// Returns the token of a request for whose reply nobody waits. It has the type of the clients'
/// tokens, so that the session is compiled once.
fn token() -> Token<ReplySender> {
    Token::Caller(slot().0)
}

fn servers(fields: &mut FieldReader<'_>) -> Result<usize, Malformed> {
    fields.small().ok().filter(|count| *count <= MOST_SERVERS).ok_or(Malformed::Record)
}

/// A message of an owner, as its machine has described it.
struct RecordedCommand(Bytes);

impl RecordedCommand {
    fn fields(message: &dyn Any) -> FieldReader<'_> {
        FieldReader::new(message.downcast_ref().map_or(&[], |Self(fields)| fields))
    }
}

/// A machine that decides again.
struct Again {
    machine: Box<dyn Attached>,
    name: Arc<str>,
    script: Shared<Script>,
}

/// Makes the machine of an attach record again, if `make` knows it.
fn again(
    step: &Step,
    script: &Shared<Script>,
    make: &mut MakeMachine<'_>,
) -> Result<Option<Box<dyn Attached>>, Malformed> {
    let Some(described) = Described::read(&step.fields)? else { return Ok(None) };
    let (name, script) = (described.to_string().into(), script.clone());
    let again = |machine| -> Box<dyn Attached> { Box::new(Again { machine, name, script }) };
    Ok(make(described)?.map(again))
}

impl Attached for Again {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        lock(&self.script).machine = Some(self.name.clone());
        self.machine.handle(input, port);
    }

    fn command(&mut self, message: &mut dyn Any, port: &mut Port<'_>) {
        lock(&self.script).machine = Some(self.name.clone());
        let command = self.machine.described_command(RecordedCommand::fields(message));
        self.machine.command(command.unwrap_or_else(|| Box::new(())).as_mut(), port);
    }

    fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    fn outlives_session(&self) -> bool {
        self.machine.outlives_session()
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.machine.describe(description);
    }

    fn describe_command(&self, message: &dyn Any, description: &mut Description<'_>) {
        if let Some(command) = self.machine.described_command(RecordedCommand::fields(message)) {
            self.machine.describe_command(&*command, description);
        }
    }
}

/// Repeats the recorded calls of a machine, without deciding anything. The script compares its inputs.
struct Replica {
    description: Bytes,
    script: Shared<Script>,
    is_done: bool,
    outlives_session: bool,
}

impl Replica {
    fn new(attached: &Step, script: Shared<Script>) -> Self {
        let description = attached.fields.clone();
        Self { description, script, is_done: false, outlives_session: false }
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
                    Recorder::LIST => {
                        port.list(tag, &Arc::from(request.path().unwrap_or_default()));
                    }
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
            Kind::MACHINE_SEES => {
                let what = fields.number()?;
                let mut numbers: Vec<_> = core::iter::from_fn(|| fields.number().ok()).collect();
                port.host().see(what, true, &mut numbers);
            }
            Kind::MACHINE_NOTES => port.note(|noted| noted.fields(fields.rest())),
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

    fn describe(&self, description: &mut Description<'_>) {
        description.fields(&self.description);
    }

    fn describe_command(&self, message: &dyn Any, description: &mut Description<'_>) {
        description.fields(RecordedCommand::fields(message).rest());
    }
}
