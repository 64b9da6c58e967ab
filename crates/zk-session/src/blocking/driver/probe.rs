//! Asks a server whether it can write.

use core::time::Duration;
use std::io;

use super::connect::{MIN_WAIT, Transport, retry};

/// The time limit to connect, and again for the answer.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
const QUESTION: &[u8] = b"isro";
const YES: &[u8] = b"rw";

/// Asks the server over a separate connection, for at most `limit`.
pub(super) fn ask(transport: &dyn Transport, limit: Duration) -> io::Result<bool> {
    let end = std::time::Instant::now() + limit;
    let left = || end.saturating_duration_since(std::time::Instant::now());
    let mut question = QUESTION;
    while !question.is_empty() {
        let taken = retry(left, || transport.write(question))?;
        question = question.get(taken..).unwrap_or_default();
    }
    retry(left, || transport.flush())?;
    // One byte more than the answer, to detect a longer one.
    let mut answer = [0; YES.len() + 1];
    let mut length = 0;
    while let Some(room) = answer.get_mut(length..).filter(|room| !room.is_empty()) {
        match retry(left, || transport.read(room, left().max(MIN_WAIT)))? {
            0 => break,
            count => length += count,
        }
    }
    Ok(answer.get(..length) == Some(YES))
}

#[cfg(test)]
mod tests;
