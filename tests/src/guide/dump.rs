//! Frames as text: a title, and a line for each field.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use zk_proto::explain::{self, MessageKind};

use super::label;
use super::stage::Frame;

const BYTES_PER_LINE: usize = 8;

/// Returns the frame as the blocks of the guide show it.
///
/// A block contains all bytes of the frame, so that a reader can send it.
pub fn dump(frame: &Frame) -> String {
    let Frame { to_server, kind, bytes } = frame;
    let arrow = if *to_server { '>' } else { '<' };
    let name = match kind {
        MessageKind::ConnectRequest | MessageKind::ConnectResponse => "handshake".to_owned(),
        kind => label::of(bytes.get(4..).unwrap_or_default(), *kind).1,
    };
    let mut out = format!("{arrow} {name} ({} bytes)\n", bytes.len());
    let explained = explain::frame(bytes, *kind, &mut |field| {
        let mut text = format!("  {:<7}  {} = {}", field.wire_type, field.path, field.value);
        for (line, bytes) in bytes[field.range.clone()].chunks(BYTES_PER_LINE).enumerate() {
            let at = field.range.start + line * BYTES_PER_LINE;
            let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let line = format!("{at:6}  {:<23}{text}", hex.join(" "));
            text.clear();
            // Writing to a `String` does not fail.
            let _ = writeln!(out, "{}", line.trim_end());
        }
    });
    if let Err(error) = explained {
        let _ = writeln!(out, "        {error}");
    }
    out
}
