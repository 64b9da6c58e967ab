//! The transaction logs of real servers.

use std::fs;
use std::io;
use std::path::Path;

use zk_proto::{OpCode, SessionId, Zxid};

/// The magic number, the version and the id of the database.
const FILE_HEADER: usize = 16;

/// A transaction as a server has logged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its number.
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
/// If the files cannot be read.
pub fn read(folder: &Path) -> io::Result<Vec<Logged>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let first = name.strip_prefix("log.").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        files.extend(first.map(|first| (first, path)));
    }
    files.sort_unstable();
    let mut all = Vec::new();
    for (_, path) in files {
        all.extend(transactions(&fs::read(path)?));
    }
    Ok(all)
}

fn transactions(file: &[u8]) -> Vec<Logged> {
    let mut rest = file.get(FILE_HEADER..).unwrap_or_default();
    let mut all = Vec::new();
    // The rest of a file is filled with zeros.
    while let Some((logged, after)) = next(rest) {
        all.push(logged);
        rest = after;
    }
    all
}

/// Splits off a transaction: a checksum, its length, its bytes, and a `B`.
fn next(bytes: &[u8]) -> Option<(Logged, &[u8])> {
    let (_checksum, bytes) = bytes.split_first_chunk::<8>()?;
    let (length, bytes) = bytes.split_first_chunk()?;
    let (body, bytes) =
        bytes.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    let (session, body) = body.split_first_chunk()?;
    let (_xid, body) = body.split_first_chunk::<4>()?;
    let (zxid, body) = body.split_first_chunk()?;
    let (_time, body) = body.split_first_chunk::<8>()?;
    let logged = Logged {
        zxid: Zxid(i64::from_be_bytes(*zxid)),
        operation: OpCode(i32::from_be_bytes(*body.first_chunk()?)),
        session: SessionId(i64::from_be_bytes(*session)),
    };
    Some((logged, bytes.strip_prefix(b"B")?))
}
