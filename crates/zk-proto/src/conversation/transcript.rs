//! The whole of a recorded connection.

use alloc::vec::Vec;

use super::{Conversation, Direction, Kind, Message, Position, Unanswered};
use crate::frame::{self, FrameError};

/// The messages of a recorded connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Transcript<'s> {
    /// The messages of both directions, each reply behind its request.
    ///
    /// Recordings of bytes alone do not contain the order of the two directions. This order has
    /// each request as late as its replies permit, as if the client had waited for each reply.
    pub messages: Vec<Message<'s>>,
    /// How the stream to the server ends.
    pub to_server: End,
    /// How the stream to the client ends.
    pub to_client: End,
}

/// The end of a recorded stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The stream ends with a whole message.
    Whole,
    /// The stream ends within a frame.
    Incomplete {
        /// The offset of the frame in bytes.
        offset: u64,
        /// The number of its bytes that are there.
        length: u64,
    },
    /// The rest of the stream cannot be a frame.
    Unreadable {
        /// The offset of the rest in bytes.
        offset: u64,
        /// What is wrong with it.
        error: FrameError,
    },
}

/// Reads both directions of a recorded connection. Either may be empty.
///
/// Frames of any length are read, since they are in memory already.
///
/// ```
/// use zk_proto::conversation::{self, End};
///
/// let ping = b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b";
/// let pong = b"\0\0\0\x10\xff\xff\xff\xfe\0\0\0\0\0\0\0\x05\0\0\0\0";
/// let (sent, received) = ([*ping, *ping].concat(), [&pong[..], &[0]].concat());
/// let transcript = conversation::transcript(&sent, &received);
/// let numbers: Vec<_> = transcript.messages.iter().map(|m| (m.direction, m.number)).collect();
/// use conversation::Direction::{ToClient, ToServer};
/// assert_eq!(numbers, [(ToServer, 0), (ToClient, 0), (ToServer, 1)]);
/// assert_eq!(transcript.to_server, End::Whole);
/// assert_eq!(transcript.to_client, End::Incomplete { offset: 20, length: 1 });
/// ```
pub fn transcript<'s>(to_server: &'s [u8], to_client: &'s [u8]) -> Transcript<'s> {
    let limit = frame::DEFAULT_LIMIT.max(to_server.len()).max(to_client.len());
    let mut conversation = Conversation::with_unanswered(limit, Unanswered::new(usize::MAX));
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    // The handshakes determine the form of what follows.
    let to_server = conversation.read_first(Direction::ToServer, to_server, &mut requests);
    let is_greeted = matches!(requests[..], [Message { kind: Kind::ConnectRequest, .. }]);
    let to_client = match is_greeted {
        true => conversation.read_first(Direction::ToClient, to_client, &mut replies),
        false => to_client,
    };
    let end_to_server = conversation.read_all(Direction::ToServer, to_server, &mut requests);
    let end_to_client = conversation.read_all(Direction::ToClient, to_client, &mut replies);
    let mut messages = Vec::with_capacity(requests.len() + replies.len());
    let mut asked = requests.into_iter().peekable();
    for reply in replies {
        let needed = match reply.kind {
            Kind::Reply { request, .. } => request + 1,
            Kind::ConnectResponse | Kind::Refusal(_) => 1,
            Kind::Text | Kind::Opaque => u64::MAX,
            _ => 0,
        };
        while let Some(request) = asked.next_if(|request| request.number < needed) {
            messages.push(request);
        }
        messages.push(reply);
    }
    messages.extend(asked);
    Transcript { messages, to_server: end_to_server, to_client: end_to_client }
}

impl Conversation {
    /// Reads one message, if it is whole. Returns the bytes behind it.
    fn read_first<'s>(
        &mut self,
        direction: Direction,
        stream: &'s [u8],
        messages: &mut Vec<Message<'s>>,
    ) -> &'s [u8] {
        match self.read(direction, stream) {
            Ok(Some((message, rest))) => {
                messages.push(message);
                rest
            }
            _ => stream,
        }
    }

    fn read_all<'s>(
        &mut self,
        direction: Direction,
        mut stream: &'s [u8],
        messages: &mut Vec<Message<'s>>,
    ) -> End {
        loop {
            match self.read(direction, stream) {
                Ok(Some((message, rest))) => {
                    messages.push(message);
                    stream = rest;
                }
                Ok(None) if stream.is_empty() => break End::Whole,
                Ok(None) => {
                    let Position { offset, .. } = *self.position(direction);
                    break End::Incomplete { offset, length: stream.len() as u64 };
                }
                Err(error) => {
                    let Position { offset, .. } = *self.position(direction);
                    break End::Unreadable { offset, error };
                }
            }
        }
    }
}
