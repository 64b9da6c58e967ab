//! Recorded connections, from `crates/zk-proto/tests/golden`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::path::{Path, PathBuf};
use std::{fs, io};

use zk_proto::conversation;
use zk_proto::diagram::Diagram;
use zk_proto::frame;

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

/// Returns the frames of a recording, each reply behind its request.
///
/// # Errors
///
/// If there is no such recording.
pub fn frames(name: &str) -> io::Result<Vec<Frame>> {
    let stream = |extension: &str| fs::read(folder().join([name, ".", extension].concat()));
    let (up, down) = (stream("c2s")?, stream("s2c")?);
    let messages = conversation::transcript(&up, &down).messages;
    Ok(messages.iter().filter_map(Frame::new).collect())
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
