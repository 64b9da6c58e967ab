//! Connections as a story for the page `docs/play`: messages with their fields, sessions with their
//! leases, and the nodes that go with a session.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zk_proto::conversation::{Direction, Kind};
use zk_proto::{ConnectResponse, Decode as _, OpCode, Reader, Request};

use crate::show;
use crate::tracker::Seen;

/// The messages that are played. More would be of no use.
const STEPS: usize = 2000;

#[derive(Debug, Default)]
pub(crate) struct Story {
    clients: Vec<(String, Client)>,
    servers: Vec<(String, i64)>,
    /// The client of each connection, and its server.
    connections: HashMap<usize, (usize, usize)>,
    nodes: Vec<Node>,
    /// The creations of such nodes that have no reply yet.
    creating: HashMap<(usize, u64), usize>,
    steps: Vec<Map<String, Value>>,
    last: Duration,
    left_out: usize,
}

#[derive(Debug, Default)]
struct Client {
    state: &'static str,
    server: Option<usize>,
    session: i64,
    timeout: Duration,
    lease: Option<Duration>,
}

/// An ephemeral node.
#[derive(Debug)]
struct Node {
    path: String,
    owner: usize,
    zxid: i64,
}

impl Story {
    /// Adds a message. Pings are left out, but their replies renew leases.
    pub(crate) fn add(&mut self, seen: &Seen<'_>) {
        let (client, server) = self.lanes(seen);
        let time = seen.time.unwrap_or(self.last);
        self.last = time;
        self.follow(seen, client, server, time);
        if seen.opcode == Some(OpCode::PING) {
            return;
        }
        let (client, server) = (format!("c{client}"), format!("s{server}"));
        let (from, to) = match seen.message.direction {
            Direction::ToServer => (client, server),
            Direction::ToClient => (server, client),
        };
        let style = match seen.message.kind {
            _ if seen.is_error() => "error",
            Kind::Notification(_) => "event",
            _ if seen.message.direction == Direction::ToClient => "reply",
            _ => "plain",
        };
        let mut fields = Vec::new();
        let _ = seen.explain(&mut |field| {
            let (path, value) = (field.path.to_string(), field.value.to_string());
            fields.push(json!([field.range.start, field.range.end, field.wire_type, path, value]));
        });
        self.step(json!({
            "at": milliseconds(time), "from": from, "to": to, "style": style,
            "label": show::what(seen, false), "bytes": show::hex(seen.bytes()), "fields": fields,
        }));
    }

    /// Ends a connection.
    pub(crate) fn close(&mut self, connection: usize) {
        let Some((client, _)) = self.connections.remove(&connection) else { return };
        let (_, state) = &mut self.clients[client];
        let has_closed = state.state == "closed";
        state.server = None;
        if !has_closed {
            state.state = "suspended";
            self.step(json!({
                "at": milliseconds(self.last), "lane": format!("c{client}"), "style": "error",
                "label": "has no connection",
            }));
        }
    }

    /// Returns the client and the server of a message.
    fn lanes(&mut self, seen: &Seen<'_>) -> (usize, usize) {
        let Self { clients, servers, .. } = self;
        *self.connections.entry(seen.connection).or_insert_with(|| {
            let client = clients.iter().position(|(name, _)| name == seen.name);
            let client = client.unwrap_or_else(|| {
                let state = Client { state: "connecting", ..Client::default() };
                clients.push((seen.name.to_owned(), state));
                clients.len() - 1
            });
            let server = servers.iter().position(|(name, _)| name == seen.server);
            let server = server.unwrap_or_else(|| {
                servers.push((seen.server.to_owned(), 0));
                servers.len() - 1
            });
            (client, server)
        })
    }

    /// Follows the session and its nodes.
    fn follow(&mut self, seen: &Seen<'_>, client: usize, server: usize, time: Duration) {
        let message = &seen.message;
        let (_, state) = &mut self.clients[client];
        if let Some(header) = message.reply_header() {
            let (_, zxid) = &mut self.servers[server];
            *zxid = header.zxid.0.max(*zxid);
            if let Some(latency) = seen.latency {
                state.lease = state.lease.max(Some(time - latency + lease(state.timeout)));
            }
        }
        match message.kind {
            Kind::ConnectResponse => {
                let response = ConnectResponse::decode(&mut Reader::new(message.payload()));
                let Ok(response) = response else { return };
                let is_new = state.session != response.session_id.0;
                state.session = response.session_id.0;
                state.timeout = Duration::from_millis(response.timeout.unsigned_abs().into());
                let sent_at = time - seen.latency.unwrap_or_default();
                state.lease = Some(sent_at + lease(state.timeout));
                (state.state, state.server) = ("connected", Some(server));
                if response.is_expired() {
                    (state.state, state.lease) = ("expired", None);
                }
                if is_new {
                    self.nodes.retain(|node| node.owner != client);
                }
            }
            Kind::Request(_) => match message.request() {
                Some(Ok(Request::Create(body) | Request::Create2(body)))
                    if body.mode.is_ephemeral() =>
                {
                    self.creating.insert((seen.connection, message.number), client);
                }
                Some(Ok(Request::Delete(body))) => {
                    self.nodes.retain(|node| node.path != body.path);
                }
                Some(Ok(Request::CloseSession(()))) => {
                    (state.state, state.lease) = ("closed", None);
                    self.nodes.retain(|node| node.owner != client);
                }
                _ => {}
            },
            Kind::Reply { request, header, .. } => {
                let is_node = self.creating.remove(&(seen.connection, request));
                if let (Some(owner), Some(path)) = (is_node, seen.created()) {
                    self.nodes.push(Node { path: path.to_owned(), owner, zxid: header.zxid.0 });
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, step: Value) {
        if self.steps.len() == STEPS {
            self.left_out += 1;
            return;
        }
        let Value::Object(mut step) = step else { return };
        let clients = self.clients.iter().map(|(_, it)| {
            let lease = it.lease.map(milliseconds);
            let session = format!("{:#x}", it.session);
            json!(["idle", null, it.state, it.server, session, lease, milliseconds(it.timeout)])
        });
        step.insert("clients".into(), clients.collect());
        let servers = self.servers.iter().map(|(_, zxid)| json!(["", format!("{zxid:#x}")]));
        step.insert("servers".into(), servers.collect());
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|it| json!([it.path, it.owner, format!("{:#x}", it.zxid), []]));
        step.insert("queue".into(), nodes.collect());
        step.insert("events".into(), vec![json!(0); self.clients.len()].into());
        self.steps.push(step);
    }

    /// Returns the story, as the page reads it.
    pub(crate) fn json(&self) -> Value {
        let mut steps = self.steps.clone();
        // Each step has a lane for those that come later.
        for step in &mut steps {
            let absent = json!(["idle", null, "", null, "0x0", null, 0]);
            for (part, count, absent) in [
                ("clients", self.clients.len(), absent),
                ("servers", self.servers.len(), json!(["", "0x0"])),
            ] {
                if let Some(Value::Array(all)) = step.get_mut(part) {
                    all.resize(count, absent);
                }
            }
        }
        let names: Vec<_> = self.clients.iter().map(|(name, _)| name).collect();
        let servers = self.servers.iter().enumerate();
        let servers: Vec<_> =
            servers.map(|(at, (name, _))| format!("server {at} is {name}")).collect();
        let mut text = servers.join(", ") + ".";
        if self.left_out > 0 {
            text += &format!(" {} more messages are left out.", self.left_out);
        }
        json!({
            "name": "recording", "title": "A recording",
            "about": "Messages as the client saw them. Nodes are those that end with a session.",
            "runs": [{
                "title": "", "clients": names, "servers": self.servers.len(), "storage": false,
            }],
            "stops": [{ "step": 0, "text": text }],
            "steps": steps,
        })
    }
}

/// Returns how long a lease lasts, as zk-session counts it.
fn lease(timeout: Duration) -> Duration {
    timeout / 20 * 19
}

fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}
