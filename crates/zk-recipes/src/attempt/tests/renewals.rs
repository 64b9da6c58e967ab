//! Machines on a real session, whose server answers every request: renewals of a watch, and a reply
//! that takes longer than the lease.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use bytes::BytesMut;
use zk_session::dispatch::{Attached, Dispatcher, Port};
use zk_session::proto::{
    ConnectResponse, Decode, KeeperState, Reader, ReplyHeader, RequestHeader, WatcherEvent, Xid,
    frame,
};
use zk_session::session::{Config, Session};
use zk_session::time::Instant;

use crate::tests::*;

pub(crate) const NODE: &str = "/node";

/// A machine that sets one watch.
#[derive(Debug)]
struct Watcher {
    has_begun: bool,
}

impl Machine for Watcher {
    fn handle(&mut self, _: Input, turn: &mut Turn<'_>) {
        if !core::mem::replace(&mut self.has_begun, true) {
            turn.watch(NODE);
        }
    }

    fn is_done(&self) -> bool {
        false
    }
}

pub(crate) struct Nobody;

impl Observer for Nobody {
    fn observe(&mut self, _: Event, _: &mut Port<'_>) {}
}

/// Counts the watches of a machine that fire.
struct Counting {
    attached: OnSession<Watcher, Nobody>,
    fired: Arc<AtomicUsize>,
}

impl Attached for Counting {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        match input {
            // Kept from the machine, which would drop the others.
            Input::Watch { .. } => {
                self.fired.fetch_add(1, Ordering::Relaxed);
            }
            input => self.attached.handle(input, port),
        }
    }

    fn command(&mut self, message: &mut dyn Any, port: &mut Port<'_>) {
        self.attached.command(message, port);
    }

    fn is_done(&self) -> bool {
        self.attached.is_done()
    }
}

/// A session, and the bytes that its server has not read yet.
pub(crate) struct Connected {
    pub(crate) dispatcher: Dispatcher<()>,
    pub(crate) now: Instant,
    sent: BytesMut,
}

impl Connected {
    pub(crate) fn new() -> Self {
        let now = Instant::START;
        let mut dispatcher = Dispatcher::new(Session::new(now, Config::new(1, 0)));
        let session = dispatcher.session_mut();
        while session.poll_action().is_some() {}
        session.handle_connected(now);
        session.handle_sent(now, session.output().len());
        let mut connected = Self { dispatcher, now, sent: BytesMut::new() };
        connected.receive(&ConnectResponse {
            protocol_version: 0,
            timeout: 6_000,
            session_id: SESSION,
            password: Some(&[1; 16]),
            read_only: Some(false),
        });
        connected
    }

    fn receive(&mut self, message: &impl Encode) {
        let mut payload = BytesMut::new();
        message.encode(&mut payload);
        self.dispatcher.session_mut().handle_frame(self.now, payload.freeze());
        while self.dispatcher.poll_event(self.now).is_some() {}
    }

    /// The node of the watches is deleted.
    pub(crate) fn fire(&mut self) {
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(-1), err: ErrorCode::OK };
        let event = WatcherEvent {
            event_type: EventType::NODE_DELETED,
            state: KeeperState::SYNC_CONNECTED,
            path: NODE,
        };
        self.receive(&(header, event));
    }

    /// Answers what was sent. Returns the operations, without pings.
    pub(crate) fn answer(&mut self) -> Vec<OpCode> {
        let session = self.dispatcher.session_mut();
        self.sent.extend_from_slice(session.output());
        session.handle_sent(self.now, session.output().len());
        let mut opcodes = Vec::new();
        while let Some(request) = frame::split_bytes(&mut self.sent, usize::MAX).expect("frames") {
            let header = RequestHeader::decode(&mut Reader::new(&request)).expect("a header");
            opcodes.push(header.opcode);
            let reply = ReplyHeader { xid: header.xid, zxid: Zxid(1), err: ErrorCode::OK };
            self.receive(&(reply, ()));
        }
        opcodes.retain(|opcode| *opcode != OpCode::PING);
        opcodes
    }

    pub(crate) fn sleep(&mut self) {
        self.now = self.dispatcher.poll_timeout().expect("a ping is due some time");
        self.dispatcher.handle_timeout(self.now);
        while self.dispatcher.poll_event(self.now).is_some() {}
    }
}

/// A machine that is granted its lock by the reply to its only request.
#[derive(Debug)]
struct Granted {
    has_begun: bool,
    lost: Arc<AtomicUsize>,
}

impl Machine for Granted {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        if !core::mem::replace(&mut self.has_begun, true) {
            turn.stat(NODE);
        }
        match input {
            Input::Reply { .. } => {
                let node = "lock-0000000001".into();
                turn.report(Event::Acquired { node, token: Zxid(1) });
            }
            Input::LeaseEnded => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        false
    }
}

#[test]
fn a_lock_granted_by_a_reply_that_took_longer_than_the_lease_is_lost_at_once() {
    for (latency, losses) in [(5_000, 0), (5_900, 1)] {
        let mut connected = Connected::new();
        let lost = Arc::new(AtomicUsize::new(0));
        let machine = Granted { has_begun: false, lost: lost.clone() };
        connected.dispatcher.attach(connected.now, Box::new(OnSession::new(machine, Nobody, 1)));
        let session = connected.dispatcher.session_mut();
        connected.sent.extend_from_slice(session.output());
        session.handle_sent(connected.now, session.output().len());
        connected.now = connected.now + Duration::from_millis(latency);
        connected.answer();
        assert_eq!(lost.load(Ordering::Relaxed), losses, "{latency} ms");
    }
}

#[test]
fn of_all_renewals_only_the_last_watch_stays() {
    let mut connected = Connected::new();
    let fired = Arc::new(AtomicUsize::new(0));
    let attached = OnSession::new(Watcher { has_begun: false }, Nobody, 1);
    let machine = Box::new(Counting { attached, fired: fired.clone() });
    connected.dispatcher.attach(connected.now, machine);
    let mut watches = connected.answer().len();
    while watches < 5 {
        connected.sleep();
        let renewals = connected.answer();
        watches += renewals.iter().filter(|opcode| **opcode == OpCode::GET_CHILDREN).count();
    }
    assert!(connected.now > Instant::START + Duration::from_secs(60), "{:?}", connected.now);
    connected.fire();
    assert_eq!(fired.load(Ordering::Relaxed), 1);
}
