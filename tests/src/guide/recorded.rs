//! Recorded connections, from `crates/zk-proto/tests/golden`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::{fs, io};

use zk_proto::conversation::{self, Direction, Message};
use zk_proto::diagram::Diagram;
use zk_proto::frame;

use super::stage::Frame;
use super::{invalid, label};
use crate::explained;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/zk-proto/tests/golden")
}

/// Returns the names of all recordings.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn names() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".c2s").map(ToString::to_string));
    }
    names.sort();
    Ok(names)
}

/// Returns the frames of a recording in their order, with the times since it began.
///
/// # Errors
///
/// If there is no such recording.
pub fn frames(name: &str) -> io::Result<Vec<(Duration, Frame)>> {
    let file = |extension: &str| folder().join([name, ".", extension].concat());
    let (up, down) = (fs::read(file("c2s"))?, fs::read(file("s2c"))?);
    let chunks = chunks(&fs::read_to_string(file("seq"))?);
    let chunks = chunks.ok_or_else(|| invalid(format!("{name}.seq is no list of chunks")))?;
    let last = chunks.len().saturating_sub(1);
    let chunk_of = |message: &Message<'_>| {
        let end = message.offset + message.bytes.len() as u64;
        let holds = |chunk: &Chunk| chunk.direction == message.direction && chunk.end >= end;
        chunks.iter().position(holds).unwrap_or(last)
    };
    let mut messages = conversation::transcript(&up, &down).messages;
    messages.sort_by_cached_key(chunk_of);
    let time = |message: &Message<'_>| chunks.get(chunk_of(message)).map(|chunk| chunk.time);
    Ok(messages.iter().filter_map(|it| Some((time(it)?, Frame::new(it)?))).collect())
}

/// Bytes that were read at once.
struct Chunk {
    direction: Direction,
    /// Where they end in the stream of their direction.
    end: u64,
    time: Duration,
}

fn chunks(order: &str) -> Option<Vec<Chunk>> {
    let (mut chunks, mut ends) = (Vec::new(), [0, 0]);
    for line in order.lines() {
        let (mark, rest) = line.split_once(' ')?;
        let direction = match mark {
            ">" => Direction::ToServer,
            "<" => Direction::ToClient,
            _ => continue,
        };
        let (length, millis) = rest.split_once(' ')?;
        let end = &mut ends[direction as usize];
        *end += length.parse::<u64>().ok()?;
        let time = Duration::try_from_secs_f64(millis.parse::<f64>().ok()? / 1000.0).ok()?;
        chunks.push(Chunk { direction, end: *end, time });
    }
    Some(chunks)
}

/// Draws the recordings of one run by `zk-explain`, each as a lane with a name. `format` is `lanes`
/// or `svg`.
///
/// # Errors
///
/// If there is no such recording.
///
/// # Panics
///
/// If `zk-explain` fails.
pub fn lanes(run: &[(&str, &str)], format: &str) -> io::Result<String> {
    let together = tempfile::tempdir()?;
    for (recording, lane) in run {
        for ending in ["c2s", "s2c", "seq"] {
            let recorded = folder().join(format!("{recording}.{ending}"));
            fs::copy(recorded, together.path().join(format!("{lane}.{ending}")))?;
        }
    }
    Ok(explained::draw(together.path(), &["--format", format, "--path", explained::LOCK]))
}

/// Draws a recording.
///
/// # Errors
///
/// If there is no such recording.
pub fn diagram(name: &str, title: &str) -> io::Result<Diagram> {
    let mut diagram = Diagram::new(title);
    diagram.set_label_limit(100);
    let (client, server) = (diagram.lane("client"), diagram.lane("server"));
    for (time, Frame { to_server, kind, bytes }) in frames(name)? {
        let (style, text) = label::of(&bytes[frame::PREFIX_LEN..], kind);
        let (from, to) = if to_server { (client, server) } else { (server, client) };
        diagram.message(Some(time), from, to, style, &text);
    }
    Ok(diagram)
}
