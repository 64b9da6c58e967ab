//! The records of a replay, which its outputs are compared with.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::recording::{FieldReader, Kind, Malformed, Reader, Record};
use zk_proto::{OpCode, Request};

use crate::time::Instant;

/// The first record that a replay does not repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The number of the record, from 0, without those of parts and of servers' names.
    pub step: usize,
    /// The name and the path of the machine that decided, if it was made again.
    pub machine: Option<String>,
    /// What was recorded, or `None` behind the end.
    pub recorded: Option<String>,
    /// What the replay did, or `None` for nothing.
    pub replayed: Option<String>,
}

/// The records to repeat, and how far that has come.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) records: Vec<Step>,
    pub(super) position: usize,
    /// The machine that decides.
    pub(super) machine: Option<Arc<str>>,
    pub(super) divergence: Option<Divergence>,
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) time: Instant,
    /// The whole record.
    pub(super) bytes: Bytes,
    pub(super) fields: Bytes,
}

impl Step {
    pub(super) fn of(record: Record<'_>, recording: &Bytes) -> Self {
        Self {
            kind: record.kind,
            time: Instant::after_start(record.time),
            bytes: recording.slice_ref(record.bytes),
            fields: recording.slice_ref(record.fields().rest()),
        }
    }

    pub(super) fn fields(&self) -> FieldReader<'_> {
        FieldReader::new(&self.fields)
    }

    fn text(&self) -> Option<String> {
        Reader::of_records(&self.bytes).flatten().next().and_then(text)
    }

    /// Returns what a divergence shows.
    pub(super) fn shown(&self) -> String {
        let record = Reader::of_records(&self.bytes).flatten().next();
        record.map_or_else(String::new, |record| shown(record, self.time))
    }
}

/// The time of a record by itself is only the difference to the one before.
fn shown(mut record: Record<'_>, time: Instant) -> String {
    record.time = time.since_start();
    match text(record) {
        Some(text) => format!("{:.6} {} {text}", record.time.as_secs_f64(), record.kind),
        None => record.to_string(),
    }
}

/// Returns what a request or a note says.
fn text(record: Record<'_>) -> Option<String> {
    let mut fields = record.fields();
    match record.kind {
        Kind::SUBMIT => {
            let _numbers = (fields.number().ok()?, fields.number().ok()?, fields.number().ok()?);
            let (opcode, body) = request(&mut fields).ok()?;
            let request = decode(opcode, &body).ok()?;
            Some(format!("{opcode} {}", request.path().unwrap_or_default()))
        }
        Kind::MACHINE_NOTES => {
            Some(format!("{} {}", fields.text().ok()?, fields.signed().unwrap_or_default()))
        }
        _ => None,
    }
}

impl Script {
    /// Compares what the replay records with the recording.
    pub(super) fn compare(&mut self, records: &[u8]) {
        for record in Reader::of_records(records).flatten() {
            if let Kind::CLOCK | Kind::SERVERS = record.kind {
                continue;
            }
            let step = self.records.get(self.position);
            // A request follows what is submitted.
            if record.kind == Kind::SUBMIT
                && let Some(Divergence { step, replayed: Some(shown), .. }) = &mut self.divergence
                && *step + 1 == self.position
            {
                shown.extend(text(record).iter().flat_map(|text| [": ", text]));
            }
            if self.divergence.is_none() && step.is_none_or(|step| step.bytes != record.bytes) {
                let next = self.records.get(self.position + 1);
                let submits = step.is_some_and(|step| step.kind == Kind::MACHINE_SUBMIT);
                let next = next.filter(|_| submits).and_then(Step::text);
                let next = next.map_or_else(String::new, |text| format!(": {text}"));
                let recorded = step.map(|step| step.shown() + &next);
                let replayed = Some(shown(record, step.map_or(Instant::START, |step| step.time)));
                let machine = self.machine.as_deref().map(ToString::to_string);
                let step = self.position;
                self.divergence = Some(Divergence { step, machine, recorded, replayed });
            }
            self.position += 1;
            if record.kind == Kind::RETURN {
                self.machine = None;
            }
        }
    }

    pub(super) fn next(&self) -> Option<Step> {
        self.records.get(self.position).filter(|_| self.divergence.is_none()).cloned()
    }

    /// Returns whether the machine has observed this at this point, and fills in the numbers.
    pub(super) fn has_seen(&self, what: u64, numbers: &mut [u64]) -> bool {
        let step = self.records.get(self.position);
        let Some(step) = step.filter(|step| step.kind == Kind::MACHINE_SEES) else { return false };
        let mut fields = step.fields();
        let is_same = fields.number() == Ok(what);
        for number in numbers {
            *number = fields.number().unwrap_or_default();
        }
        is_same
    }
}

pub(super) fn request(fields: &mut FieldReader<'_>) -> Result<(OpCode, Vec<u8>), Malformed> {
    let opcode = i32::try_from(fields.signed()?).map_err(|_| Malformed::Record)?;
    Ok((OpCode(opcode), fields.message()?))
}

pub(super) fn decode(opcode: OpCode, body: &[u8]) -> Result<Request<'_>, Malformed> {
    Request::decode(opcode, body).map_err(|_| Malformed::Record)
}
