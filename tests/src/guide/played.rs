//! Diagrams of simulated runs: every frame between the clients and the servers.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use zk_proto::conversation::{
    Conversation,
    Direction::{ToClient, ToServer},
};
use zk_proto::diagram::{Activity, Diagram, Lane, Style};
use zk_proto::{Xid, frame};
use zk_recipes::machine::Event as LockEvent;
use zk_session::State;

use super::label;
use crate::sim::{ClientEvent, Cut, Direction, Fault, LinkId, Sim, What};

/// One direction of a connection.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    /// The end of the last whole frame, and the number of bytes that arrived.
    split: usize,
    arrived: usize,
    /// Frames that have not arrived: their ends, their times, their rows.
    pending: VecDeque<(usize, Duration, Row)>,
}

enum Row {
    Message(Lane, Lane, Style, String),
    Note(Lane, Style, String),
    Activity(Lane, Activity),
}

struct Player {
    clients: Vec<Lane>,
    servers: Vec<Lane>,
    streams: BTreeMap<(LinkId, bool), Stream>,
    conversations: BTreeMap<LinkId, Conversation>,
    rows: Vec<(Duration, Row)>,
}

/// Draws a recorded run from this time on. Lanes appear in the order of the names; a name with
/// `server` is a server.
pub fn diagram(sim: &Sim, title: &str, lanes: &[&str], from: Duration) -> Diagram {
    let mut diagram = Diagram::new(title);
    diagram.set_label_limit(100);
    let named = lanes.iter().map(|name| (diagram.lane(name), name.contains("server")));
    let (servers, clients): (Vec<_>, Vec<_>) = named.partition(|(_, is_server)| *is_server);
    let lanes = |named: Vec<(Lane, bool)>| named.into_iter().map(|(lane, _)| lane).collect();
    let (clients, servers) = (lanes(clients), lanes(servers));
    let (streams, conversations) = (BTreeMap::new(), BTreeMap::new());
    let mut player = Player { clients, servers, streams, conversations, rows: Vec::new() };
    for moment in sim.moments() {
        player.play(moment.at, &moment.what);
    }
    for stream in player.streams.into_values() {
        for (_, at, row) in stream.pending {
            if let Row::Message(from, to, _, text) = row {
                player.rows.push((at, Row::Message(from, to, Style::Lost, text)));
            }
        }
    }
    player.rows.sort_by_key(|(at, _)| *at);
    for (at, row) in player.rows {
        let time = at.checked_sub(from);
        match row {
            Row::Activity(lane, activity) => diagram.activity(lane, activity),
            Row::Message(..) | Row::Note(..) if time.is_none() => {}
            Row::Message(from, to, style, text) => diagram.message(time, from, to, style, &text),
            Row::Note(lane, style, text) => diagram.note(time, lane, style, &text),
        }
    }
    diagram
}

impl Player {
    fn play(&mut self, at: Duration, what: &What) {
        match what {
            What::Sent { link, client, server, direction, bytes } => {
                let ends = (self.clients[*client], self.servers[*server]);
                self.sent(at, *link, *direction, ends, bytes);
            }
            What::Arrived(link, direction, length) => {
                let key = (*link, *direction == Direction::Up);
                let Some(stream) = self.streams.get_mut(&key) else { return };
                stream.arrived += length;
                while stream.pending.front().is_some_and(|(end, ..)| *end <= stream.arrived) {
                    let rows = stream.pending.pop_front().map(|(_, _, row)| (at, row));
                    self.rows.extend(rows);
                }
            }
            What::Client(client, event) => self.event(at, self.clients[*client], event),
            What::Fault(Fault::Hold(server, _)) => {
                self.note(at, self.servers[*server], Style::Error, "falls behind");
            }
            What::Fault(Fault::Cut(client, cut)) => {
                let text = match *cut {
                    Cut::AFTER_APPLIED => "the connection breaks: requests arrive, replies do not",
                    _ => "the connection breaks",
                };
                self.note(at, self.clients[*client], Style::Error, text);
            }
            What::Fault(Fault::Expire(client)) => {
                self.note(at, self.clients[*client], Style::Error, "the session expires");
            }
            _ => {}
        }
    }

    fn note(&mut self, at: Duration, lane: Lane, style: Style, text: &str) {
        self.rows.push((at, Row::Note(lane, style, text.to_owned())));
    }

    fn sent(
        &mut self,
        at: Duration,
        link: LinkId,
        direction: Direction,
        (client, server): (Lane, Lane),
        bytes: &[u8],
    ) {
        let is_up = direction == Direction::Up;
        let stream = self.streams.entry((link, is_up)).or_default();
        let new = || Conversation::new(frame::DEFAULT_LIMIT);
        let conversation = self.conversations.entry(link).or_insert_with(new);
        let direction = if is_up { ToServer } else { ToClient };
        stream.bytes.extend_from_slice(bytes);
        while let Ok(Some((message, rest))) =
            conversation.read(direction, &stream.bytes[stream.split..])
            && let Some(kind) = message.explained_as()
        {
            let is_ping = message.payload().starts_with(&Xid::PING.0.to_be_bytes());
            let (style, text) = label::of(message.payload(), kind);
            let (from, to) = if is_up { (client, server) } else { (server, client) };
            stream.split = stream.bytes.len() - rest.len();
            if !is_ping {
                let row = Row::Message(from, to, style, text);
                stream.pending.push_back((stream.split, at, row));
            }
        }
    }

    fn event(&mut self, at: Duration, lane: Lane, event: &ClientEvent) {
        let (activity, style, text) = match event {
            ClientEvent::State(State::Suspended) => {
                (None, Style::Error, "no connection".to_owned())
            }
            ClientEvent::State(State::Ended(end)) => {
                (Some(Activity::Idle), Style::Error, format!("the session has ended: {end:?}"))
            }
            ClientEvent::Lock(_, LockEvent::Waiting { behind, .. }) => {
                let behind = label::short(behind);
                (Some(Activity::Waiting), Style::Plain, format!("waits behind {behind}"))
            }
            ClientEvent::Lock(_, LockEvent::Acquired { token, .. }) => {
                let text = format!("HOLDS the lock, token {:#x}", token.0);
                (Some(Activity::Holding), Style::Plain, text)
            }
            ClientEvent::Lock(_, LockEvent::Suspended) => {
                (Some(Activity::Waiting), Style::Error, "may have lost the lock".to_owned())
            }
            ClientEvent::Lock(_, LockEvent::Resumed) => {
                (Some(Activity::Holding), Style::Plain, "still HOLDS the lock".to_owned())
            }
            ClientEvent::Lock(_, LockEvent::Lost(loss)) => {
                (Some(Activity::Idle), Style::Error, format!("has lost the lock: {loss:?}"))
            }
            ClientEvent::Released(_) => (Some(Activity::Idle), Style::Plain, "releases".to_owned()),
            ClientEvent::AttemptStarted(..) => (None, Style::Plain, "wants the lock".to_owned()),
            _ => return,
        };
        self.rows.push((at, Row::Note(lane, style, text)));
        self.rows.extend(activity.map(|activity| (at, Row::Activity(lane, activity))));
    }
}
