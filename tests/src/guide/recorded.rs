//! Recorded connections, from `crates/zk-proto/tests/golden`.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::path::{Path, PathBuf};
use std::{fs, io};

use zk_proto::diagram::Diagram;
use zk_proto::explain::MessageKind;
use zk_proto::{Decode, OpCode, Reader, ReplyHeader, RequestHeader, Xid, frame};

use super::label;
use super::stage::Frame;

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

/// Returns the frames of a recording: each reply behind its request, each event before the next
/// reply.
///
/// # Errors
///
/// If there is no such recording.
pub fn frames(name: &str) -> io::Result<Vec<Frame>> {
    let stream = |extension: &str| fs::read(folder().join([name, ".", extension].concat()));
    let (up, down) = (stream("c2s")?, stream("s2c")?);
    let mut asked: VecDeque<(usize, Xid, OpCode)> = VecDeque::new();
    let mut requests = VecDeque::new();
    for (index, bytes) in split(&up).into_iter().enumerate() {
        let header = RequestHeader::decode(&mut Reader::new(&bytes[frame::PREFIX_LEN..]));
        let kind = match header {
            Ok(header) if index > 0 => {
                asked.push_back((index, header.xid, header.opcode));
                MessageKind::Request
            }
            _ => MessageKind::ConnectRequest,
        };
        requests.push_back((index, Frame { to_server: true, kind, bytes: bytes.to_vec() }));
    }
    let mut frames = Vec::new();
    let mut up_to = |last: usize, frames: &mut Vec<Frame>| {
        while requests.front().is_some_and(|(index, _)| *index <= last) {
            frames.extend(requests.pop_front().map(|(_, request)| request));
        }
    };
    for (index, bytes) in split(&down).into_iter().enumerate() {
        let header = ReplyHeader::decode(&mut Reader::new(&bytes[frame::PREFIX_LEN..])).ok();
        let answers = |(_, xid, _): &(usize, Xid, OpCode)| header.is_some_and(|it| it.xid == *xid);
        let place = asked.iter().position(answers).filter(|_| index > 0);
        let kind = match place.and_then(|place| asked.remove(place)) {
            Some((request, _, opcode)) => {
                up_to(request, &mut frames);
                MessageKind::Reply(opcode)
            }
            None if index == 0 => {
                up_to(0, &mut frames);
                MessageKind::ConnectResponse
            }
            None => MessageKind::UnknownReply,
        };
        frames.push(Frame { to_server: false, kind, bytes: bytes.to_vec() });
    }
    up_to(usize::MAX, &mut frames);
    Ok(frames)
}

/// Returns the whole frames of a stream, with their length prefixes.
fn split(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Ok(Some((_, rest))) = frame::split(stream, frame::DEFAULT_LIMIT) {
        frames.push(&stream[..stream.len() - rest.len()]);
        stream = rest;
    }
    frames
}

/// Draws a recording. It has no times.
///
/// # Errors
///
/// If there is no such recording.
pub fn diagram(name: &str, title: &str) -> io::Result<Diagram> {
    let mut diagram = Diagram::new(title);
    diagram.set_label_limit(100);
    let (client, server) = (diagram.lane("client"), diagram.lane("server"));
    for Frame { to_server, kind, bytes } in frames(name)? {
        let (style, text) = label::of(&bytes[frame::PREFIX_LEN..], kind);
        let (from, to) = if to_server { (client, server) } else { (server, client) };
        diagram.message(None, from, to, style, &text);
    }
    Ok(diagram)
}
