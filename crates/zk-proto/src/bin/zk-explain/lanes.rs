//! Connections as a sequence diagram.
//!
//! One connection is drawn as its client and its server. Several are drawn as one lane each: a row
//! is a request with its result, and an arrow leads from the client that changed a node to the
//! client whose watch fired.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use zk_proto::conversation::{Direction, Kind};
use zk_proto::diagram::{Activity, Diagram, Style};
use zk_proto::{EncodeMultiItem as _, ErrorCode, EventType, OpCode, Request, Response, path};

use crate::show;
use crate::tracker::Seen;

/// The rows that are drawn. A longer picture would be of no use.
const ROWS: usize = 2000;
/// The characters of a label, enough for the creation of a lock node.
const LETTERS: usize = 100;
/// The changes that are remembered as causes of events.
const CAUSES: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    names: Vec<String>,
    rows: Vec<Row>,
    left_out: usize,
    /// The row of each request that has no reply yet.
    open: HashMap<(usize, u64), usize>,
    /// Who last did what an event reports.
    causes: HashMap<(EventType, String), usize>,
    ephemerals: HashMap<usize, BTreeSet<String>>,
    /// The paths of requests for ephemeral nodes that have no reply yet.
    creating: HashMap<(usize, u64), bool>,
}

#[derive(Debug)]
struct Row {
    connection: usize,
    time: Option<Duration>,
    kind: RowKind,
    text: String,
    result: String,
    is_error: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKind {
    Request,
    Reply {
        /// Whether the row of the request has the result as well.
        is_joined: bool,
    },
    Event {
        cause: Option<usize>,
    },
    Closed,
}

impl Lanes {
    pub(crate) fn open(&mut self, _connection: usize, name: &str) {
        self.names.push(name.to_owned());
    }

    pub(crate) fn close(&mut self, connection: usize) {
        self.push(connection, None, RowKind::Closed, String::new());
    }

    fn push(&mut self, connection: usize, time: Option<Duration>, kind: RowKind, text: String) {
        if self.rows.len() == ROWS {
            self.left_out += 1;
            return;
        }
        let row = Row { connection, time, kind, text, result: String::new(), is_error: false };
        self.rows.push(row);
    }

    /// Remembers who changes what, also of messages that are not drawn.
    pub(crate) fn note_cause(&mut self, seen: &Seen<'_>) {
        let connection = seen.connection;
        if self.causes.len() + self.creating.len() > CAUSES {
            self.causes.clear();
            self.creating.clear();
        }
        match seen.message.kind {
            _ if seen.missing > 0 => {}
            Kind::Request(_) => {
                let Some(Ok(request)) = seen.message.request() else { return };
                match &request {
                    Request::Create(body) | Request::Create2(body) => {
                        let request = (connection, seen.message.number);
                        self.creating.insert(request, body.mode.is_ephemeral());
                    }
                    Request::Multi(multi) => {
                        multi
                            .iter()
                            .for_each(|op| self.change(connection, op.header().opcode, op.path()));
                    }
                    Request::CloseSession(()) => {
                        for path in self.ephemerals.remove(&connection).unwrap_or_default() {
                            self.change(connection, OpCode::DELETE, &path);
                        }
                    }
                    _ => {}
                }
                if let Some(path) = request.path() {
                    self.change(connection, request.opcode(), path);
                }
            }
            Kind::Reply { request, .. } => {
                let Some(created) = seen.created() else { return };
                self.change(connection, OpCode::CREATE, created);
                if self.creating.remove(&(connection, request)) == Some(true) {
                    let paths = self.ephemerals.entry(connection).or_default();
                    if paths.len() < CAUSES {
                        paths.insert(created.to_owned());
                    }
                }
            }
            _ => {}
        }
    }

    /// Remembers who causes the events of an operation.
    fn change(&mut self, connection: usize, operation: OpCode, path: &str) {
        let event = match operation {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                EventType::NODE_CREATED
            }
            OpCode::DELETE => EventType::NODE_DELETED,
            OpCode::SET_DATA => EventType::NODE_DATA_CHANGED,
            _ => return,
        };
        self.causes.insert((event, path.to_owned()), connection);
        if event != EventType::NODE_DATA_CHANGED {
            let parent = path::parent(path).unwrap_or("/").to_owned();
            self.causes.insert((EventType::NODE_CHILDREN_CHANGED, parent), connection);
        }
    }

    /// Adds a message to the picture. Pings are left out.
    pub(crate) fn add(&mut self, seen: &Seen<'_>) {
        let (connection, message) = (seen.connection, &seen.message);
        if seen.opcode == Some(OpCode::PING) {
            return;
        }
        let (kind, text) = match message.kind {
            Kind::Request(header) => {
                let paths: Vec<_> = seen.paths.iter().map(|path| short(path)).collect();
                let text = format!("{} {}", header.opcode, paths.join(" "));
                let sets_watch =
                    message.request().is_some_and(|it| it.is_ok_and(|it| is_watch(&it)));
                (
                    RowKind::Request,
                    text.trim_end().to_owned() + if sets_watch { " + watch" } else { "" },
                )
            }
            Kind::Notification(_) => {
                let Some(Ok(event)) = message.event() else { return };
                let cause = self.causes.get(&(event.event_type, event.path.to_owned())).copied();
                (RowKind::Event { cause }, format!("{} {}", event.event_type, short(event.path)))
            }
            Kind::ConnectRequest => (RowKind::Request, "connect".to_owned()),
            Kind::ConnectResponse => {
                (RowKind::Reply { is_joined: false }, show::answer(message).to_owned())
            }
            Kind::Reply { request, .. } => {
                let result = result(seen);
                let place = self.open.remove(&(connection, request));
                let row = place.and_then(|place| self.rows.get_mut(place));
                let is_joined = row.is_some();
                if let Some(row) = row {
                    row.is_error = seen.is_error();
                    row.result.clone_from(&result);
                    if let Some(latency) = seen.latency {
                        row.result += &format!(" ({})", show::clock(latency));
                    }
                }
                let opcode = seen.opcode.map_or(String::new(), |opcode| opcode.to_string());
                (RowKind::Reply { is_joined }, opcode + &result)
            }
            _ if message.direction == Direction::ToServer => {
                (RowKind::Request, show::what(seen, false))
            }
            _ => (RowKind::Reply { is_joined: false }, show::what(seen, false)),
        };
        self.push(connection, seen.time, kind, text);
        if self.left_out > 0 {
            return;
        }
        if let Some(row) = self.rows.last_mut() {
            row.is_error = seen.is_error();
            if message.direction == Direction::ToServer {
                self.open.insert((connection, message.number), self.rows.len() - 1);
            }
        }
    }

    pub(crate) fn diagram(&self) -> Diagram {
        let mut diagram = Diagram::new("");
        diagram.set_label_limit(LETTERS);
        if let [_] = &self.names[..] {
            self.draw_one(&mut diagram);
        } else {
            self.draw_several(&mut diagram);
        }
        diagram
    }

    fn draw_one(&self, diagram: &mut Diagram) {
        let [client, server] = ["client", "server"].map(|name| diagram.lane(name));
        for row in &self.rows {
            let (from, to, style) = match row.kind {
                RowKind::Request => (client, server, Style::Plain),
                RowKind::Reply { .. } if row.is_error => (server, client, Style::Error),
                RowKind::Reply { .. } => (server, client, Style::Reply),
                RowKind::Event { .. } => (server, client, Style::Event),
                RowKind::Closed => continue,
            };
            diagram.message(row.time, from, to, style, &row.text);
        }
        self.note_left_out(diagram, client);
    }

    fn draw_several(&self, diagram: &mut Diagram) {
        let lanes: Vec<_> = self.names.iter().map(|name| diagram.lane(name)).collect();
        for lane in &lanes {
            diagram.activity(*lane, Activity::Absent);
        }
        for row in &self.rows {
            let lane = lanes[row.connection - 1];
            diagram.activity(lane, Activity::Idle);
            let style = if row.is_error { Style::Error } else { Style::Plain };
            let text = row.text.clone() + &row.result;
            match row.kind {
                RowKind::Reply { is_joined: true } => {}
                RowKind::Request | RowKind::Reply { .. } => {
                    diagram.note(row.time, lane, style, &text);
                }
                RowKind::Event { cause: Some(cause) } => {
                    diagram.message(row.time, lanes[cause - 1], lane, Style::Event, &text);
                }
                RowKind::Event { cause: None } => diagram.note(row.time, lane, Style::Event, &text),
                RowKind::Closed => diagram.activity(lane, Activity::Absent),
            }
        }
        if let Some(lane) = lanes.first() {
            self.note_left_out(diagram, *lane);
        }
    }

    fn note_left_out(&self, diagram: &mut Diagram, lane: zk_proto::diagram::Lane) {
        if self.left_out > 0 {
            diagram.note(None, lane, Style::Plain, &format!("{} more", self.left_out));
        }
    }
}

fn is_watch(request: &Request<'_>) -> bool {
    match request {
        Request::Exists(body) => body.watch,
        Request::GetData(body) => body.watch,
        Request::GetChildren(body) | Request::GetChildren2(body) => body.watch,
        _ => false,
    }
}

/// Returns the outcome of a request, if it is not just success.
fn result(seen: &Seen<'_>) -> String {
    let Some(header) = seen.message.reply_header() else { return String::new() };
    if header.err != ErrorCode::OK {
        return format!(": {}", header.err);
    }
    // What a server adds to a path, such as a sequence number.
    let added = |path: &str| {
        let asked = seen.paths.first().map_or("", String::as_str);
        match path.strip_prefix(asked) {
            Some("") => String::new(),
            Some(number) => format!(" = …{number}"),
            None => format!(" = {}", short(path)),
        }
    };
    if let Some(created) = seen.created() {
        return added(created);
    }
    match seen.message.response() {
        Some(Ok(Response::GetChildren(body))) => format!(" = {} children", body.children.len()),
        Some(Ok(Response::GetChildren2(body))) => format!(" = {} children", body.children.len()),
        Some(Ok(Response::Multi(multi))) => match multi.failure() {
            Some((place, error)) => format!(": {error} of operation {place}"),
            None => String::new(),
        },
        _ => String::new(),
    }
}

/// Shortens the ids of 32 hexadecimal digits, with or without dashes, that recipes put into names.
fn short(path: &str) -> String {
    let (mut out, mut rest) = (String::new(), path);
    while let Some(first) = rest.chars().next() {
        let run = rest.char_indices().take(36);
        let run = run.take_while(|(_, c)| c.is_ascii_hexdigit() || *c == '-');
        let digits = run.filter(|(_, c)| *c != '-').nth(31);
        match digits {
            Some((end, _)) if first != '-' => {
                out += &rest[..4];
                out.push('…');
                rest = &rest[end + 1..];
            }
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}
