//! Recordings of connections: the bytes of each direction, and their order with times.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use zk_proto::conversation::Direction;

use crate::show::date;

/// Returns options to create a file for its owner alone: connections carry credentials and data.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The files of one connection. Every chunk is written at once, so that nothing is lost at the end.
#[derive(Debug)]
pub(crate) struct Recorder {
    sent: File,
    received: File,
    order: File,
    start: Option<Duration>,
}

impl Recorder {
    /// Creates the files, none of which may exist.
    pub(crate) fn create(folder: &Path, name: &str) -> io::Result<Self> {
        let create = |ending: &str| {
            let file = folder.join(format!("{name}.{ending}"));
            private().create_new(true).open(&file).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.display()))
            })
        };
        let (sent, received, order) = (create("c2s")?, create("s2c")?, create("seq")?);
        Ok(Self { sent, received, order, start: None })
    }

    pub(crate) fn write(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        time: Option<Duration>,
    ) -> io::Result<()> {
        let (file, mark) = match direction {
            Direction::ToServer => (&mut self.sent, '>'),
            Direction::ToClient => (&mut self.received, '<'),
        };
        file.write_all(bytes)?;
        let time = time.unwrap_or_default();
        let start = match self.start {
            Some(start) => start,
            None => {
                let at = date(time).unwrap_or(UNIX_EPOCH);
                writeln!(self.order, "# {}", humantime::format_rfc3339_micros(at))?;
                *self.start.insert(Duration::from_micros(time.as_micros() as u64))
            }
        };
        let since = time.saturating_sub(start).as_micros();
        writeln!(self.order, "{mark} {} {}.{:03}", bytes.len(), since / 1000, since % 1000)
    }
}
