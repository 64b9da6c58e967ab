//! One line for each message, for pictures.

use alloc::format;
use alloc::string::{String, ToString};

use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, List, MultiOp, MultiResult, OpCode, Reader,
    ReplyHeader, Request, RequestHeader, Response, Stat, WatcherEvent, Xid,
};

use zk_proto::diagram::Style;
use zk_proto::explain::MessageKind;

/// The longest list that a label shows.
const ITEMS: usize = 4;

/// Returns the label of a frame's payload, and its style.
pub fn of(payload: &[u8], kind: MessageKind) -> (Style, String) {
    match kind {
        MessageKind::ConnectRequest => (Style::Plain, handshake(payload)),
        MessageKind::ConnectResponse => granted(payload),
        MessageKind::Request => (Style::Plain, request(payload)),
        MessageKind::Reply(opcode) => reply(payload, Some(opcode)),
        _ => reply(payload, None),
    }
}

fn handshake(payload: &[u8]) -> String {
    let Ok(request) = ConnectRequest::decode_all(payload) else { return "?".to_owned() };
    let session = match request.session_id.0 {
        0 => "new session".to_owned(),
        id => format!("session {id:#x}"),
    };
    format!("handshake: {session}, last zxid {:#x}", request.last_zxid_seen.0)
}

fn granted(payload: &[u8]) -> (Style, String) {
    match ConnectResponse::decode_all(payload) {
        Ok(response) if response.is_expired() => (Style::Error, "session expired".to_owned()),
        Ok(response) => {
            let (id, timeout) = (response.session_id.0, response.timeout);
            (Style::Reply, format!("session {id:#x}, timeout {timeout} ms"))
        }
        Err(_) => reply(payload, None),
    }
}

fn request(payload: &[u8]) -> String {
    let mut reader = Reader::new(payload);
    let Ok(header) = RequestHeader::decode(&mut reader) else { return "?".to_owned() };
    let name = match header.xid {
        Xid(number) if number > 0 => format!("{number}: {}", header.opcode),
        _ => header.opcode.to_string(),
    };
    match Request::decode(header.opcode, reader.rest()) {
        Ok(request) => short(&format!("{name}{}", details(&request))),
        Err(_) => name,
    }
}

/// Returns what distinguishes a request from others of its operation.
fn details(request: &Request<'_>) -> String {
    let watch = |watch: bool| if watch { ", watch" } else { "" };
    match request {
        Request::Create(body) | Request::Create2(body) => format!(" {} {}", body.path, body.mode),
        Request::CreateTtl(body) => format!(" {} {} ms", body.path, body.ttl),
        Request::Delete(body) => format!(" {}", body.path),
        Request::SetData(body) => {
            format!(" {} = {}, version {}", body.path, text(body.data), body.version)
        }
        Request::Exists(body) => format!(" {}{}", body.path, watch(body.watch)),
        Request::GetData(body) => format!(" {}{}", body.path, watch(body.watch)),
        Request::GetChildren(body) | Request::GetChildren2(body) => {
            format!(" {}{}", body.path, watch(body.watch))
        }
        Request::AddWatch(body) => format!(" {} {}", body.path, body.mode),
        Request::Auth(body) => format!(" {} {}", body.scheme, text(body.auth)),
        Request::SetWatches(body) => {
            let lists = [&body.data_watches, &body.exist_watches, &body.child_watches];
            let paths: Vec<_> = lists.into_iter().flat_map(|paths| paths.iter()).collect();
            format!(" since {:#x}: {}", body.relative_zxid.0, list(&List::new(&paths)))
        }
        Request::Multi(multi) => {
            let ops = multi.iter().map(|op| match op {
                MultiOp::Create(body) => format!("create {}", body.path),
                MultiOp::Delete(body) => format!("delete {}", body.path),
                MultiOp::SetData(body) => format!("set {}", body.path),
                MultiOp::Check(body) => format!("check {} v{}", body.path, body.version),
                _ => "…".to_owned(),
            });
            format!(" [{}]", ops.collect::<Vec<_>>().join(", "))
        }
        Request::Sasl(body) => format!(" {} bytes", body.token.map_or(0, <[u8]>::len)),
        other => other.path().map_or_else(String::new, |path| format!(" {path}")),
    }
}

fn reply(payload: &[u8], opcode: Option<OpCode>) -> (Style, String) {
    let mut reader = Reader::new(payload);
    let Ok(header) = ReplyHeader::decode(&mut reader) else {
        return (Style::Error, "?".to_owned());
    };
    if header.xid == Xid::NOTIFICATION {
        let event = WatcherEvent::decode_all(reader.rest());
        let label = event.map_or("?".to_owned(), |event| {
            short(&format!("event {} {}", event.event_type, event.path))
        });
        return (Style::Event, label);
    }
    let number = if header.xid.0 > 0 { format!("{}: ", header.xid) } else { String::new() };
    let zxid = format!("zxid {:#x}", header.zxid.0);
    if header.err != ErrorCode::OK {
        return (Style::Error, format!("{number}{}, {zxid}", header.err));
    }
    let body = opcode.and_then(|opcode| Response::decode(opcode, reader.rest()).ok());
    let body = body.map_or_else(String::new, |body| result(&body));
    (Style::Reply, short(&format!("{number}OK, {zxid}{body}")))
}

fn result(response: &Response<'_>) -> String {
    match response {
        Response::Create(body) => format!(", {}", body.path),
        Response::Create2(body) => format!(", {}", body.path),
        Response::GetData(body) => format!(", {}, version {}", text(body.data), body.stat.version),
        Response::SetData(body) => stat(&body.stat),
        Response::Exists(body) => stat(&body.stat),
        Response::GetChildren(body) => format!(", {}", list(&body.children)),
        Response::GetChildren2(body) => format!(", {}", list(&body.children)),
        Response::Multi(multi) => {
            let results = multi.iter().map(|result| match result {
                MultiResult::Error(error) => error.err.to_string(),
                _ => "done".to_owned(),
            });
            format!(", [{}]", results.collect::<Vec<_>>().join(", "))
        }
        _ => String::new(),
    }
}

fn stat(stat: &Stat) -> String {
    format!(", version {}, mzxid {:#x}", stat.version, stat.mzxid.0)
}

/// Returns text in quotes. Four bytes that begin with zero are a number, as that of permits.
fn text(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(&[0, a, b, c]) => u32::from_be_bytes([0, a, b, c]).to_string(),
        Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
    }
}

fn list(items: &List<'_, &str>) -> String {
    let mut shown: Vec<String> = items.iter().take(ITEMS).map(str::to_owned).collect();
    // Servers list children in no particular order, and a picture must not change.
    shown.sort_by_key(|name| name.get(name.len().saturating_sub(10)..).map(str::to_owned));
    if items.len() > ITEMS {
        shown.push(format!("{} more", items.len() - ITEMS));
    }
    format!("[{}]", shown.join(", "))
}

/// Replaces each GUID by its first four characters.
pub fn short(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("_c_") {
        out += before;
        out += "_c_";
        let is_guid = |guid: &str| guid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
        rest = match behind.get(..36).filter(|guid| is_guid(guid)) {
            Some(guid) => {
                out += &guid[..4];
                out.push('…');
                &behind[36..]
            }
            None => behind,
        };
    }
    out + rest
}
