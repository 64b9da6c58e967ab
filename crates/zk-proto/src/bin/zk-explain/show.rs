//! Messages as text: every byte, one line, or one JSON object.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value, json};
use zk_proto::conversation::{Direction, Kind, Message};
use zk_proto::explain::Field;
use zk_proto::{ConnectResponse, Decode as _, ErrorCode, RequestHeader, Xid, Zxid, keeper};

use crate::tracker::Seen;

const BYTES_PER_ROW: usize = 8;
const ROWS: usize = 4;
const LETTERS: usize = 80;
/// Of a line for a message, a value is short.
const LETTERS_IN_LINE: usize = 64;
/// What cannot be read behind a handshake.
const OPAQUE: &str = "an unknown dialect";

// ---- Every byte --------------------------------------------------------------------------------

/// Returns a title, and one or more lines for each field. It shortens long fields unless `full`.
pub(crate) fn dump(seen: &Seen<'_>, full: bool) -> String {
    let mut out = title(seen) + "\n";
    let bytes = seen.bytes();
    if seen.message.explained_as().is_none() {
        let (wire_type, text) = match seen.message.kind {
            Kind::Opaque => ("bytes", String::new()),
            _ => ("text", cut(text(bytes), LETTERS, full)),
        };
        rows(&mut out, bytes, 0..bytes.len(), full, wire_type, &text);
        return out;
    }
    let mut shown = 0;
    let explained = seen.explain(&mut |field| {
        let value = cut(field.value.to_string(), LETTERS, full);
        let text = format!("{} = {value}{}", field.path, meaning(field, bytes));
        rows(&mut out, bytes, field.range.clone(), full, field.wire_type, &text);
        shown = field.range.end;
    });
    if let Err(error) = explained {
        rows(&mut out, bytes, shown..bytes.len(), full, "?", &error);
    }
    out
}

fn title(seen: &Seen<'_>) -> String {
    let message = &seen.message;
    let xid = xid(seen).unwrap_or_default();
    let name = match message.kind {
        Kind::ConnectRequest | Kind::ConnectResponse | Kind::Refusal(_) => "handshake".to_owned(),
        Kind::Request(header) => format!("{}, xid {xid}", header.opcode),
        Kind::Reply { header, opcode, .. } => {
            format!("reply to {opcode}, xid {xid}, {}", header.err)
        }
        Kind::UnmatchedReply(header) => match seen.opcode {
            Some(opcode) => format!("reply to {opcode}, xid {xid}, {}", header.err),
            None => format!("reply, xid {xid}, {}", header.err),
        },
        Kind::Notification(_) => "notification".to_owned(),
        Kind::Word(word) => format!("four-letter word {}", word.escape_ascii()),
        Kind::Text => "text".to_owned(),
        Kind::Opaque => OPAQUE.to_owned(),
        _ => "not a message".to_owned(),
    };
    let mut title = format!(
        "{} {}: {name} ({} bytes at {})",
        arrow(message.direction),
        message.number,
        message.bytes.len(),
        message.offset
    );
    if let Some(time) = seen.time {
        let _ = write!(title, ", at {}", clock(time));
    }
    let _ = write!(title, "{}", timing(seen));
    if !seen.name.is_empty() {
        title = format!("{}: {title}", printable(seen.name));
    }
    let style = style(seen).bold();
    format!("{style}{title}{style:#}")
}

/// Prints the bytes of a field in rows, with its description in the first row.
fn rows(
    out: &mut String,
    frame: &[u8],
    range: Range<usize>,
    full: bool,
    wire_type: &str,
    text: &str,
) {
    let shown = if full { range.len() } else { range.len().min(ROWS * BYTES_PER_ROW) };
    let bytes = &frame[range.start..range.start + shown];
    let mut label = format!("  {wire_type:<7}  {text}");
    // At least one row, for an error at the end.
    for row in 0..bytes.len().div_ceil(BYTES_PER_ROW).max(1) {
        let start = row * BYTES_PER_ROW;
        let bytes = &bytes[start..bytes.len().min(start + BYTES_PER_ROW)];
        let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("{:6}  {:<23}{label}", range.start + start, hex.join(" "));
        label.clear();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    if shown < range.len() {
        let _ = writeln!(out, "        ... {} bytes more", range.len() - shown);
    }
}

// ---- One line ----------------------------------------------------------------------------------

/// Returns the message as one line, with its time, its fields, and the latency of a reply.
pub(crate) fn line(seen: &Seen<'_>, date: Option<SystemTime>, full: bool) -> String {
    let message = &seen.message;
    let mut line = String::new();
    if let Some(date) = date {
        let _ = write!(line, "{} ", humantime::format_rfc3339_micros(date));
    }
    if let Some(time) = seen.time {
        let _ = write!(line, "{:>12}  ", clock(time));
    }
    if !seen.name.is_empty() {
        let _ = write!(line, "{}  ", printable(seen.name));
    }
    let xid = match message.kind {
        Kind::Request(RequestHeader { xid: Xid::PING, .. }) | Kind::Notification(_) => None,
        _ if message.reply_header().is_some_and(|header| header.xid == Xid::PING) => None,
        _ => xid(seen),
    };
    let xid = xid.unwrap_or_default();
    let what = what(seen, full);
    let style = style(seen);
    let _ = write!(line, "{} ", arrow(message.direction));
    if !seen.server.is_empty() {
        let _ = write!(line, " {} ", printable(seen.server));
    }
    let _ = write!(line, "{xid:>6}  {style}{what}{style:#}");
    line + &timing(seen)
}

/// Returns the xid of a message, by its name if it has one.
fn xid(seen: &Seen<'_>) -> Option<String> {
    let xid = seen.message.xid()?;
    Some(i32::try_from(xid).map_or_else(|_| xid.to_string(), |xid| Xid(xid).to_string()))
}

/// Returns what a message says, without its xid and its time.
pub(crate) fn what(seen: &Seen<'_>, full: bool) -> String {
    let message = &seen.message;
    let mut what = match message.kind {
        Kind::ConnectRequest => "connect".to_owned(),
        Kind::ConnectResponse => answer(message).to_owned(),
        Kind::Refusal(header) => format!("refused: {}", header.err),
        Kind::Request(header) => header.opcode.to_string(),
        Kind::Notification(_) => "event".to_owned(),
        Kind::Word(_) => "word".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Opaque => return format!("{OPAQUE}, {} bytes", message.bytes.len()),
        _ => match (seen.opcode, message.reply_header()) {
            (opcode, Some(header)) => {
                let opcode = opcode.map_or("reply".to_owned(), |opcode| opcode.to_string());
                match header.err {
                    ErrorCode::OK => opcode,
                    err => format!("{opcode} {err}"),
                }
            }
            _ => "not a message".to_owned(),
        },
    };
    if message.explained_as().is_none() {
        return what + " " + &cut(text(message.bytes), LETTERS_IN_LINE, full);
    }
    let explained = seen.explain(&mut |field| {
        let path = field.path.to_string();
        let (record, name) = path.split_once('.').unwrap_or(("", &path));
        match (record, name) {
            ("Frame", "length") | ("RequestHeader", _) | ("ReplyHeader", "xid" | "err") => return,
            (_, "protocol_version") if field.value.to_string() == "0" => return,
            (_, "password" | "auth_type" | "context") => return,
            (_, "is_traced") if field.value.to_string() == "false" => return,
            _ => {}
        }
        if !full && (name.contains("acl[") || name.starts_with("stat.") && !is_short(name)) {
            return;
        }
        let is_header = record.ends_with("MultiHeader");
        if is_header && (name == "err" || name == "done") {
            return;
        }
        // The header behind the last operation has no operation: `done` follows.
        if is_header && message.bytes.get(field.range.end) == Some(&1) {
            return;
        }
        let value = match zxid(field, message.bytes) {
            Some(zxid) => format!("{:#x}/{}", zxid.epoch(), zxid.counter()),
            None => cut(field.value.to_string(), LETTERS_IN_LINE, full),
        };
        let _ = match name {
            "path" | "event_type" => write!(what, " {value}"),
            "opcode" if is_header => write!(what, "; {value}"),
            "state" => Ok(()),
            _ => write!(what, " {}={value}", name.trim_start_matches("stat.")),
        };
    });
    if let Err(error) = explained {
        let _ = write!(what, " ! {error}");
    }
    what
}

/// The fields of a stat that a line has room for.
fn is_short(name: &str) -> bool {
    matches!(name, "stat.version" | "stat.czxid" | "stat.num_children")
}

// ---- JSON --------------------------------------------------------------------------------------

/// Returns the message as a JSON object, on one line.
///
/// Bytes are hexadecimal. Numbers of 64 bits are decimal strings, because many readers of JSON keep
/// only 53 bits.
pub(crate) fn json(seen: &Seen<'_>, date: Option<SystemTime>) -> String {
    let message = &seen.message;
    let direction = match message.direction {
        Direction::ToServer => "to_server",
        Direction::ToClient => "to_client",
    };
    let kind = match message.kind {
        Kind::ConnectRequest => "connect_request",
        Kind::ConnectResponse => "connect_response",
        Kind::Refusal(_) => "refusal",
        Kind::Request(_) => "request",
        Kind::Reply { .. } => "reply",
        Kind::UnmatchedReply(_) => "unmatched_reply",
        Kind::Notification(_) => "notification",
        Kind::Word(_) => "word",
        Kind::Text => "text",
        Kind::Opaque => "opaque",
        _ => "unreadable",
    };
    let answers = match message.kind {
        Kind::Reply { request, .. } => Some(request),
        _ => None,
    };
    let mut fields = Map::new();
    let explained = seen.explain(&mut |field| {
        fields.insert(field.path.to_string(), value(field, message.bytes));
    });
    let object = [
        ("connection", json!(Some(seen.name).filter(|name| !name.is_empty()))),
        ("server", json!(Some(seen.server).filter(|server| !server.is_empty()))),
        ("direction", json!(direction)),
        ("number", json!(message.number)),
        ("offset", json!(message.offset)),
        ("time_us", json!(seen.time.map(|time| time.as_micros() as u64))),
        ("time", json!(date.map(|date| humantime::format_rfc3339_micros(date).to_string()))),
        ("message", json!(kind)),
        ("operation", json!(seen.opcode.map(|opcode| opcode.to_string()))),
        ("answers", json!(answers)),
        ("error", json!(message.reply_header().map(|header| header.err.to_string()))),
        ("latency_us", json!(seen.latency.map(|latency| latency.as_micros() as u64))),
        ("fields", Value::Object(fields)),
        ("missing", json!(Some(seen.missing).filter(|missing| *missing > 0))),
        ("malformed", json!(explained.err())),
        ("hex", Value::String(hex(seen.bytes()))),
    ];
    let known = object.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(known.map(|(name, value)| (name.to_owned(), value)).collect()).to_string()
}

/// Returns the value of a field as it is on the wire.
fn value(field: &Field<'_>, frame: &[u8]) -> Value {
    let bytes = &frame[field.range.clone()];
    let int = bytes.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
    match field.wire_type {
        "int" => json!(int),
        "long" => {
            let long = bytes.first_chunk().map(|bytes| i64::from_be_bytes(*bytes));
            json!(long.unwrap_or_default().to_string())
        }
        "boolean" => json!(bytes != [0]),
        "byte" => json!(bytes.first()),
        "vector" => json!(int.filter(|count| *count >= 0)),
        "ustring" if int != Some(-1) => {
            json!(String::from_utf8_lossy(bytes.get(4..).unwrap_or_default()))
        }
        "buffer" if int != Some(-1) => json!(hex(bytes.get(4..).unwrap_or_default())),
        "bytes" => json!(hex(bytes)),
        _ => Value::Null,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// ---- Values ------------------------------------------------------------------------------------

/// Returns what a number says to people: the parts of a zxid, or a date.
fn meaning(field: &Field<'_>, frame: &[u8]) -> String {
    if let Some(zxid) = zxid(field, frame) {
        return format!(" (epoch {}, counter {})", zxid.epoch(), zxid.counter());
    }
    let name = field.path.to_string();
    let is_date = name.ends_with(".ctime") || name.ends_with(".mtime");
    let date = long(field, frame)
        .filter(|_| is_date)
        .and_then(|milliseconds| date(Duration::from_millis(u64::try_from(milliseconds).ok()?)));
    match date {
        Some(date) => format!(" ({})", humantime::format_rfc3339_millis(date)),
        None => String::new(),
    }
}

/// Returns the time so long after 1970, if its year has four digits. Others cannot be formatted.
pub(crate) fn date(since: Duration) -> Option<SystemTime> {
    (since.as_secs() < 250_000_000_000).then(|| UNIX_EPOCH.checked_add(since))?
}

/// Returns the zxid in a field, unless it is a reserved value.
fn zxid(field: &Field<'_>, frame: &[u8]) -> Option<Zxid> {
    let name = field.path.to_string();
    let is_zxid = name.ends_with("zxid") || name.ends_with(".last_zxid_seen");
    long(field, frame).filter(|zxid| is_zxid && *zxid > 0).map(Zxid)
}

fn long(field: &Field<'_>, frame: &[u8]) -> Option<i64> {
    let bytes = frame.get(field.range.clone())?.try_into().ok()?;
    (field.wire_type == "long").then(|| i64::from_be_bytes(bytes))
}

/// Returns the latency of a reply, and the requests in flight when a request was sent.
fn timing(seen: &Seen<'_>) -> String {
    if let Some(latency) = seen.latency {
        return format!(", after {}", clock(latency));
    }
    match (seen.message.kind, seen.in_flight) {
        (Kind::Request(_), 1..) if seen.time.is_some() => {
            format!(", behind {} in flight", seen.in_flight)
        }
        _ => String::new(),
    }
}

/// Returns milliseconds with three digits, or seconds from the hundredth on.
pub(crate) fn clock(time: Duration) -> String {
    match time.as_secs() {
        0..100 => format!("{}.{:03} ms", time.as_millis(), time.subsec_micros() % 1000),
        seconds => format!("{seconds}.{:03} s", time.subsec_millis()),
    }
}

/// Returns what the answer to a handshake says. ClickHouse Keeper has a version that refuses.
pub(crate) fn answer(message: &Message<'_>) -> &'static str {
    match ConnectResponse::decode_all(message.payload()) {
        Ok(ConnectResponse { protocol_version: keeper::REJECTED, .. }) => "rejected",
        _ => "connected",
    }
}

fn style(seen: &Seen<'_>) -> Style {
    let colour = match seen.message.kind {
        _ if seen.is_error() => AnsiColor::Red,
        Kind::Unreadable => AnsiColor::Red,
        Kind::Notification(_) => AnsiColor::Cyan,
        _ => return Style::new(),
    };
    colour.on_default()
}

fn arrow(direction: Direction) -> char {
    match direction {
        Direction::ToServer => '>',
        Direction::ToClient => '<',
    }
}

fn text(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

/// Escapes what a terminal would obey.
pub(crate) fn printable(name: &str) -> String {
    name.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

fn cut(text: String, letters: usize, full: bool) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) if !full => format!("{}...", &text[..end]),
        _ => text,
    }
}
