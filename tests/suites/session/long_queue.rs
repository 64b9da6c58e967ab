//! The memory of a lock that waits in a queue of any length, with the settings of a board.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use uuid::Uuid;
use zk_recipes::machine::{AttemptConfig, Contender, Event, LockMode, Observer, OnSession, Scheme};
use zk_session::dispatch::{Dispatcher, Port};
use zk_session::proto::frame::{self, Piece, Splitter};
use zk_session::proto::{
    ConnectResponse, Create2Response, Decode, Encode, ErrorCode, EventType, GetChildrenResponse,
    KeeperState, ReplyHeader, Request, RequestHeader, SessionId, Stat, WatcherEvent, Xid, Zxid,
};
use zk_session::session::{Action, Config, Session};
use zk_session::time::Instant;

const LOCK: &str = "/locks/printer";
/// The most bytes that are read at once.
const READ: usize = 64;
/// What the lock may take at any time, on a processor of 64 bits. The dispatcher does not count.
const MOST: i64 = 3_000;

/// What the lock reported last, besides that it was enqueued.
#[derive(Clone, Default)]
struct Status(Arc<AtomicUsize>);

const HELD: usize = usize::MAX;

impl Observer for Status {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        self.0.store(
            match event {
                Event::Waiting { ahead, .. } => ahead,
                Event::Acquired { .. } => HELD,
                Event::Enqueued { .. } => return,
                event => panic!("{event:?}"),
            },
            Ordering::Relaxed,
        );
    }
}

/// A client with the loop of a board.
struct Board {
    dispatcher: Dispatcher<()>,
    frames: Splitter,
    received: BytesMut,
}

impl Board {
    fn drain(&mut self) {
        while self.dispatcher.poll_event(Instant::START).is_some() {}
        self.dispatcher.take_effects().run();
        while let Some(action) = self.dispatcher.session_mut().poll_action() {
            assert!(matches!(action, Action::Connect(_)));
            self.dispatcher.session_mut().handle_connected(Instant::START);
        }
        if self.dispatcher.is_unsettled() {
            self.dispatcher.settle(Instant::START);
            self.drain();
        }
    }

    fn receive(&mut self, mut stream: &[u8]) {
        while !stream.is_empty() {
            let missing = self.frames.missing(&self.received).unwrap_or(READ);
            self.received.reserve(missing);
            let (read, rest) = stream.split_at(missing.min(READ).min(stream.len()));
            self.received.extend_from_slice(read);
            stream = rest;
            let session = self.dispatcher.session_mut();
            while let Some(piece) = self.frames.split(&mut self.received).expect("frames") {
                match piece {
                    Piece::Frame(payload) => session.handle_frame(Instant::START, payload),
                    Piece::TooLong { start, length } => {
                        session.handle_oversized(Instant::START, &start, length);
                    }
                    Piece::Rest(bytes) => session.handle_rest(Instant::START, bytes),
                }
            }
            if self.received.is_empty() {
                self.received = BytesMut::new();
            }
            self.drain();
        }
    }
}

/// The board with its server, and its heap.
struct Scene {
    board: Board,
    /// The other contenders, in the order of the queue.
    others: Vec<String>,
    own: String,
    answered: usize,
    heap: i64,
    peak: i64,
}

impl Scene {
    /// Lets the board act, and counts its heap.
    fn act(&mut self, what: &str, act: impl FnOnce(&mut Board)) {
        let allocations = allocation_counter::measure(|| act(&mut self.board));
        let most = self.heap + allocations.bytes_max as i64;
        self.heap += allocations.bytes_current;
        self.peak = self.peak.max(most);
        println!("{:5} ahead, {what}: {most} at most, {} then", self.others.len(), self.heap);
    }

    /// Answers all requests that the board has sent.
    fn answer(&mut self) {
        loop {
            let sent = self.board.dispatcher.session().output().to_vec();
            let mut stream = &sent[..];
            if stream.is_empty() {
                return;
            }
            self.act("sends", |board| {
                board.dispatcher.session_mut().handle_sent(Instant::START, sent.len());
            });
            while let Some((payload, rest)) = frame::split(stream, 1 << 20).expect("frames") {
                stream = rest;
                let (what, reply) = self.reply(payload);
                self.act(what, |board| board.receive(&reply));
            }
        }
    }

    fn reply(&mut self, payload: &[u8]) -> (&'static str, Vec<u8>) {
        self.answered += 1;
        if self.answered == 1 {
            let welcome = ConnectResponse {
                protocol_version: 0,
                timeout: 10_000,
                session_id: SessionId(7),
                password: Some(&[7; 16]),
                read_only: Some(false),
            };
            return ("connected", framed(&welcome));
        }
        let (header, body) = payload.split_at(8);
        let header: RequestHeader = Decode::decode_all(header).expect("one");
        let request = Request::decode(header.opcode, body).expect("a request");
        let answer = ReplyHeader { xid: header.xid, zxid: Zxid(9), err: ErrorCode::OK };
        match request {
            Request::Create2(_) => {
                let path = format!("{LOCK}/{}", self.own);
                let body = Create2Response { path: &path, stat: Stat::default() };
                ("created", framed(&(answer, body)))
            }
            Request::GetChildren(request) if request.path == LOCK => {
                // No order, as from a server.
                let names = self.others.iter().rev().chain([&self.own]).map(String::as_str);
                let (left, right): (Vec<_>, Vec<_>) =
                    names.enumerate().partition(|(at, _)| at % 3 == 0);
                let names: Vec<_> = left.into_iter().chain(right).map(|(_, name)| name).collect();
                ("listed", framed(&(answer, GetChildrenResponse { children: names[..].into() })))
            }
            Request::GetChildren(_) => {
                ("watches", framed(&(answer, GetChildrenResponse { children: [][..].into() })))
            }
            Request::Delete(_) => ("deleted", framed(&answer)),
            request => panic!("{request:?}"),
        }
    }
}

fn framed(message: &impl Encode) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    frame::encode(message, &mut bytes).expect("short");
    bytes.into()
}

fn node(number: u128) -> String {
    let guid = Uuid::from_u128(number + 1);
    let prefix = Scheme::CURATOR_MUTEX.prefix(LockMode::Exclusive, guid, SessionId::NONE);
    format!("{prefix}{number:010}")
}

/// Returns the most bytes of heap that the board ever takes.
fn takes_its_turn(ahead: usize) -> i64 {
    let mut config = Config::small(1, 7);
    config.timeout = Duration::from_secs(10);
    let frames = Splitter::new(config.max_reply);
    let others = (0..ahead as u128).map(node).collect();
    let own = node(ahead as u128);
    let mut board = None;
    let new = allocation_counter::measure(|| {
        let dispatcher = Dispatcher::new(Session::new(Instant::START, config));
        board = Some(Board { dispatcher, frames, received: BytesMut::new() });
    });
    let board = board.expect("made");
    let heap = new.bytes_current;
    let mut scene = Scene { board, others, own, answered: 0, heap, peak: heap };
    scene.act("starts", Board::drain);
    scene.answer();
    let status = Status::default();
    let (report, guid) = (status.clone(), Uuid::from_u128(ahead as u128 + 1));
    scene.act("enters", |board| {
        let attempt = AttemptConfig::new(LOCK.into(), Scheme::CURATOR_MUTEX, guid);
        let machine = OnSession::new(Contender::new(attempt), report, 1);
        board.dispatcher.attach(Instant::START, Box::new(machine));
    });
    scene.answer();
    assert_eq!(status.0.load(Ordering::Relaxed), ahead);
    // The nearest leaves, then all the others.
    for left in [ahead - 1, 0] {
        if status.0.load(Ordering::Relaxed) == HELD {
            break;
        }
        let gone = scene.others.last().cloned().expect("one is ahead");
        scene.others.truncate(left);
        let path = format!("{LOCK}/{gone}");
        let event = WatcherEvent {
            event_type: EventType::NODE_DELETED,
            state: KeeperState::SYNC_CONNECTED,
            path: &path,
        };
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(-1), err: ErrorCode::OK };
        let event = framed(&(header, event));
        scene.act("notified", |board| board.receive(&event));
        scene.answer();
    }
    assert_eq!(status.0.load(Ordering::Relaxed), HELD);
    scene.peak
}

#[test]
fn the_memory_of_a_lock_does_not_depend_on_the_length_of_its_queue() {
    let peaks = [1, 15, 60, 1_000].map(takes_its_turn);
    println!("the peaks of the heap: {peaks:?} bytes");
    assert!(peaks.iter().all(|peak| *peak <= MOST), "{peaks:?}");
    assert_eq!(peaks[2], peaks[3]);
}
