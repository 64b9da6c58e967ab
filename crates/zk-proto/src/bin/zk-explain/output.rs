//! Everything that is done with connections: shown, drawn, recorded.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstream::AutoStream;
use zk_proto::conversation::{self, Direction};
use zk_proto::{OpCode, frame};

use crate::input::{self, Recording};
use crate::lanes::Lanes;
use crate::locks::Locks;
use crate::record::Recorder;
use crate::story::Story;
use crate::tracker::{Seen, Show, Tracker, Unreadable};
use crate::{Failure, Format, LocksFormat, pcap_writer, show};

/// The longest frame of a connection. Servers may permit more than the default.
pub(crate) const LIMIT: usize = 16 * frame::DEFAULT_LIMIT;
/// Times before this one, in seconds after 1970, are not those of a clock.
const FIRST_DATE: u64 = 366 * 24 * 3600;

/// The messages to show.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) path: Option<String>,
    pub(crate) operations: Vec<OpCode>,
    pub(crate) errors: bool,
}

impl Filter {
    /// Returns whether a path is the wanted one or below it.
    fn has(&self, path: &str) -> bool {
        self.path.as_ref().is_none_or(|wanted| {
            let rest = path.strip_prefix(wanted.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn admits(&self, seen: &Seen<'_>) -> bool {
        let is_wanted = |opcode: OpCode| self.operations.contains(&opcode);
        (self.path.is_none() || seen.paths.iter().any(|path| self.has(path)))
            && (self.operations.is_empty() || seen.opcode.is_some_and(is_wanted))
            && (!self.errors || seen.is_error())
    }
}

pub(crate) struct Output {
    out: AutoStream<io::Stdout>,
    format: Format,
    filter: Filter,
    full: bool,
    lanes: Lanes,
    locks: Locks,
    story: Story,
    connections: Vec<Option<Connection>>,
    folder: Option<PathBuf>,
    pcap: Option<pcap_writer::Writer>,
    /// The first time that was seen. All times are shown since then.
    start: Option<Duration>,
    last: Duration,
    failure: Option<Failure>,
}

struct Connection {
    tracker: Tracker,
    recorder: Option<Recorder>,
}

impl Output {
    pub(crate) fn new(format: Format, filter: Filter, full: bool) -> Self {
        Self {
            out: AutoStream::auto(io::stdout()),
            format,
            filter,
            full,
            lanes: Lanes::default(),
            locks: Locks::default(),
            story: Story::default(),
            connections: Vec::new(),
            folder: None,
            pcap: None,
            start: None,
            last: Duration::ZERO,
            failure: None,
        }
    }

    pub(crate) fn record_in(&mut self, folder: &Path) -> Result<(), Failure> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        self.folder = Some(folder.to_owned());
        Ok(())
    }

    pub(crate) fn write_pcap_to(&mut self, file: &Path) -> Result<(), Failure> {
        self.pcap = Some(pcap_writer::Writer::create(file)?);
        Ok(())
    }

    /// Adds a connection of a capture, which may lack its beginning and bytes in between.
    pub(crate) fn open_captured(
        &mut self,
        client: &str,
        server: &str,
        is_whole: bool,
    ) -> Result<usize, Failure> {
        let connection = self.open(client, server, LIMIT)?;
        if let Some(Some(open)) = self.connections.last_mut() {
            open.tracker.search(is_whole);
        }
        Ok(connection)
    }

    /// Passes over bytes of a connection that were not captured.
    pub(crate) fn gap(
        &mut self,
        connection: usize,
        direction: Direction,
        lost: u64,
        time: Duration,
    ) -> Result<(), Failure> {
        if let Some(pcap) = &mut self.pcap {
            pcap.skip(connection, direction, lost);
        }
        self.follow(connection, Some(time), |tracker, since, show| {
            tracker.gap(direction, lost, since, show)
        })
    }

    /// Returns the time of the last bytes.
    pub(crate) fn last_time(&self) -> Duration {
        self.last
    }

    /// Adds a connection with frames up to `limit`, and returns its number.
    pub(crate) fn open(
        &mut self,
        name: &str,
        server: &str,
        limit: usize,
    ) -> Result<usize, Failure> {
        let connection = self.connections.len() + 1;
        let recorder = match &self.folder {
            Some(folder) => Some(Recorder::create(folder, &format!("{connection:04}"))?),
            None => None,
        };
        if let Some(pcap) = &mut self.pcap {
            pcap.open(connection, self.start)?;
        }
        self.lanes.open(connection, name);
        let tracker = Tracker::new(connection, name, server, limit);
        self.connections.push(Some(Connection { tracker, recorder }));
        Ok(connection)
    }

    /// Takes bytes of an open connection.
    pub(crate) fn bytes(
        &mut self,
        connection: usize,
        direction: Direction,
        bytes: &[u8],
        time: Option<Duration>,
    ) -> Result<(), Failure> {
        self.start = self.start.or(time);
        if let Some(pcap) = &mut self.pcap {
            pcap.data(connection, direction, bytes, time)?;
        }
        let Some(Some(open)) = self.connections.get_mut(connection - 1) else { return Ok(()) };
        if let Some(recorder) = &mut open.recorder {
            recorder.write(direction, bytes, time)?;
        }
        self.follow(connection, time, |tracker, since, show| {
            tracker.push(direction, bytes, since, show)
        })
    }

    /// Lets the tracker of a connection read, and shows its messages.
    fn follow(
        &mut self,
        connection: usize,
        time: Option<Duration>,
        read: impl FnOnce(&mut Tracker, Option<Duration>, &mut Show<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.last = time.unwrap_or(self.last);
        let start = self.start.unwrap_or_default();
        let since = time.map(|time| time.saturating_sub(start));
        let date = time.filter(is_date).and_then(show::date);
        let Self { connections, out, lanes, locks, story, filter, format, full, .. } = self;
        let Some(Some(open)) = connections.get_mut(connection - 1) else { return Ok(()) };
        let mut show = |seen: &Seen<'_>| -> Result<(), Failure> {
            if let Format::Locks(_) = format {
                locks.add(seen);
                return Ok(());
            }
            lanes.note_cause(seen);
            if !filter.admits(seen) {
                return Ok(());
            }
            match format {
                Format::Dump => writeln!(out, "{}", show::dump(seen, *full))?,
                Format::Lines => writeln!(out, "{}", show::line(seen, date, *full))?,
                Format::Json => writeln!(out, "{}", show::json(seen, date))?,
                Format::Lanes | Format::Svg => lanes.add(seen),
                Format::Play => story.add(seen),
                Format::Locks(_) => {}
            }
            Ok(())
        };
        match read(&mut open.tracker, since, &mut show) {
            Err(error) if error.is::<Unreadable>() => {
                // The other direction, and other connections, can still be read.
                self.failure.get_or_insert(error);
                Ok(())
            }
            other => other,
        }
    }

    /// Ends a connection. Bytes of incomplete frames are reported.
    pub(crate) fn close(&mut self, connection: usize) -> Result<(), Failure> {
        let Some(place) = self.connections.get_mut(connection - 1) else { return Ok(()) };
        let Some(mut closed) = place.take() else { return Ok(()) };
        if let Some(pcap) = &mut self.pcap {
            pcap.close(connection)?;
        }
        self.lanes.close(connection);
        self.story.close(connection);
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.note_missing(&mut closed.tracker, direction);
            let Some((offset, bytes)) = closed.tracker.incomplete(direction) else { continue };
            let text = format!("{} bytes at byte {offset} are an incomplete frame", bytes.len());
            let hint = if offset == 0 { input::hint(direction, bytes) } else { None };
            match self.format {
                Format::Dump | Format::Lines => writeln!(self.out, "{text}")?,
                _ => complain("note", text),
            }
            hint.into_iter().for_each(|hint| complain("hint", hint));
        }
        Ok(())
    }

    /// Notes what is missing of a direction.
    fn note_missing(&mut self, tracker: &mut Tracker, direction: Direction) {
        let missing = tracker.missing(direction);
        let stream = match direction {
            Direction::ToServer => "to the server",
            Direction::ToClient => "to the client",
        };
        let stream = format!("{}: {stream}", tracker.name());
        for (count, what) in [
            (missing.lost, "bytes are missing in the capture"),
            (missing.skipped, "bytes were skipped, which belong to no whole frame"),
        ] {
            if count > 0 {
                complain("note", format!("{stream}, {count} {what}"));
            }
        }
        if let Some(hint) = missing.hint {
            complain("hint", format!("{stream}, {hint}"));
        }
    }

    /// Shows recorded connections, in the order of their times.
    pub(crate) fn recordings(&mut self, recordings: Vec<Recording>) -> Result<(), Failure> {
        let mut chunks = Vec::new();
        let is_alone = recordings.len() == 1;
        let mut is_ordered = true;
        for recording in &recordings {
            let Recording { name, sent, received, order } = recording;
            for (direction, stream) in
                [(Direction::ToServer, sent), (Direction::ToClient, received)]
            {
                input::hint(direction, stream).into_iter().for_each(|hint| complain("hint", hint));
            }
            let limit = frame::DEFAULT_LIMIT.max(sent.len()).max(received.len());
            let name = if is_alone { "" } else { name };
            let connection = self.open(name, "", limit)?;
            let Some(order) = order else {
                is_ordered &= sent.is_empty() || received.is_empty();
                let transcript = conversation::transcript(sent, received);
                let mut read = [0, 0];
                for message in transcript.messages {
                    read[message.direction as usize] += message.bytes.len();
                    chunks.push((None, connection, message.direction, message.bytes));
                }
                chunks.push((None, connection, Direction::ToServer, &sent[read[0]..]));
                chunks.push((None, connection, Direction::ToClient, &received[read[1]..]));
                continue;
            };
            let mut rest = [&sent[..], &received[..]];
            let mut last = None;
            for chunk in order {
                let rest = &mut rest[chunk.direction as usize];
                let (bytes, behind) = rest.split_at(chunk.length.min(rest.len()));
                *rest = behind;
                last = Some(chunk.time);
                chunks.push((last, connection, chunk.direction, bytes));
            }
            chunks.push((last, connection, Direction::ToServer, rest[0]));
            chunks.push((last, connection, Direction::ToClient, rest[1]));
        }
        if !is_ordered && self.format != Format::Dump {
            complain("note", "without a .seq file, each request is shown next to its reply");
        }
        chunks.sort_by_key(|(time, ..)| *time);
        for (time, connection, direction, bytes) in chunks {
            if !bytes.is_empty() {
                self.bytes(connection, direction, bytes, time)?;
            }
        }
        (1..=recordings.len()).try_for_each(|connection| self.close(connection))
    }

    /// Shows one direction of a connection.
    pub(crate) fn one_direction(
        &mut self,
        direction: Direction,
        bytes: Vec<u8>,
        reply_to: Option<OpCode>,
    ) -> Result<(), Failure> {
        let connection = self.open("", "", frame::DEFAULT_LIMIT.max(bytes.len()))?;
        if let Some(Some(open)) = self.connections.last_mut() {
            open.tracker.set_reply_to(reply_to);
        }
        self.bytes(connection, direction, &bytes, None)?;
        let is_readable = self.failure.is_none();
        if !is_readable
            || frame::split(&bytes, bytes.len().max(frame::DEFAULT_LIMIT))
                .is_ok_and(|split| split.is_some())
        {
            input::hint(direction, &bytes).into_iter().for_each(|hint| complain("hint", hint));
        }
        self.close(connection)
    }

    /// Prints what can be printed only at the end. Fails if a stream was unreadable.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        for connection in 1..=self.connections.len() {
            self.close(connection)?;
        }
        match self.format {
            Format::Lanes => write!(self.out, "{}", self.lanes.diagram())?,
            Format::Svg => write!(self.out, "{}", self.lanes.diagram().to_svg())?,
            Format::Play => writeln!(self.out, "{}", self.story.json())?,
            Format::Locks(format) => {
                let (is_wanted, start) =
                    (|it: &str| self.filter.has(it), self.start.filter(is_date));
                let report = match format {
                    LocksFormat::Text => self.locks.text(is_wanted, start),
                    LocksFormat::Json => self.locks.json(is_wanted, start),
                };
                write!(self.out, "{report}")?;
            }
            Format::Dump | Format::Lines | Format::Json => {}
        }
        self.out.flush()?;
        self.failure.map_or(Ok(()), Err)
    }
}

/// Returns whether a time is that of a clock.
fn is_date(time: &Duration) -> bool {
    time.as_secs() >= FIRST_DATE
}

/// Prints a remark on the standard error.
pub(crate) fn complain(kind: &str, text: impl Display) {
    // If it is closed, nobody reads the remark.
    let _ = writeln!(io::stderr(), "{kind}: {text}");
}
