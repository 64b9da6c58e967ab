//! Differential fuzzing: this crate and ZooKeeper's own Java records read the same bytes.
//!
//! Both must accept the same messages, and find the same names and bytes of fields, except for the
//! classes of [`CLASSES`]. Needs `java`, 17 or later, and the jar of Debian's ZooKeeper or those in
//! `ZK_CLASSPATH`. With `ZK_REAL=require` their absence is an error. `ZK_RECORDS` sets the number of
//! messages.

#[path = "../captures/mod.rs"]
mod captures;
#[path = "../skipped/mod.rs"]
pub mod skipped;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, thread};

use captures::{Capture, Kind};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use skipped::skip;
use zk_proto::explain::{self, Layout, MessageKind};
use zk_proto::{DecodeErrorKind, Encode, GeneratorMode, OpCode, RequestHeader, frame, owned};

/// The jar's manifest names the others.
const JAR: &str = "/usr/share/java/zookeeper.jar";

/// The documented classes of differences; see `docs/fuzzing.md`.
const CLASSES: [&str; 9] =
    [TRAILING, UTF8, NULL, COUNT, SURROGATES, MULTI_CREATE, MULTI_WATCH, MULTI_KIND, FAILED_PART];
const TRAILING: &str = "bytes behind the record";
const UTF8: &str = "a string that is not UTF-8";
const NULL: &str = "a string that is null";
const COUNT: &str = "a vector with a count below -1";
const SURROGATES: &str = "a character above U+FFFF";
const MULTI_CREATE: &str = "a create inside a multi";
const MULTI_WATCH: &str = "a watch inside a multiRead";
const MULTI_KIND: &str = "a read inside a multi, or a write inside a multiRead";
const FAILED_PART: &str = "an error in the header of a result";

/// Only since 3.9, whose records of the handshake have the field.
const NO_FLAG: &str = "a handshake without the byte `readOnly`";

/// What a message is. Its class is known to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    ConnectRequest,
    ConnectResponse,
    Request(OpCode),
    Reply(OpCode),
    Event,
}

impl What {
    /// Returns the Java class of the record, or `None` for a message without one.
    fn class(self) -> Option<String> {
        let (layout, multi) = match self {
            Self::ConnectRequest => return Some(proto("ConnectRequest")),
            Self::ConnectResponse => return Some(proto("ConnectResponse")),
            Self::Event => return Some(proto("WatcherEvent")),
            // Before 3.9, servers have no record for it.
            Self::Request(OpCode::DELETE_CONTAINER) => return None,
            Self::Request(opcode) => (opcode.request_layout()?, "MultiOperationRecord"),
            Self::Reply(opcode) => (opcode.response_layout()?, "MultiResponse"),
        };
        match layout {
            Layout::Record { fields: [], .. } => None,
            Layout::Record { name, .. } => Some(proto(name)),
            _ => Some(format!("org.apache.zookeeper.{multi}")),
        }
    }

    /// Returns how this crate reads the message, and its header.
    fn header(self) -> (MessageKind, Vec<u8>) {
        let reply = |xid: i32| [&xid.to_be_bytes()[..], &[0; 12]].concat();
        match self {
            Self::ConnectRequest => (MessageKind::ConnectRequest, Vec::new()),
            Self::ConnectResponse => (MessageKind::ConnectResponse, Vec::new()),
            Self::Request(opcode) => {
                let header = [1_i32.to_be_bytes(), opcode.0.to_be_bytes()].concat();
                (MessageKind::Request, header)
            }
            Self::Reply(opcode) => (MessageKind::Reply(opcode), reply(1)),
            Self::Event => (MessageKind::UnknownReply, reply(-1)),
        }
    }

    fn is_multi_request(self) -> bool {
        matches!(self, Self::Request(OpCode::MULTI | OpCode::MULTI_READ))
    }
}

/// Returns the class of a record. Java writes abbreviations in capitals.
fn proto(name: &str) -> String {
    let name = name.replace("Acl", "ACL").replace("Sasl", "SASL").replace("Ttl", "TTL");
    format!("org.apache.zookeeper.proto.{name}")
}

#[derive(Clone, Debug)]
struct Message {
    what: What,
    body: Vec<u8>,
}

// ---- Messages ----------------------------------------------------------------------------------

fn recorded() -> Vec<Message> {
    let mut messages = Vec::new();
    for capture in Capture::all() {
        for message in capture.messages() {
            let (what, header) = match message.kind {
                Kind::ConnectRequest => (What::ConnectRequest, 0),
                Kind::ConnectResponse => (What::ConnectResponse, 0),
                Kind::Request(RequestHeader { opcode, .. }) => (What::Request(opcode), 8),
                Kind::Reply(opcode, header) if header.err.0 == 0 => (What::Reply(opcode), 16),
                Kind::Notification => (What::Event, 16),
                Kind::Refusal(_) | Kind::Reply(..) => continue,
            };
            let body = message.bytes[frame::PREFIX_LEN + header..].to_vec();
            // Long lists are alike throughout.
            if what.class().is_some() && body.len() < 2000 {
                messages.push(Message { what, body });
            }
        }
    }
    messages
}

fn generated() -> impl Strategy<Value = Message> {
    let request = any_with::<owned::Request>(GeneratorMode::Harmful).prop_map(|request| Message {
        what: What::Request(request.opcode()),
        body: encoded(&request),
    });
    let reply = any_with::<owned::Response>(GeneratorMode::Arbitrary)
        .prop_map(|reply| Message { what: What::Reply(reply.opcode()), body: encoded(&reply) });
    prop_oneof![request, reply].prop_filter("a record", |message| message.what.class().is_some())
}

fn encoded(message: &impl Encode) -> Vec<u8> {
    let mut bytes = vec![0; message.encoded_len()];
    message.encode_to_slice(&mut bytes).expect("as long as the message");
    bytes
}

/// Numbers that lengths and counts change to.
const NUMBERS: &[i32] = &[-3, -2, -1, 0, 1, 2, 7, 255, 0xf_ffff, 0x10_0000, i32::MAX, i32::MIN];

#[derive(Clone, Copy, Debug)]
enum Change {
    Flip(u8),
    /// Writes four bytes, as a length or a count.
    Number(i32),
    Cut,
    Insert(u8),
    Remove,
}

fn changes() -> impl Strategy<Value = Vec<(Index, Change)>> {
    let change = prop_oneof![
        any::<u8>().prop_map(Change::Flip),
        select(NUMBERS).prop_map(Change::Number),
        Just(Change::Cut),
        any::<u8>().prop_map(Change::Insert),
        Just(Change::Remove),
    ];
    prop::collection::vec((any::<Index>(), change), 0..3)
}

fn changed(mut body: Vec<u8>, changes: &[(Index, Change)]) -> Vec<u8> {
    for (place, change) in changes {
        let place = place.index(body.len() + 1);
        match *change {
            Change::Flip(bits) => body.get_mut(place).into_iter().for_each(|byte| *byte ^= bits),
            Change::Number(number) => {
                let end = body.len().min(place + 4);
                body[place..end].copy_from_slice(&number.to_be_bytes()[..end - place]);
            }
            Change::Cut => body.truncate(place),
            Change::Insert(byte) => body.insert(place, byte),
            Change::Remove if place < body.len() => drop(body.remove(place)),
            Change::Remove => {}
        }
    }
    body
}

// ---- What both find ----------------------------------------------------------------------------

/// The names of fields as in Java, without capitals, and their bytes in hexadecimal.
type Fields = Vec<(String, String)>;

/// What this crate reads: all fields, or those before an error.
struct Ours {
    fields: Fields,
    error: Option<DecodeErrorKind>,
    has_surrogates: bool,
}

fn ours(message: &Message) -> Ours {
    let (kind, header) = message.what.header();
    let payload = [&header[..], &message.body].concat();
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let bytes = [&length[..], &payload].concat();
    let (mut fields, mut has_surrogates) = (Fields::new(), false);
    let result = explain::frame(&bytes, kind, &mut |field| {
        if field.range.start < frame::PREFIX_LEN + header.len() {
            return;
        }
        let path = field.path.to_string();
        let value = &bytes[field.range.clone()];
        let value = match field.wire_type {
            "boolean" => vec![u8::from(value != [0])],
            "ustring" if value[..4] != [255; 4] => {
                let string = java_string(std::str::from_utf8(&value[4..]).expect("checked"));
                has_surrogates |= string.len() != value.len();
                string
            }
            _ => value.to_vec(),
        };
        fields.push((java_name(&path), hex(&value)));
    });
    Ours { fields, error: result.err().map(|error| error.kind()), has_surrogates }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes a string as Java does, which encodes each half of a surrogate pair by itself.
fn java_string(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for unit in text.encode_utf16() {
        match char::from_u32(unit.into()) {
            Some(character) => bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => {
                let bits = |shift: u16| (unit >> shift & 0x3f) as u8 | 0x80;
                bytes.extend([0xe0 | (unit >> 12) as u8, bits(6), bits(0)]);
            }
        }
    }
    let length = u32::try_from(bytes.len()).expect("short").to_be_bytes();
    [&length[..], &bytes].concat()
}

/// Returns the name that a field has in Java, without capitals.
fn java_name(path: &str) -> String {
    let (record, name) = path.rsplit_once('.').expect("a record and a field");
    match name {
        _ if name.ends_with(']') => "e1".to_owned(),
        "mode" if record.contains("Create") => "flags".to_owned(),
        "opcode" | "watcher_type" | "event_type" | "auth_type" => "type".to_owned(),
        "password" => "passwd".to_owned(),
        _ => name.replace('_', ""),
    }
}

/// What Java finds: the number of bytes behind the record and its fields, or an exception.
fn java(line: &str) -> Result<(usize, Fields), String> {
    let Some(rest) = line.strip_prefix("ok ") else { return Err(line.to_owned()) };
    let mut words = rest.split(' ');
    let left = words.next().and_then(|count| count.parse().ok()).expect("a count");
    let field = |word: &str| {
        let (name, bytes) = word.split_once('=').expect("a field");
        (name.to_ascii_lowercase(), bytes.to_owned())
    };
    Ok((left, words.map(field).collect()))
}

/// Replaces each header of an item by one field. Java does not keep the rest of it.
fn without_headers(fields: &[(String, String)], is_request: bool) -> Fields {
    let (mut out, mut rest) = (Fields::new(), fields);
    while let [(name, value), behind @ ..] = rest {
        rest = behind;
        if name != "type" {
            out.push((name.clone(), value.clone()));
            continue;
        }
        // An error may have cut the header off.
        let [(_, done), (_, _), behind @ ..] = behind else { break };
        rest = behind;
        let kind = match &value[..] {
            _ if done == "01" => "end",
            // In a request, the mode determines the kind of create.
            "00000001" | "0000000f" | "00000013" | "00000015" if is_request => "create",
            kind => kind,
        };
        out.push(("item".to_owned(), kind.to_owned()));
    }
    out
}

/// Returns the class of the difference between both, if there is one, or what is not documented.
fn compare(message: &Message, line: &str) -> Result<Option<&'static str>, String> {
    let (Ours { fields, error, has_surrogates }, java) = (ours(message), java(line));
    let is_multi = matches!(
        message.what,
        What::Request(OpCode::MULTI | OpCode::MULTI_READ)
            | What::Reply(OpCode::MULTI | OpCode::MULTI_READ)
    );
    // ClickHouse Keeper sends no body then. ZooKeeper has errors only with the operation -1.
    let has_failed = fields.windows(3).any(|header| {
        matches!(header, [(name, kind), (_, done), (_, err)]
            if name == "type" && kind != "ffffffff" && done == "00" && err != "00000000")
    });
    if has_failed && matches!(message.what, What::Reply(OpCode::MULTI | OpCode::MULTI_READ)) {
        return Ok(Some(FAILED_PART));
    }
    let is_handshake = matches!(message.what, What::ConnectRequest | What::ConnectResponse);
    let has_flag =
        |fields: &[(String, String)]| fields.last().is_some_and(|(name, _)| name == "readonly");
    let normal = |fields: &[(String, String)]| match is_multi {
        true => without_headers(fields, message.what.is_multi_request()),
        false => fields.to_vec(),
    };
    let (mut fields, theirs) = (normal(&fields), java.map(|(left, them)| (left, normal(&them))));
    let creates = message.what.is_multi_request()
        && fields.iter().any(|(name, kind)| name == "item" && kind == "create");
    let (left, mut theirs) = match (theirs, error) {
        (Err(_), Some(_)) => return Ok(None),
        (Err(_), None) if creates => return Ok(Some(MULTI_CREATE)),
        (Err(_), None) if is_handshake && !has_flag(&fields) => return Ok(Some(NO_FLAG)),
        (Err(theirs), None) => return Err(theirs),
        (Ok(theirs), _) => theirs,
    };
    // Before 3.9, its record has no such field: servers and clients read it behind the record.
    let has_flag = has_flag(&fields) && !has_flag(&theirs);
    fields.truncate(fields.len() - usize::from(has_flag));
    let mut class = has_surrogates.then_some(SURROGATES);
    // Java drops the time to live of a mode without one, and watches.
    for (name, difference) in [("ttl", MULTI_CREATE), ("watch", MULTI_WATCH)] {
        if message.what.is_multi_request() && !theirs.starts_with(&fields) {
            fields.retain(|(field, _)| field != name);
            theirs.retain(|(field, _)| field != name);
            class = Some(difference);
        }
    }
    let is_prefix = theirs.starts_with(&fields);
    match error {
        None if fields == theirs && left == usize::from(has_flag) => Ok(class),
        Some(DecodeErrorKind::TrailingBytes(count))
            if fields == theirs && left == count as usize + usize::from(has_flag) =>
        {
            Ok(Some(TRAILING))
        }
        Some(DecodeErrorKind::InvalidUtf8) if is_prefix => Ok(Some(UTF8)),
        Some(DecodeErrorKind::UnexpectedNull) if is_prefix => Ok(Some(NULL)),
        Some(DecodeErrorKind::NegativeLength(..=-2)) if is_prefix => Ok(Some(COUNT)),
        Some(DecodeErrorKind::UnknownOperation(_)) if is_prefix && is_multi => Ok(Some(MULTI_KIND)),
        _ => Err(format!("{error:?}, {fields:?}")),
    }
}

// ---- The run -----------------------------------------------------------------------------------

/// Decodes all messages with Java, or says why that is impossible.
fn decode_with_java(messages: &[Message]) -> Result<Vec<String>, String> {
    let class_path = match env::var("ZK_CLASSPATH") {
        Ok(class_path) => class_path,
        Err(_) if Path::new(JAR).exists() => JAR.to_owned(),
        Err(_) => return Err(format!("{JAR} does not exist, and ZK_CLASSPATH is not set")),
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java_records/Decode.java");
    let mut child = Command::new("java")
        .args(["-cp", &class_path])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`java` does not run: {error}"))?;
    let (mut input, output) = (child.stdin.take().expect("piped"), child.stdout.take());
    let mut bytes = Vec::new();
    for Message { what, body } in messages {
        let class = what.class().expect("messages have records");
        bytes.extend(u16::try_from(class.len()).expect("short").to_be_bytes());
        bytes.extend(class.as_bytes());
        bytes.extend(u32::try_from(body.len()).expect("short").to_be_bytes());
        bytes.extend(body);
    }
    // If Java fails, lines are missing below.
    let writing = thread::spawn(move || input.write_all(&bytes));
    let lines = BufReader::new(output.expect("piped")).lines();
    let lines: Vec<_> = lines.map(|line| line.expect("text")).collect();
    let _ = writing.join();
    assert!(child.wait().expect("it ends").success());
    assert_eq!(lines.len(), messages.len());
    Ok(lines)
}

#[test]
fn java_reads_the_same_fields_of_the_same_messages() {
    let count = env::var("ZK_RECORDS").ok().map(|count| count.parse().expect("a number"));
    let recorded = recorded();
    let mut runner = TestRunner::deterministic();
    let source = prop_oneof![select(recorded.clone()), generated()];
    let strategy = (source, changes());
    let mut messages = recorded;
    messages.resize_with(count.unwrap_or(20_000).max(messages.len()), || {
        let (message, changes) = strategy.new_tree(&mut runner).expect("few filters").current();
        Message { body: changed(message.body, &changes), ..message }
    });
    // This crate takes 16 bytes for a refusal, which has another record.
    let is_refusal = |it: &Message| it.what == What::ConnectResponse && it.body.len() == 16;
    // Nor has ZooKeeper a record for ClickHouse Keeper's handshakes.
    let is_dialect = |it: &Message| {
        it.what == What::ConnectRequest && matches!(it.body[..], [0, 0, 0, 11 | 12, ..])
    };
    messages.retain(|message| !is_refusal(message) && !is_dialect(message));

    let lines = match decode_with_java(&messages) {
        Ok(lines) => lines,
        Err(reason) => {
            let is_required = env::var("ZK_REAL").is_ok_and(|wish| wish == "require");
            assert!(!is_required, "ZK_REAL=require, but {reason}");
            return skip(reason);
        }
    };
    let (mut classes, mut undocumented) = (BTreeMap::<_, usize>::new(), Vec::new());
    let [mut both_accept, mut both_refuse] = [0, 0];
    for (message, line) in messages.iter().zip(&lines) {
        match compare(message, line) {
            Ok(None) if line.starts_with("ok ") => both_accept += 1,
            Ok(None) => both_refuse += 1,
            Ok(Some(class)) => *classes.entry(class).or_default() += 1,
            Err(ours) => undocumented.push(format!("{message:?}\n  Java: {line}\n  ours: {ours}")),
        }
    }
    println!("{} messages: both accept {both_accept}, both refuse {both_refuse}", messages.len());
    for (class, count) in &classes {
        println!("{count:>7}  {class}");
    }
    let some = undocumented.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(undocumented.is_empty(), "{} are not documented:\n{some}", undocumented.len());
    classes.remove(NO_FLAG);
    assert!(classes.keys().eq(CLASSES.iter().collect::<std::collections::BTreeSet<_>>()));
    assert!(both_accept > messages.len() / 5 && both_refuse > messages.len() / 20);
}
