//! Writes files for fuzzers of any language, from the declarations of the records:
//! `fuzz_kit FOLDER`.
//!
//! `zookeeper.dict` is a dictionary for AFL and libFuzzer, and `zookeeper.ksy` a description for
//! Kaitai Struct.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, error::Error, fs};

use zk_proto::explain::{Explain, Layout};
use zk_proto::*;

/// The part of the description that does not depend on the records.
const STREAMS: &str = "\
meta:
  id: zookeeper
  title: The client protocol of Apache ZooKeeper
  license: MIT OR Apache-2.0
  endian: be
doc: |
  What a client sends on one connection. What a server sends is a `connect_response_frame`, then
  frames of `reply`, whose parameter is the operation of the request with the same xid.

  Generated from the records of the Rust crate zk-proto.
seq:
  - {id: connect, type: connect_request_frame}
  - {id: requests, type: request_frame, repeat: eos}
types:
  connect_request_frame:
    seq:
      - {id: len, type: s4, valid: {min: 0}}
      - {id: body, type: connect_request, size: len}
  connect_response_frame:
    seq:
      - {id: len, type: s4, valid: {min: 0}}
      - {id: body, type: connect_response, size: len}
  request_frame:
    seq:
      - {id: len, type: s4, valid: {min: 0}}
      - {id: body, type: request, size: len}
  end:
    seq:
      - {id: rest, size-eos: true, valid: {expr: _.length == 0}}
  unknown:
    seq:
      - {id: nothing, size: 0, valid: {expr: 'false'}}
  text:
    seq:
      - {id: len, type: s4, valid: {min: 0}}
      - {id: value, type: str, size: len, encoding: UTF-8}
  nullable_text:
    seq:
      - {id: len, type: s4, valid: {min: -1}}
      - {id: value, type: str, size: len, encoding: UTF-8, if: len >= 0}
  nullable_buffer:
    seq:
      - {id: len, type: s4, valid: {min: -1}}
      - {id: value, size: len, if: len >= 0}
";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: fuzz_kit FOLDER")?;
    for (name, content) in files() {
        fs::write(Path::new(&folder).join(name), content)?;
    }
    Ok(())
}

/// Returns the names and contents of the files.
pub(crate) fn files() -> [(&'static str, String); 2] {
    [("zookeeper.dict", dictionary()), ("zookeeper.ksy", description())]
}

type Named = (&'static str, &'static Layout);

fn enums() -> [Named; 9] {
    [
        ("op_code", OpCode::LAYOUT),
        ("error_code", ErrorCode::LAYOUT),
        ("xid", Xid::LAYOUT),
        ("event_type", EventType::LAYOUT),
        ("keeper_state", KeeperState::LAYOUT),
        ("create_mode", CreateMode::LAYOUT),
        ("add_watch_mode", AddWatchMode::LAYOUT),
        ("watcher_type", WatcherType::LAYOUT),
        ("perms", Perms::LAYOUT),
    ]
}

fn names_of(layout: &'static Layout) -> &'static [(i32, &'static str)] {
    if let Layout::Value { names, .. } = *layout { names } else { &[] }
}

/// Returns numbers as they are in a frame, and strings behind their length.
fn dictionary() -> String {
    let mut entries: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    let mut add = |name: String, bytes: Vec<u8>| {
        entries.entry(bytes).or_insert(name);
    };
    for (kind, layout) in enums() {
        for (number, name) in names_of(layout) {
            add(format!("{kind}_{}", name.to_lowercase()), number.to_be_bytes().into());
        }
    }
    for text in ["/", "/a", "/a/b", "/zookeeper/config", "world", "anyone", "auth", "digest", "ip"]
    {
        let name: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
        let length = u32::try_from(text.len()).unwrap_or_default().to_be_bytes();
        add(format!("text_{name}"), [&length, text.as_bytes()].concat());
    }
    let end = MultiHeader { opcode: OpCode::ERROR, done: true, err: ErrorCode(-1) };
    let mut bytes = [0; 9];
    if end.encode_to_slice(&mut bytes).is_ok() {
        add("end_of_multi".to_owned(), bytes.into());
    }
    for word in ["ruok", "srvr", "mntr", "wchp"] {
        add(format!("word_{word}"), word.into());
    }
    let mut out = String::new();
    for (bytes, name) in entries {
        let bytes: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let _ = writeln!(out, "{name}=\"{bytes}\"");
    }
    out
}

/// Returns the description for Kaitai Struct.
fn description() -> String {
    let mut types = Types::default();
    for layout in [ConnectRequest::LAYOUT, ConnectResponse::LAYOUT] {
        types.add(layout, "", true);
    }
    for layout in
        [RequestHeader::LAYOUT, ReplyHeader::LAYOUT, MultiHeader::LAYOUT, WatcherEvent::LAYOUT]
    {
        types.add(layout, "", false);
    }
    let (mut requests, mut replies) = (String::new(), String::new());
    for opcode in OpCode::REQUESTS {
        let name = opcode.name().unwrap_or_default().to_lowercase();
        let bodies = [
            (opcode.request_layout(), "request", &mut requests),
            (opcode.response_layout(), "response", &mut replies),
        ];
        for (layout, side, cases) in bodies {
            let Some(layout) = layout else { continue };
            let body = types.add(layout, &format!("{name}_{side}"), false);
            let _ = writeln!(cases, "            op_code::{name}: {body}");
        }
    }
    let mut out = STREAMS.to_owned();
    let _ = write!(
        out,
        "  request:
    seq:
      - {{id: header, type: request_header}}
      - id: body
        type:
          switch-on: header.opcode
          cases:
{requests}            _: unknown
      - {{id: end, type: end}}
  reply:
    params:
      - {{id: opcode, type: s4, enum: op_code}}
    seq:
      - {{id: header, type: reply_header}}
      - {{id: event, type: watcher_event, if: header.xid == xid::notification}}
      - id: body
        if: header.xid != xid::notification and header.err == error_code::ok
        type:
          switch-on: opcode
          cases:
{replies}            _: unknown
      - {{id: end, type: end, if: header.err == error_code::ok}}
"
    );
    for (name, body) in &types.0 {
        let _ = writeln!(out, "  {name}:\n    seq:{body}");
    }
    out.push_str("enums:\n");
    for (kind, layout) in enums() {
        let _ = writeln!(out, "  {kind}:");
        let mut known = BTreeSet::new();
        for (number, name) in names_of(layout).iter().filter(|(number, _)| known.insert(*number)) {
            let _ = writeln!(out, "    {number}: {}", name.to_lowercase());
        }
    }
    out
}

/// The fields of each type, in YAML.
#[derive(Default)]
struct Types(BTreeMap<String, String>);

impl Types {
    /// Adds the types of a body, and returns its name. A multi, which has no name, gets `other`.
    fn add(&mut self, layout: &'static Layout, other: &str, is_whole: bool) -> String {
        match *layout {
            Layout::Record { name, fields } => {
                let name = snake(name);
                if !self.0.contains_key(&name) {
                    let mut out = if fields.is_empty() { " []".to_owned() } else { String::new() };
                    for field in fields {
                        let value = self.value(field.layout);
                        let _ = write!(out, "\n      - {{id: {}, {value}}}", field.name);
                    }
                    if is_whole {
                        out.push_str("\n      - {id: end, type: end}");
                    }
                    self.0.insert(name.clone(), out);
                }
                name
            }
            Layout::Multi(items) => {
                let mut cases = String::new();
                for (opcode, layout) in items {
                    let body = self.add(layout, "", false);
                    let name = opcode.name().unwrap_or_default().to_lowercase();
                    let _ = write!(cases, "\n            op_code::{name}: {body}");
                }
                let item = format!(
                    "
      - {{id: header, type: multi_header}}
      - id: body
        if: header.done == 0
        type:
          switch-on: header.opcode
          cases:{cases}
            _: unknown"
                );
                let items = format!(
                    "\n      - {{id: items, type: {other}_item, repeat: until, \
                    repeat-until: _.header.done != 0}}"
                );
                self.0.insert(format!("{other}_item"), item);
                self.0.insert(other.to_owned(), items);
                other.to_owned()
            }
            _ => "unknown".to_owned(),
        }
    }

    /// Returns the type of a field.
    fn value(&mut self, layout: &'static Layout) -> String {
        match *layout {
            Layout::Value { wire_type, is_nullable, names } => {
                let kind = match wire_type {
                    "byte" => "s1",
                    "boolean" => "u1",
                    "int" => "s4",
                    "long" => "s8",
                    "ustring" if is_nullable => "nullable_text",
                    "ustring" => "text",
                    _ => "nullable_buffer",
                };
                let known = enums();
                let is_same = |(_, layout): &&Named| !names.is_empty() && names_of(layout) == names;
                match known.iter().find(is_same) {
                    Some((name, _)) => format!("type: {kind}, enum: {name}"),
                    None => format!("type: {kind}"),
                }
            }
            Layout::Optional(inner) => format!("{}, if: not _io.eof", self.value(inner)),
            Layout::Record { .. } => format!("type: {}", self.add(layout, "", false)),
            Layout::Vector(item) => {
                let of = self.value(item);
                let name = format!("list_of_{}", of.rsplit(' ').next().unwrap_or_default());
                let items = format!(
                    "
      - {{id: len, type: s4, valid: {{min: -1}}}}
      - {{id: items, {of}, repeat: expr, repeat-expr: len, if: len >= 0}}"
                );
                self.0.insert(name.clone(), items);
                format!("type: {name}")
            }
            _ => "type: unknown".to_owned(),
        }
    }
}

/// `GetAclRequest` becomes `get_acl_request`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
