//! Tests over a link whose server is scripted.

use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::BytesMut;
use zk_proto::{ConnectResponse, Encode, ErrorCode, ReplyHeader, Request, SessionId, SyncRequest};
use zk_proto::{Xid, Zxid, frame};

use super::*;
use crate::dispatch::{Attached, Input, Port, Token};
use crate::session::State;

/// A link that checks how it is called. It works only when it is polled, as smoltcp does.
#[derive(Default)]
struct Stack {
    state: LinkState,
    servers: Vec<usize>,
    /// The turns that closing takes.
    closes_in: usize,
    has_unsent_reset: bool,
    /// Whether there was a connection, or an attempt, that is not hung up.
    is_in_use: bool,
    /// What is on its way, and what has arrived.
    coming: BytesMut,
    arrived: BytesMut,
    sent: usize,
    /// How many bytes the transport takes at once.
    takes: usize,
}

impl Link for Stack {
    fn connect(&mut self, server: usize) {
        assert!(!self.has_unsent_reset, "the reset never leaves");
        assert_eq!(self.state, LinkState::Down);
        assert!(!self.is_in_use, "the socket of the old connection is not closed");
        (self.state, self.is_in_use) = (LinkState::Connecting, true);
        self.servers.push(server);
    }

    fn hang_up(&mut self) {
        (self.has_unsent_reset, self.is_in_use) = (true, false);
        self.state = LinkState::Closing;
    }

    fn state(&self) -> LinkState {
        self.state
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        assert_eq!(self.state, LinkState::Up);
        assert!(!bytes.is_empty());
        let count = bytes.len().min(self.takes);
        self.takes -= count;
        self.sent += count;
        count
    }

    fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.arrived.len());
        buffer[..count].copy_from_slice(&self.arrived.split_to(count));
        count
    }

    fn poll(&mut self, _: Instant) {
        self.has_unsent_reset = false;
        self.arrived.unsplit(self.coming.split());
        if self.state == LinkState::Closing {
            match self.closes_in.checked_sub(1) {
                Some(left) => self.closes_in = left,
                None => self.state = LinkState::Down,
            }
        }
    }

    fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        (self.state == LinkState::Closing).then(|| now + Duration::from_millis(1))
    }
}

impl Stack {
    fn deliver(&mut self, message: &impl Encode) {
        frame::encode(message, &mut self.coming).expect("it fits");
    }

    fn welcome(&mut self) {
        self.deliver(&ConnectResponse {
            protocol_version: 0,
            timeout: 6_000,
            session_id: SessionId(1),
            password: Some(&[1; 16]),
            read_only: Some(false),
        });
    }
}

/// Waits until everything that had arrived is delivered.
#[derive(Default)]
struct Settling {
    has_settled: bool,
}

impl Attached for Settling {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        match input {
            Input::State(_) => port.settle(),
            Input::Settled => self.has_settled = true,
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.has_settled
    }
}

type Board = Loop<u32, Stack>;

fn board(config: Config) -> Board {
    let link = Stack { takes: usize::MAX, ..Stack::default() };
    Loop::new(Instant::START, config, link).expect("settings that can work")
}

/// Takes turns until the board may sleep. Returns until when, and the events.
fn run(board: &mut Board, now: Instant) -> (Option<Instant>, Vec<Event<u32>>) {
    let mut events = Vec::new();
    for _ in 0..1_000 {
        match board.turn(now, |_, event| events.push(event)) {
            Some(due) if due <= now => {}
            due => return (due, events),
        }
    }
    panic!("the board never sleeps");
}

fn connected(config: Config) -> Board {
    let mut board = board(config);
    run(&mut board, Instant::START);
    board.link.state = LinkState::Up;
    board.link.welcome();
    run(&mut board, Instant::START);
    assert!(matches!(board.dispatcher.session().state(), State::Connected { .. }));
    board
}

fn sync(dispatcher: &mut Dispatcher<u32>, token: u32) {
    let request = Request::Sync(SyncRequest { path: "/" });
    dispatcher.session_mut().submit(&request, Token::Caller(token)).expect("room");
}

fn reply(xid: i32) -> (ReplyHeader, ()) {
    (ReplyHeader { xid: Xid(xid), zxid: Zxid(1), err: ErrorCode::NO_NODE }, ())
}

fn tokens(events: &[Event<u32>]) -> Vec<u32> {
    let token = |event: &Event<u32>| match event {
        Event::Reply { token, .. } => Some(*token),
        _ => None,
    };
    events.iter().filter_map(token).collect()
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refused = |config| Board::new(Instant::START, config, Stack::default()).err();
    assert_eq!(refused(Config::small(0, 0)), Some(ConfigError::NoServers));
    let mut config = Config::small(1, 0);
    config.max_reply = 511;
    assert_eq!(refused(config), Some(ConfigError::MaxReply));
    assert_eq!(ConfigError::MaxReply.to_string(), "`max_reply` is below 512 bytes");
}

#[test]
fn a_board_never_sleeps_while_bytes_wait_in_the_transport() {
    // One frame at a time fits into the buffer.
    let mut board = connected(Config::small(1, 0));
    for token in 1..=5 {
        sync(&mut board.dispatcher, token);
    }
    run(&mut board, Instant::START);
    for xid in 1..=5 {
        board.link.deliver(&reply(xid));
    }
    let (_, events) = run(&mut board, Instant::START);
    assert_eq!(tokens(&events), [1, 2, 3, 4, 5]);
    assert!(board.link.arrived.is_empty());
}

#[test]
fn what_a_handler_submits_is_sent_before_the_board_sleeps() {
    let mut board = connected(Config::small(1, 0));
    sync(&mut board.dispatcher, 1);
    run(&mut board, Instant::START);
    board.link.deliver(&reply(1));
    let before = board.link.sent;
    while board.turn(Instant::START, |dispatcher, _| sync(dispatcher, 2)) <= Some(Instant::START) {}
    assert!(board.link.sent > before && board.dispatcher.session().output().is_empty());
}

#[test]
fn a_link_connects_again_only_after_its_reset_has_left() {
    for closes_in in 0..3 {
        let mut board = connected(Config::small(2, 0));
        board.link.closes_in = closes_in;
        // The server answers nothing: the session itself ends the connection.
        let mut now = Instant::START;
        while board.link.servers.len() < 3 {
            let (due, _) = run(&mut board, now);
            assert!(
                now < Instant::START + Duration::from_secs(60),
                "{board:?}",
                board = board.link.servers
            );
            now = due.expect("a deadline");
        }
        assert!(board.link.servers.windows(2).any(|pair| pair[0] != pair[1]));
    }
}

#[test]
fn a_connection_is_lost_behind_the_frames_that_came_before() {
    let mut board = connected(Config::new(1, 0));
    sync(&mut board.dispatcher, 1);
    run(&mut board, Instant::START);
    board.link.deliver(&reply(1));
    board.link.state = LinkState::Down;
    let (due, events) = run(&mut board, Instant::START);
    let place = |wanted: fn(&Event<u32>) -> bool| events.iter().position(wanted);
    let replied = place(|event| {
        matches!(event, Event::Reply { result: Err(error), .. }
        if error.code() == Some(ErrorCode::NO_NODE))
    });
    // The old connection is hung up before the next one is made.
    run(&mut board, due.expect("a retry"));
    assert_eq!(board.link.servers, [0, 0]);
    assert!(
        replied.is_some() && replied < place(|event| matches!(event, Event::Disconnected { .. }))
    );
}

#[test]
fn a_machine_settles_behind_all_that_the_transport_has() {
    // One frame at a time fits into the buffer.
    let mut board = connected(Config::small(1, 0));
    for token in 1..=3 {
        sync(&mut board.dispatcher, token);
    }
    run(&mut board, Instant::START);
    for xid in 1..=3 {
        board.link.deliver(&reply(xid));
    }
    board.dispatcher.attach(Instant::START, Box::new(Settling::default()));
    let mut unsettled = Vec::new();
    for _ in 0..100 {
        let _ = board.turn(Instant::START, |dispatcher, _| unsettled.push(dispatcher.attached()));
    }
    assert_eq!((unsettled, board.dispatcher.attached()), ([1; 3].into(), 0));
}

#[test]
fn commands_between_turns_may_leave_events_and_machines_to_settle() {
    let mut board = board(Config::new(1, 0));
    board.dispatcher.attach(Instant::START, Box::new(Settling::default()));
    board.dispatcher.close(Instant::START);
    let (_, events) = run(&mut board, Instant::START);
    assert!(matches!(events.last(), Some(Event::State(State::Ended(_)))));
    assert_eq!(board.dispatcher.attached(), 0);
}

#[test]
fn what_a_full_transport_does_not_take_is_sent_later() {
    let mut board = connected(Config::new(1, 0));
    let before = board.link.sent;
    board.link.takes = 10;
    sync(&mut board.dispatcher, 1);
    let (due, _) = run(&mut board, Instant::START);
    assert!(due > Some(Instant::START));
    assert_eq!(board.link.sent, before + 10);
    board.link.takes = usize::MAX;
    run(&mut board, Instant::START);
    assert!(board.dispatcher.session().output().is_empty());
}

#[test]
fn a_session_that_is_closed_between_turns_ends() {
    let mut board = board(Config::new(1, 0));
    board.dispatcher.close(Instant::START);
    let (due, events) = run(&mut board, Instant::START);
    assert_eq!(due, None);
    assert!(matches!(events.last(), Some(Event::State(State::Ended(_)))));
}
