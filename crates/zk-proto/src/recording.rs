//! The format of recordings: the inputs and the decisions of a client's session.
//!
//! A recording repeats a run. The session core is deterministic, so its settings and its *inputs*
//! with their times determine its *outputs*. A recording has both: a replay feeds the inputs to the
//! core again and compares the outputs. `zk-session` records and replays, `zk-explain` shows.
//!
//! ```text
//! recording = "zkrec" version(1) record*
//! record    = length kind [time] field*       length: of what follows, in bytes
//! ```
//!
//! * **Numbers** are LEB128: 7 bits in a byte, the lowest first. Signed ones are zigzag: 0, -1, 1, ...
//! * **Times** are nanoseconds of the client's clock, as the signed difference to the time before.
//! * **Bytes** have their length in front. Text is UTF-8.
//! * **Messages** have the length, the number of gaps, for each gap the bytes to keep before it and
//!   those left out, and then the bytes that are kept. Passwords, credentials, tokens, and the
//!   identities of access control lists are always left out; node data unless it was asked for. A
//!   reader sees zeros. Lengths stay.
//!
//! A reader skips kinds and trailing fields that it does not know. Names and numbers of kinds stay.
//! [`Kind`] lists them with their fields. A recording of the last bytes, from a ring, begins with
//! [`Kind::BEGIN`] and goes on with a [`Kind::CLOCK`], as each of its parts does.
//!
//! ```
//! use zk_proto::recording::{Kind, Reader, Writer};
//!
//! let (mut writer, mut bytes) = (Writer::default(), Writer::MAGIC.to_vec());
//! writer.record(&mut bytes, Kind::RECEIVED, 7_000, |fields| fields.number(84));
//! let record = Reader::new(&bytes)?.next().expect("one record")?;
//! assert_eq!((record.kind.name(), record.time.as_micros()), (Some("received"), 7));
//! assert_eq!(record.fields().number()?, 84);
//! # Ok::<(), zk_proto::recording::Malformed>(())
//! ```

mod description;

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::time::Duration;

pub use self::description::{Described, Description};
use crate::explain::{self, FieldPath, MessageKind};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $constant:ident = $number:literal $name:literal;)+) => {
        /// # Kinds
        ///
        /// Those below 64 are inputs, the others outputs. Submissions of machines are both: what
        /// a machine did, given what it was called with.
        impl Kind {
            $($(#[doc = $doc])+ pub const $constant: Self = Self($number);)+

            /// Returns the name.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$constant => Some($name),)+
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// The session begins. Fields: nanoseconds since 1970, version of the client, whether node data
    /// is kept, the settings as numbers, then session id, zxid and length of the password of a
    /// session to resume.
    BEGIN = 1 "begin";
    /// A part begins. Fields: its time, counted from 0, and its number.
    CLOCK = 2 "clock";
    /// The names of the servers, in the order of their numbers.
    SERVERS = 3 "servers";
    /// The transport is connected.
    CONNECTED = 8 "connected";
    /// The transport has taken bytes. Fields: how many, how many frames that ended, and for each 0
    /// and the xid of a submission, or 1 and a message with its length prefix.
    SENT = 9 "sent";
    /// Bytes have arrived. Field: how many.
    RECEIVED = 10 "received";
    /// A frame has arrived. Field: the message without its length prefix.
    FRAME = 11 "frame";
    /// The start of a frame that is too long has arrived. Fields: the start, the length.
    OVERSIZED = 12 "oversized";
    /// More of it has arrived. Field: the message.
    REST = 13 "rest";
    /// A frame has an invalid length. Fields: 0 and the length, or 1, the length and the limit.
    BAD_FRAME = 14 "bad-frame";
    /// The transport is lost.
    DISCONNECTED = 15 "disconnected";
    /// A deadline has come.
    TIMEOUT = 16 "timeout";
    /// A server was probed. Fields: the server, whether it is read-write.
    PROBED = 17 "probed";
    /// Names were resolved. Fields: how many servers, how many addresses each has.
    ADDRESSES = 18 "addresses";
    /// The list of servers is replaced. Fields: whether the session may move, the number of new
    /// servers, that of old ones, and for each of these 0 or its new number plus 1.
    UPDATE_SERVERS = 19 "update-servers";
    /// A step of an authentication exchange. Fields: operation, body as a message.
    AUTHENTICATE = 20 "authenticate";
    /// The exchange has succeeded.
    AUTHENTICATED = 21 "authenticated";
    /// The exchange has failed.
    AUTHENTICATION_FAILED = 22 "authentication-failed";
    /// A request is submitted. Fields: xid, or 0 if it is refused or waits; deadline plus 1, or 0;
    /// whether the reply may come in pieces; operation; body as a message.
    SUBMIT = 23 "submit";
    /// A credential is added. Fields: scheme, number of the credential, its length.
    ADD_AUTH = 24 "add-auth";
    /// A watch is dropped. Fields: number of its request, place of the watch.
    UNWATCH = 25 "unwatch";
    /// The session is detached.
    DETACH = 26 "detach";
    /// The session is closed, without notice to machines.
    CLOSE = 27 "close";
    /// A machine is attached. Fields: none, or its [`Description`].
    ATTACH = 28 "attach";
    /// A machine receives a message of its owner. Fields: place and generation of its key, and the
    /// message as the machine describes it. In `zk-recipes`: number of the command (0 convert, 1
    /// leave, 2 release, 3 behind an abandoned node, 4 check the lease), and for 0 the new mode.
    COMMAND = 29 "command";
    /// The session is closed.
    CLOSE_ALL = 30 "close-all";
    /// The session closes when no machine is attached.
    CLOSE_WHEN_DONE = 31 "close-when-done";
    /// Events are delivered.
    POLL = 32 "poll";
    /// What was refused is delivered, and machines that wanted it are settled.
    SETTLE = 33 "settle";
    /// An action for the transport. Fields: 0 connect, 1 disconnect or 2 probe; the server.
    ACTION = 64 "action";
    /// An event. Fields: its number, and what it says.
    EVENT = 65 "event";
    /// A machine is called. Fields: place and generation of its key, number of the input, what it says.
    CALL = 66 "call";
    /// The machine submits a request, which follows. Fields: tag; 0 plain, 1 in pieces, 2 with a
    /// watch, or 3 a list that machines may share.
    MACHINE_SUBMIT = 67 "machine-submit";
    /// The machine drops watches. Field: their tag.
    MACHINE_UNWATCH = 68 "machine-unwatch";
    /// The machine drops all watches.
    MACHINE_UNWATCH_ALL = 69 "machine-unwatch-all";
    /// The machine sets its timer. Field: the time plus 1, or 0.
    MACHINE_TIMER = 70 "machine-timer";
    /// The machine wants to be settled.
    MACHINE_SETTLE = 71 "machine-settle";
    /// The call is over. Fields: whether the machine is done, whether it outlives the session.
    RETURN = 72 "return";
    /// The machine observes something outside its session, so this is an input, too. Fields: what,
    /// and its numbers. In `zk-recipes`: 0 an abandoned node ahead, 1 a hint, 2 the maximum of a
    /// semaphore, 3 a request to release, 4 its mark in the data of a node.
    MACHINE_SEES = 73 "machine-sees";
    /// The machine notes a decision other than a request. Fields: name, and its values. In
    /// `zk-recipes`: an event for its owner, or its error, and its token or number; or `hint` and
    /// the hint that it leaves.
    MACHINE_NOTES = 74 "machine-notes";
}

impl Kind {
    /// Returns whether the kind is an input of the session or the dispatcher. [`BEGIN`](Self::BEGIN),
    /// [`CLOCK`](Self::CLOCK) and [`SERVERS`](Self::SERVERS) are none.
    pub const fn is_input(self) -> bool {
        matches!(self.0, 8..64)
    }

    /// Returns whether records of this kind have a time.
    const fn has_time(self) -> bool {
        match self {
            Self::BEGIN | Self::ATTACH | Self::COMMAND | Self::CLOSE_ALL => true,
            Self::POLL | Self::SETTLE | Self::AUTHENTICATED => true,
            // What the transport and the clock report.
            Self(8..=19) => !matches!(self, Self::ADDRESSES),
            _ => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "kind {}", self.0),
        }
    }
}

crate::named! {
    /// A recording that cannot be read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Malformed {
        /// It does not begin as a recording of a known version.
        Magic,
        /// A record has fewer fields than its kind, or invalid ones.
        Record,
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "not a recording, or one of another version",
            Self::Record => "a record of the recording is malformed",
        })
    }
}

impl core::error::Error for Malformed {}

/// Writes records.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// The time before, in nanoseconds.
    time: u64,
    body: Vec<u8>,
}

impl Writer {
    /// What a recording begins with.
    pub const MAGIC: [u8; 6] = *b"zkrec\x01";

    /// Appends a record to `out`. `time` is in nanoseconds, and unused if the kind has none.
    pub fn record(
        &mut self,
        out: &mut Vec<u8>,
        kind: Kind,
        time: u64,
        fields: impl FnOnce(&mut Fields<'_>),
    ) {
        self.body.clear();
        self.body.push(kind.0);
        let mut body = Fields(&mut self.body);
        if kind == Kind::CLOCK {
            body.number(time);
        } else if kind.has_time() {
            body.signed(time.wrapping_sub(self.time) as i64);
        }
        fields(&mut body);
        if kind == Kind::CLOCK || kind.has_time() {
            self.time = time;
        }
        Fields(out).bytes(&self.body);
    }

    /// Returns the time before, in nanoseconds.
    pub fn time(&self) -> u64 {
        self.time
    }
}

/// Appends the fields of a record.
#[derive(Debug)]
pub struct Fields<'o>(&'o mut Vec<u8>);

impl<'o> Fields<'o> {
    /// Appends to these bytes.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self(out)
    }

    /// Appends fields.
    pub fn fields(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// Appends a number.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Appends a duration in nanoseconds, at most 2^64 - 1.
    pub fn duration(&mut self, duration: Duration) {
        self.number(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Appends a signed number.
    pub fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Appends a message without these parts, which are in order.
    pub fn message(&mut self, bytes: &[u8], gaps: &[Range<usize>]) {
        self.number(bytes.len() as u64);
        self.number(gaps.len() as u64);
        let mut end = 0;
        for gap in gaps {
            self.number((gap.start - end) as u64);
            self.number(gap.len() as u64);
            end = gap.end;
        }
        let starts = core::iter::once(0).chain(gaps.iter().map(|gap| gap.end));
        let ends = gaps.iter().map(|gap| gap.start).chain([bytes.len()]);
        for (start, end) in starts.zip(ends) {
            self.0.extend_from_slice(bytes.get(start..end).unwrap_or_default());
        }
    }
}

/// Finds the parts of a message that a recording leaves out: secrets, and node data unless it keeps
/// that. `frame` has its length prefix. What cannot be decoded is left out, too.
pub fn gaps(frame: &[u8], kind: MessageKind, keeps_data: bool, gaps: &mut Vec<Range<usize>>) {
    let mut end = 0;
    let explained = explain::frame(frame, kind, &mut |field| {
        end = field.range.end;
        let FieldPath::Field(_, name) = field.path else { return };
        let start = match (name.record, name.field) {
            (_, "password" | "auth" | "token") | ("Id", "id") => field.range.start + 4,
            (_, "data") if !keeps_data => field.range.start + 4,
            ("Frame", "body") => field.range.start,
            _ => return,
        };
        if start < end {
            gaps.push(start..end);
        }
    });
    if explained.is_err() && end < frame.len() {
        gaps.push(end..frame.len());
    }
}

/// Reads a recording, record by record. It ends before a record that is not there as a whole.
#[derive(Clone, Debug)]
pub struct Reader<'r> {
    rest: &'r [u8],
    time: u64,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record<'r> {
    /// Its kind.
    pub kind: Kind,
    /// Its time on the client's clock. If it has none, that of the record before.
    pub time: Duration,
    /// Its bytes, with their length in front.
    pub bytes: &'r [u8],
    fields: &'r [u8],
}

impl<'r> Record<'r> {
    /// Returns the reader of its fields, behind the time.
    pub fn fields(&self) -> FieldReader<'r> {
        FieldReader(self.fields)
    }
}

/// `12.345678 frame 84 00 ...`: the time in seconds, the name, and the first fields.
impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 24;
        write!(f, "{:.6} {}", self.time.as_secs_f64(), self.kind)?;
        for byte in self.fields.iter().take(SHOWN) {
            write!(f, " {byte:02x}")?;
        }
        f.write_str(if self.fields.len() > SHOWN { " ..." } else { "" })
    }
}

impl<'r> Reader<'r> {
    /// Reads the start of a recording.
    ///
    /// # Errors
    ///
    /// If it is none, or of a newer version.
    pub fn new(bytes: &'r [u8]) -> Result<Self, Malformed> {
        let rest = bytes.strip_prefix(&Writer::MAGIC).ok_or(Malformed::Magic)?;
        Ok(Self { rest, time: 0 })
    }

    /// Returns the reader of records alone.
    pub const fn of_records(records: &'r [u8]) -> Self {
        Self { rest: records, time: 0 }
    }
}

impl<'r> Iterator for Reader<'r> {
    type Item = Result<Record<'r>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut whole = FieldReader(self.rest);
        // The process may have ended within the last record.
        let body = whole.bytes().ok()?;
        let (bytes, rest) = self.rest.split_at_checked(self.rest.len() - whole.0.len())?;
        self.rest = rest;
        let mut read = || {
            let (kind, fields) = body.split_first().ok_or(Malformed::Record)?;
            let (kind, mut fields) = (Kind(*kind), FieldReader(fields));
            if kind == Kind::CLOCK {
                self.time = fields.number()?;
            } else if kind.has_time() {
                self.time = self.time.wrapping_add(fields.signed()? as u64);
            }
            Ok(Record { kind, time: Duration::from_nanos(self.time), bytes, fields: fields.0 })
        };
        Some(read())
    }
}

/// Reads the fields of a record.
#[derive(Clone, Debug)]
pub struct FieldReader<'r>(&'r [u8]);

impl<'r> FieldReader<'r> {
    /// Reads these fields.
    pub const fn new(fields: &'r [u8]) -> Self {
        Self(fields)
    }

    /// Reads a number.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Malformed::Record)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Record)
    }

    /// Reads a number that is small.
    ///
    /// # Errors
    ///
    /// If there is none, or a larger one.
    pub fn small<N: TryFrom<u64>>(&mut self) -> Result<N, Malformed> {
        N::try_from(self.number()?).map_err(|_| Malformed::Record)
    }

    /// Reads a signed number.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// If they are not there.
    pub fn bytes(&mut self) -> Result<&'r [u8], Malformed> {
        let length: usize = self.small()?;
        self.take(length)
    }

    /// Reads text.
    ///
    /// # Errors
    ///
    /// If it is missing, or not UTF-8.
    pub fn text(&mut self) -> Result<&'r str, Malformed> {
        core::str::from_utf8(self.bytes()?).map_err(|_| Malformed::Record)
    }

    fn take(&mut self, length: usize) -> Result<&'r [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed::Record)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a message. Zeros stand for what was left out.
    ///
    /// # Errors
    ///
    /// If it is not there, or longer than any frame.
    pub fn message(&mut self) -> Result<Vec<u8>, Malformed> {
        let length = self.small::<i32>()? as usize;
        let count: usize = self.small()?;
        // Each gap takes two bytes.
        if count > self.0.len() / 2 {
            return Err(Malformed::Record);
        }
        let mut gaps = Vec::with_capacity(count);
        for _ in 0..count {
            gaps.push((self.small::<usize>()?, self.small::<usize>()?));
        }
        let mut bytes = Vec::new();
        for (kept, left_out) in gaps {
            bytes.extend_from_slice(self.take(kept)?);
            let end = bytes.len().checked_add(left_out).filter(|end| *end <= length);
            bytes.resize(end.ok_or(Malformed::Record)?, 0);
        }
        let rest = length.checked_sub(bytes.len()).ok_or(Malformed::Record)?;
        bytes.extend_from_slice(self.take(rest)?);
        Ok(bytes)
    }

    /// Returns the bytes that are not read yet.
    pub fn rest(&self) -> &'r [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests;
