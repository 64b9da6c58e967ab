//! Which messages are on their way, by the bytes of a run.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use zk_proto::conversation::{Conversation, Direction as Side};
use zk_proto::diagram::Style;
use zk_proto::explain::MessageKind;
use zk_proto::{Xid, frame};

use crate::label;
use crate::sim::{Cut, Direction, LinkId};

/// A message between a client and a server.
#[derive(Debug)]
pub(crate) struct Sent {
    /// When it was sent.
    pub(crate) at: Duration,
    pub(crate) client: usize,
    pub(crate) server: usize,
    pub(crate) direction: Direction,
    pub(crate) style: Style,
    pub(crate) label: String,
    pub(crate) kind: MessageKind,
    /// The frame, with its length.
    pub(crate) bytes: Vec<u8>,
    /// The end of the frame in the stream of its connection.
    end: usize,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Stream {
    bytes: Vec<u8>,
    /// The end of the last whole frame, and the number of bytes that arrived.
    split: usize,
    arrived: usize,
    pending: VecDeque<Sent>,
    /// Whether nothing arrives any more.
    is_cut: bool,
}

/// The network of a run.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    streams: BTreeMap<(LinkId, Direction), Stream>,
    conversations: BTreeMap<LinkId, Conversation>,
    /// The newest connection of each client.
    links: BTreeMap<usize, LinkId>,
}

impl Wire {
    /// Records bytes that were sent. Returns messages that are lost.
    pub(crate) fn sent(
        &mut self,
        at: Duration,
        link: LinkId,
        (client, server): (usize, usize),
        direction: Direction,
        bytes: &[u8],
    ) -> Vec<Sent> {
        let mut lost = Vec::new();
        if let Some(old) = self.links.insert(client, link).filter(|old| *old != link) {
            lost.extend(self.cut_streams(old, [true, true]));
        }
        let stream = self.streams.entry((link, direction)).or_default();
        let new = || Conversation::new(frame::DEFAULT_LIMIT);
        let conversation = self.conversations.entry(link).or_insert_with(new);
        let side = if direction == Direction::Up { Side::ToServer } else { Side::ToClient };
        stream.bytes.extend_from_slice(bytes);
        while let Ok(Some((message, rest))) = conversation.read(side, &stream.bytes[stream.split..])
        {
            let end = stream.bytes.len() - rest.len();
            stream.split = end;
            let Some(kind) = message.explained_as() else { continue };
            if message.payload().starts_with(&Xid::PING.0.to_be_bytes()) {
                continue;
            }
            let (style, label) = label::of(message.payload(), kind);
            let bytes = message.bytes.to_vec();
            let sent = Sent { at, client, server, direction, style, label, kind, bytes, end };
            stream.pending.push_back(sent);
        }
        if stream.is_cut {
            lost.extend(stream.pending.drain(..));
        }
        lost
    }

    /// Records that bytes have arrived. Returns the messages that are complete.
    pub(crate) fn arrived(&mut self, link: LinkId, direction: Direction, len: usize) -> Vec<Sent> {
        let Some(stream) = self.streams.get_mut(&(link, direction)) else { return Vec::new() };
        stream.arrived += len;
        let is_there = |sent: &Sent| sent.end <= stream.arrived;
        let count = stream.pending.iter().take_while(|sent| is_there(sent)).count();
        stream.pending.drain(..count).collect()
    }

    /// Records that the connection of a client was cut. Returns the messages that are lost.
    pub(crate) fn cut(&mut self, client: usize, cut: Cut) -> Vec<Sent> {
        let Some(link) = self.links.get(&client) else { return Vec::new() };
        self.cut_streams(*link, [cut.up.bytes == 0, cut.down.bytes == 0])
    }

    fn cut_streams(&mut self, link: LinkId, cut: [bool; 2]) -> Vec<Sent> {
        let mut lost = Vec::new();
        for (direction, is_cut) in Direction::ALL.into_iter().zip(cut) {
            if is_cut {
                let stream = self.streams.entry((link, direction)).or_default();
                stream.is_cut = true;
                lost.extend(stream.pending.drain(..));
            }
        }
        lost
    }
}
