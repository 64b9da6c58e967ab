//! The contender of textbooks: every change of the queue wakes all who wait.
//!
//! It is a [`Contender`] behind a port that watches the lock path where the contender watches its
//! predecessor.

use alloc::boxed::Box;
use alloc::string::String;
use core::task::Waker;
use core::time::Duration;

use zk_session::Error;
use zk_session::dispatch::{Host, Input, Port, Submission};
use zk_session::proto::recording::Description;
use zk_session::proto::{
    ErrorCode, EventType, GetChildrenRequest, GetChildrenResponse, List, Request, SessionId, path,
};
use zk_session::session::{Reply, State};
use zk_session::time::Instant;

use crate::attempt::{AttemptConfig, Command, Event, Given, Machine, Restart, Turn};
use crate::lock::Contender;

/// A [`Contender`] that waits for any change below the lock path, instead of the end of its
/// predecessor. Every change wakes all waiters, which is the herd effect.
#[derive(Clone, Debug)]
pub struct HerdContender {
    config: AttemptConfig,
    contender: Contender,
    /// The name of our node.
    own: String,
    is_held: bool,
    asked: Asked,
}

/// What the contender has asked for.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// Its watch on its predecessor, which is on the lock path.
    watch: Option<u64>,
    /// A watch on its own node, which textbooks do not set while they wait.
    own_watch: Option<u64>,
    /// The last one of these, which was refused.
    refused: Option<u64>,
    /// A list, if a reply shows already that we are first.
    list: Option<u64>,
}

impl HerdContender {
    /// Creates an attempt, as [`Contender::new`].
    pub fn new(config: AttemptConfig) -> Self {
        let (contender, own) = (Contender::new(config.clone()), String::new());
        Self { config, contender, own, is_held: false, asked: Asked::default() }
    }

    /// Lets the contender act. `lists` is whether it may list the children.
    fn act(&mut self, lists: bool, given: Given, turn: &mut Turn<'_>) {
        let Self { config, contender, own, is_held, asked } = self;
        let own_path = path::child(&config.lock_path, own);
        let is_waiting = !*is_held;
        let mut note = |event| {
            match &event {
                Event::Enqueued { node, .. } => *own = String::from(&**node),
                Event::Acquired { .. } => *is_held = true,
                _ => {}
            }
            Some(event)
        };
        turn.filtered(0, &mut note, |turn| {
            let (port, owner, watches) = turn.parts();
            let (now, lock_path) = (port.now(), &*config.lock_path);
            let mut host = Redirected { port, lock_path, own_path, is_waiting, lists, asked };
            given.to(contender, &mut Turn::new(Port::new(&mut host, now), owner, watches));
        });
        if let Some(tag) = self.asked.own_watch.take() {
            self.asked.refused = Some(tag);
            self.reply(tag, Err(Error::Server(ErrorCode::NO_AUTH)), true, turn);
        }
    }

    fn reply(&mut self, tag: u64, result: Result<Reply, Error>, lists: bool, turn: &mut Turn<'_>) {
        let reply = Input::Reply { tag, result };
        self.act(lists, reply.into(), turn);
    }

    /// Handles the reply to a watch on the lock path, which contains the list of children.
    fn seen_again(&mut self, tag: u64, reply: Reply, turn: &mut Turn<'_>) {
        let gone = Err(Error::Server(ErrorCode::NO_NODE));
        let list = reply.decode::<GetChildrenResponse<'_>>();
        let children = list.map_or(List::NULL, |list| list.children);
        let names = || children.iter().filter_map(|child| self.config.scheme.parse(child));
        let first = names().min_by_key(|name| (name.sequence, name.child));
        let is_first = first.is_some_and(|first| first.child == self.own);
        let is_there = names().any(|name| name.child == self.own);
        if is_first {
            self.reply(tag, gone, false, turn);
            if let Some(list) = self.asked.list.take() {
                self.reply(list, Ok(reply), true, turn);
            }
        } else {
            self.reply(tag, if is_there { Ok(reply) } else { gone }, true, turn);
        }
    }
}

impl Machine for HerdContender {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        match input {
            Input::Reply { tag, result: Ok(reply) } if self.asked.watch == Some(tag) => {
                self.seen_again(tag, reply, turn);
            }
            Input::Watch { tag, mut event } if self.asked.watch == Some(tag) => {
                // Of the lock path, not of the predecessor.
                event.event_type = EventType::NODE_CHILDREN_CHANGED;
                let input = Input::Watch { tag, event };
                self.act(true, input.into(), turn);
            }
            input => self.act(true, input.into(), turn),
        }
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        self.act(true, command.into(), turn);
    }

    fn is_done(&self) -> bool {
        self.contender.is_done()
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.config.describe("herd", description);
    }
}

impl Restart for HerdContender {
    fn restart(&self, state: Option<State>) -> Self {
        Self::new(self.config.restart(state))
    }
}

/// Stands behind the port of the contender.
struct Redirected<'a> {
    port: Port<'a>,
    lock_path: &'a str,
    own_path: String,
    is_waiting: bool,
    lists: bool,
    asked: &'a mut Asked,
}

impl Host for Redirected<'_> {
    fn submit(&mut self, tag: u64, request: &Request<'_>, submission: Submission) {
        match (request, submission) {
            (Request::GetChildren(get), Submission::Watch) if get.path != self.own_path => {
                self.asked.watch = Some(tag);
                let list = GetChildrenRequest { path: self.lock_path, watch: true };
                self.port.submit_and_watch(tag, &Request::GetChildren(list));
            }
            (_, Submission::Watch) if self.is_waiting => self.asked.own_watch = Some(tag),
            (_, Submission::Watch) => self.port.submit_and_watch(tag, request),
            (_, Submission::InPieces) if !self.lists => self.asked.list = Some(tag),
            (_, Submission::InPieces) => self.port.submit_in_pieces(tag, request),
            (_, Submission::Plain) => self.port.submit(tag, request),
        }
    }

    fn unwatch(&mut self, tag: u64) {
        if self.asked.refused != Some(tag) {
            self.port.unwatch(tag);
        }
    }

    fn unwatch_all(&mut self) {
        self.port.unwatch_all();
    }

    fn set_timer(&mut self, at: Option<Instant>) {
        self.port.set_timer(at);
    }

    fn settle(&mut self) {
        self.port.settle();
    }

    fn session_id(&self) -> SessionId {
        self.port.session_id()
    }

    fn session_timeout(&self) -> Duration {
        self.port.session_timeout()
    }

    fn lease_has_ended(&self) -> bool {
        self.port.lease_has_ended()
    }

    fn wake(&mut self, waker: Waker) {
        self.port.wake(waker);
    }

    fn report(&mut self, run: Box<dyn FnOnce() + Send>) {
        self.port.report(run);
    }

    fn defer(&mut self, run: Box<dyn FnOnce() + Send>) {
        self.port.defer(run);
    }

    fn see(&mut self, what: u64, is_seen: bool, numbers: &mut [u64]) -> bool {
        self.port.host().see(what, is_seen, numbers)
    }

    fn note(&mut self, write: &dyn Fn(&mut zk_session::proto::recording::Fields<'_>)) {
        self.port.host().note(write);
    }
}
