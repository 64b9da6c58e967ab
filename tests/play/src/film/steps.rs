//! The steps of a film, as JSON: each with what it changes of the picture.

use core::fmt::Write;
use core::time::Duration;

use zk_proto::diagram::Style;
use zk_proto::{Zxid, explain};
use zk_session::State;

use super::{Film, LOCK};
use crate::json::{list, or_null, quoted, string};
use crate::label;
use crate::sim::Direction;
use crate::wire::Sent;

impl Film {
    pub(super) fn sent(&mut self, sent: &Sent, arrived: Option<Duration>) {
        let (client, server) = (format!("c{}", sent.client), format!("s{}", sent.server));
        let (from, to) = match sent.direction {
            Direction::Up => (client, server),
            Direction::Down => (server, client),
        };
        // Nobody learns at once of a loss.
        let at = arrived.unwrap_or(sent.at.max(self.last_step));
        self.message(&from, &to, sent.style, &sent.label, (sent.at, at));
        let mut fields = Vec::new();
        // Frames of the simulator have no errors.
        let _ = explain::frame(&sent.bytes, sent.kind, &mut |field| {
            let (range, kind) = (&field.range, quoted(field.wire_type));
            let (path, value) = (quoted(field.path), quoted(field.value));
            fields.push(format!("[{},{},{kind},{path},{value}]", range.start, range.end));
        });
        let hex: String = sent.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let lost = if arrived.is_none() { ",\"lost\":true" } else { "" };
        self.extend(&format!("{lost},\"bytes\":\"{hex}\",\"fields\":{}", list(fields)));
    }

    pub(super) fn lose(&mut self, sent: &Sent) {
        self.sent(sent, None);
    }

    pub(super) fn message(
        &mut self,
        from: &str,
        to: &str,
        style: Style,
        label: &str,
        (sent, at): (Duration, Duration),
    ) {
        let label = quoted(label);
        self.add(at, &format!("\"from\":\"{from}\",\"to\":\"{to}\",\"sent\":{}", millis(sent)));
        self.extend(&format!(",\"style\":\"{}\",\"label\":{label}", style_name(style)));
    }

    pub(super) fn say(&mut self, lane: Option<&str>, style: Style, text: &str) {
        let lane = or_null(lane.map(quoted));
        let (style, text) = (style_name(style), quoted(text));
        let note = format!("\"lane\":{lane},\"style\":\"{style}\",\"label\":{text}");
        self.add(self.sim.now(), &note);
    }

    /// Adds a step with what has changed of the state.
    fn add(&mut self, at: Duration, what: &str) {
        let mut step = format!("{{\"at\":{},{what}", millis(at));
        if self.run > 0 {
            let _ = write!(step, ",\"run\":{}", self.run);
        }
        for (name, value) in self.state() {
            if self.shown.get(name) != Some(&value) {
                let _ = write!(step, ",\"{name}\":{value}");
                self.shown.insert(name, value);
            }
        }
        self.steps.push(step);
        self.last_step = at;
    }

    fn extend(&mut self, more: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.push_str(more);
        }
    }

    fn state(&self) -> [(&'static str, String); 5] {
        let newest = self.storage.newest.0;
        let storage = if newest == 0 { "null".to_owned() } else { format!("\"{newest:#x}\"") };
        [
            ("servers", self.servers()),
            ("clients", self.clients()),
            ("queue", self.queue()),
            ("events", list(self.events.iter().map(usize::to_string))),
            ("newest", storage),
        ]
    }

    fn servers(&self) -> String {
        let ensemble = self.sim.ensemble();
        list((0..self.setting.servers).map(|server| {
            let role = match ensemble.leader() {
                _ if !ensemble.is_alive(server) => "dead",
                None => "no quorum",
                Some(leader) if leader == server => "leader",
                Some(_) => "follower",
            };
            format!("[\"{role}\",\"{:#x}\"]", ensemble.applied(server).unwrap_or(Zxid::ZERO).0)
        }))
    }

    /// Returns the clients: activity, token, state, server, session, the end of the lease, and the
    /// session timeout.
    fn clients(&self) -> String {
        list(self.actors.iter().enumerate().map(|(index, actor)| {
            let token = or_null(actor.token.map(|token| format!("\"{:#x}\"", token.0)));
            let activity = actor.activity.name();
            let Some(client) = self.sim.client(index) else {
                return format!("[\"{activity}\",{token},\"gone\",null,null,null,0]");
            };
            let is_stopped = actor.stopped_until > self.sim.now();
            let (server, state) = match client.state() {
                _ if is_stopped => (None, "stopped"),
                State::Connected { server, .. } | State::ReadOnly { server, .. } => {
                    (Some(server), state_name(client.state()))
                }
                state => (None, state_name(state)),
            };
            let (server, lease) = (or_null(server), or_null(client.lease().map(millis)));
            let (id, timeout) = (client.id().0, client.session_timeout().as_millis());
            format!("[\"{activity}\",{token},\"{state}\",{server},\"{id:#x}\",{lease},{timeout}]")
        }))
    }

    /// Returns the nodes below the lock path in their order: path, owner, zxid, and the clients
    /// that watch each. The first entry is the lock path itself.
    fn queue(&self) -> String {
        let ensemble = self.sim.ensemble();
        let Some(tree) = ensemble.leader().and_then(|leader| ensemble.tree_of(leader)) else {
            return "[]".to_owned();
        };
        let watched = ensemble.watched();
        let mut nodes: Vec<_> = tree
            .iter()
            .filter(|(path, _)| path.starts_with(LOCK))
            .map(|(path, node)| {
                // The nodes of one parent, by their sequence numbers.
                let (parent, name) = path.rsplit_once('/').unwrap_or_default();
                let sequence = name.get(name.len().saturating_sub(10)..).unwrap_or(name);
                (parent, sequence.to_owned(), path, node.stat())
            })
            .collect();
        nodes.sort_by(|a, b| (a.0, &a.1, a.2).cmp(&(b.0, &b.1, b.2)));
        list(nodes.into_iter().map(|(_, _, path, stat)| {
            let owner = or_null(self.owners.get(&stat.ephemeral_owner));
            let watchers = watched.iter().filter(|(_, watched)| *watched == path);
            let mut watchers: Vec<_> =
                watchers.filter_map(|(session, _)| self.owners.get(session)).collect();
            watchers.sort();
            let watchers = list(watchers.into_iter().map(usize::to_string));
            let mut name = String::new();
            string(&mut name, label::short(path));
            format!("[{name},{owner},\"{:#x}\",{watchers}]", stat.czxid.0)
        }))
    }
}

pub(super) fn state_name(state: State) -> &'static str {
    match state {
        State::Connecting => "connecting",
        State::Connected { .. } => "connected",
        State::ReadOnly { .. } => "read-only",
        State::Suspended => "no connection",
        State::Renewing => "renewing",
        State::Ended(_) => "ended",
        _ => "unknown",
    }
}

fn style_name(style: Style) -> &'static str {
    match style {
        Style::Reply => "reply",
        Style::Event => "event",
        Style::Error => "error",
        Style::Lost => "lost",
        _ => "plain",
    }
}

/// Returns a time in milliseconds, as the page shows it.
fn millis(time: Duration) -> f64 {
    let hundredths = time.as_micros() / 10;
    hundredths as f64 / 100.0
}
