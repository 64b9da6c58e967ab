//! The transaction logs of real servers.
//!
//! A log is a folder of files. Each file has a header, then records, then zeros. A record has a
//! checksum, a length, the header and the body of a transaction, and a `B`.

mod change;
#[cfg(test)]
mod tests;
mod union;

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::vec;

use adler2::adler32_slice;
use zk_proto::{Decode, DecodeError, OpCode, Reader, SessionId, Xid, Zxid};

pub use self::change::Change;
pub use self::union::{Union, replay};

/// The magic number, the version and the id of the database.
const FILE_HEADER: usize = 16;
/// The most bytes of a transaction. Servers refuse requests of more than 1 MiB by default.
const MAX_LENGTH: u32 = 64 << 20;

/// A transaction as a server has logged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its zxid.
    pub zxid: Zxid,
    /// Its operation, such as [`OpCode::CREATE`].
    pub operation: OpCode,
    /// The session that asked for it.
    pub session: SessionId,
}

/// Returns the transactions in the log files of a folder, in the order in which they were written.
/// The last one may be incomplete, and is left out then.
///
/// # Errors
///
/// If the files cannot be read, or a transaction is damaged.
pub fn read(folder: &Path) -> io::Result<Vec<Logged>> {
    let (mut log, mut all) = (LogReader::open(folder)?, Vec::new());
    while let Some(logged) = log.read_next()? {
        all.push(logged);
    }
    Ok(all)
}

/// Reads the transactions of one server, one by one.
#[derive(Debug)]
pub struct LogReader {
    files: vec::IntoIter<PathBuf>,
    file: Option<BufReader<File>>,
    record: Vec<u8>,
    has_checksums: bool,
}

impl LogReader {
    /// Opens the log files of a folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let first = name.strip_prefix("log.").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            files.extend(first.map(|first| (first, path)));
        }
        files.sort_unstable();
        let files: Vec<_> = files.into_iter().map(|(_, path)| path).collect();
        Ok(Self { files: files.into_iter(), file: None, record: Vec::new(), has_checksums: true })
    }

    /// Reads without a check of checksums, which takes as long as the rest.
    #[must_use]
    fn without_checksums(self) -> Self {
        Self { has_checksums: false, ..self }
    }

    /// Reads the next transaction. Returns `None` at the end of the last file. In each file, an
    /// incomplete transaction is the end: the server was killed, or its disk was full.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a transaction is damaged.
    pub fn read_next(&mut self) -> io::Result<Option<Logged>> {
        loop {
            if let Some(file) = &mut self.file
                && read_record(file, &mut self.record, self.has_checksums)?
            {
                let header = decode_header(&self.record).map_err(damaged)?;
                return Ok(Some(header.0));
            }
            let Some(path) = self.files.next() else { return Ok(None) };
            let mut file = BufReader::new(File::open(path)?);
            let has_header = file.read_exact(&mut [0; FILE_HEADER]);
            self.file = unless_it_ends(has_header)?.then_some(file);
        }
    }

    /// Returns the body of the transaction that was read last, for [`Change::decode`].
    pub fn body(&self) -> &[u8] {
        decode_header(&self.record).map(|(_, body)| body).unwrap_or_default()
    }
}

/// Reads a record into a buffer, without its checksum and its length. Returns whether it is
/// complete.
fn read_record(file: &mut impl Read, record: &mut Vec<u8>, has_checksum: bool) -> io::Result<bool> {
    record.clear();
    let (mut checksum, mut length) = ([0; 8], [0; 4]);
    let head = file.read_exact(&mut checksum).and_then(|()| file.read_exact(&mut length));
    let length = u32::from_be_bytes(length);
    // The rest of a file is filled with zeros.
    if !unless_it_ends(head)? || length == 0 {
        return Ok(false);
    }
    if length > MAX_LENGTH {
        return Err(damaged(format!("a transaction of {length} bytes")));
    }
    file.take(u64::from(length) + 1).read_to_end(record)?;
    if record.len() as u64 <= u64::from(length) || record.pop() != Some(b'B') {
        return Ok(false);
    }
    match !has_checksum || u64::from_be_bytes(checksum) == u64::from(adler32_slice(record)) {
        true => Ok(true),
        false => Err(damaged("a transaction with a wrong checksum")),
    }
}

fn decode_header(record: &[u8]) -> Result<(Logged, &[u8]), DecodeError> {
    let mut reader = Reader::new(record);
    let session = SessionId::decode(&mut reader)?;
    let _xid = Xid::decode(&mut reader)?;
    let zxid = Zxid::decode(&mut reader)?;
    let _time = i64::decode(&mut reader)?;
    let operation = OpCode::decode(&mut reader)?;
    Ok((Logged { zxid, operation, session }, reader.rest()))
}

fn unless_it_ends(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        result => result.map(|()| true),
    }
}

fn damaged(error: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
