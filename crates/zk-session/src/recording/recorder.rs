//! What a session tells its recorder, where its inputs and outputs pass.
//!
//! A program that makes no [`Recording`](super::Recording) has none of the code behind it: only that makes a [`Record`].

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;

use zk_proto::frame::FrameError;
use zk_proto::recording::{Fields, Kind};
use zk_proto::{ErrorCode, Request, Xid};

use crate::connect_string::ServerAddress;
use crate::dispatch::{Attached, Host, Input, Key, Submission};
use crate::error::Error;
use crate::session::{Action, Cause, Event, Reply, RequestId, Session, State, WatchedEvent};
use crate::time::Instant;

/// What records a session.
pub(super) trait Record: Send + Sync {
    /// Records a call of the dispatcher. Until its [end](Self::end), nothing is an input.
    fn begin(&mut self, kind: Kind, now: Instant, numbers: &[u64]);
    /// Begins a call that attaches a machine.
    fn attached(&mut self, now: Instant, machine: &dyn Attached);
    /// Begins a call in which a machine receives a message.
    fn commanded(
        &mut self,
        now: Instant,
        key: Key,
        machine: Option<&dyn Attached>,
        message: &dyn Any,
    );
    fn end(&mut self);
    /// Records an input, unless the dispatcher makes it.
    fn input(&mut self, kind: Kind, now: Option<Instant>, numbers: &[u64]);
    fn output(&mut self, kind: Kind, numbers: &[u64]);
    fn servers(&mut self, servers: &[ServerAddress]);
    fn connected(&mut self, now: Instant);
    /// Records bytes that the transport has taken.
    fn sent(&mut self, now: Instant, bytes: &[u8]);
    /// Records a frame without its length prefix.
    fn received(&mut self, now: Instant, payload: &[u8]);
    fn rest(&mut self, now: Instant, bytes: &[u8]);
    fn bad_frame(&mut self, now: Instant, error: FrameError);
    fn oversized(&mut self, now: Instant, start: &[u8], length: usize);
    fn addresses(&mut self, counts: &[usize]);
    fn update_servers(&mut self, now: Instant, kept: &[Option<usize>], count: usize, moves: bool);
    fn request(&mut self, kind: Kind, numbers: &[u64], request: &Request<'_>);
    fn add_auth(&mut self, scheme: &str, auth: &[u8]);
    fn event(&mut self, event: EventView<'_>);
    fn called(&mut self, key: Key, input: Option<&Input>);
    /// Records what a machine observes. A replay returns what was recorded instead.
    fn sees(&mut self, what: u64, is_seen: bool, numbers: &mut [u64]) -> bool;
    fn notes(&mut self, write: &dyn Fn(&mut Fields<'_>));
}

/// An event without its token.
pub(super) enum EventView<'e> {
    State(State),
    Disconnected(usize, &'e Cause),
    Authenticate(usize),
    AuthenticationReply(usize, &'e Result<Reply, Error>),
    Reply(&'e Result<Reply, Error>),
    Watch(&'e [RequestId], &'e [RequestId], &'e WatchedEvent),
    Gap(&'e [RequestId]),
    WatchLost(&'e [RequestId], ErrorCode),
    LeaseEnded,
    Room,
}

/// Records a session, or nothing, which is the default. A clone of a session is not recorded.
#[derive(Default)]
pub(crate) struct Recorder(Option<Box<dyn Record>>);

impl Clone for Recorder {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Recorder(on)" } else { "Recorder(off)" })
    }
}

/// What has a recorder.
pub(crate) trait Recorded {
    fn recorder(&mut self) -> &mut Recorder;
}

impl<T> Recorded for Session<T> {
    fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }
}

impl Recorder {
    /// Stands for a list that machines may share, next to the kinds of [`Submission`].
    pub(crate) const LIST: u64 = 3;

    pub(super) const fn new(record: Option<Box<dyn Record>>) -> Self {
        Self(record)
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(crate) fn begin(&mut self, kind: Kind, now: Instant, numbers: &[u64]) {
        if let Some(record) = &mut self.0 {
            record.begin(kind, now, numbers);
        }
    }

    #[inline]
    pub(crate) fn attached(&mut self, now: Instant, machine: &dyn Attached) {
        if let Some(record) = &mut self.0 {
            record.attached(now, machine);
        }
    }

    #[inline]
    pub(crate) fn commanded(
        &mut self,
        now: Instant,
        key: Key,
        machine: Option<&dyn Attached>,
        message: &mut dyn Any,
    ) {
        if let Some(record) = &mut self.0 {
            record.commanded(now, key, machine, message);
        }
    }

    #[inline]
    pub(crate) fn end(&mut self) {
        if let Some(record) = &mut self.0 {
            record.end();
        }
    }

    #[inline]
    pub(crate) fn input(&mut self, kind: Kind, now: Option<Instant>, numbers: &[u64]) {
        if let Some(record) = &mut self.0 {
            record.input(kind, now, numbers);
        }
    }

    #[inline]
    pub(crate) fn output(&mut self, kind: Kind, numbers: &[u64]) {
        if let Some(record) = &mut self.0 {
            record.output(kind, numbers);
        }
    }

    #[inline]
    pub(crate) fn servers(&mut self, servers: &[ServerAddress]) {
        if let Some(record) = &mut self.0 {
            record.servers(servers);
        }
    }

    #[inline]
    pub(crate) fn connected(&mut self, now: Instant) {
        if let Some(record) = &mut self.0 {
            record.connected(now);
        }
    }

    #[inline]
    pub(crate) fn sent(&mut self, now: Instant, bytes: &[u8]) {
        if let Some(record) = &mut self.0 {
            record.sent(now, bytes);
        }
    }

    #[inline]
    pub(crate) fn received(&mut self, now: Instant, payload: &[u8]) {
        if let Some(record) = &mut self.0 {
            record.received(now, payload);
        }
    }

    #[inline]
    pub(crate) fn rest(&mut self, now: Instant, bytes: &[u8]) {
        if let Some(record) = &mut self.0 {
            record.rest(now, bytes);
        }
    }

    #[inline]
    pub(crate) fn bad_frame(&mut self, now: Instant, error: FrameError) {
        if let Some(record) = &mut self.0 {
            record.bad_frame(now, error);
        }
    }

    #[inline]
    pub(crate) fn update_servers(
        &mut self,
        now: Instant,
        kept: &[Option<usize>],
        count: usize,
        moves: bool,
    ) {
        if let Some(record) = &mut self.0 {
            record.update_servers(now, kept, count, moves);
        }
    }

    #[inline]
    pub(crate) fn addresses(&mut self, counts: &[usize]) {
        if let Some(record) = &mut self.0 {
            record.addresses(counts);
        }
    }

    #[inline]
    pub(crate) fn oversized(&mut self, now: Instant, start: &[u8], length: usize) {
        if let Some(record) = &mut self.0 {
            record.oversized(now, start, length);
        }
    }

    /// Records a submission, of a caller or of a machine.
    #[inline]
    pub(crate) fn submitted(
        &mut self,
        request: &Request<'_>,
        deadline: Option<Instant>,
        in_pieces: bool,
        xid: Option<Xid>,
    ) {
        if let Some(record) = &mut self.0 {
            let xid = xid.map_or(0, |xid| xid.0 as u64);
            record.request(Kind::SUBMIT, &[xid, moment(deadline), in_pieces.into()], request);
        }
    }

    #[inline]
    pub(crate) fn authenticate(&mut self, request: &Request<'_>) {
        if let Some(record) = &mut self.0 {
            record.request(Kind::AUTHENTICATE, &[], request);
        }
    }

    #[inline]
    pub(crate) fn add_auth(&mut self, scheme: &str, auth: &[u8]) {
        if let Some(record) = &mut self.0 {
            record.add_auth(scheme, auth);
        }
    }

    #[inline]
    pub(crate) fn action(&mut self, action: Option<&Action>) {
        if let Some(action) = action {
            let numbers = match *action {
                Action::Connect(server) => [0, server as u64],
                Action::Disconnect => [1, 0],
                Action::Probe(server) => [2, server as u64],
            };
            self.output(Kind::ACTION, &numbers);
        }
    }

    #[inline]
    pub(crate) fn event<T>(&mut self, event: Option<&Event<T>>) {
        if let Some(record) = &mut self.0
            && let Some(event) = event
        {
            record.event(match event {
                Event::State(state) => EventView::State(*state),
                Event::Disconnected { server, cause } => EventView::Disconnected(*server, cause),
                Event::Authenticate { server } => EventView::Authenticate(*server),
                Event::AuthenticationReply { server, result } => {
                    EventView::AuthenticationReply(*server, result)
                }
                Event::Reply { result, .. } => EventView::Reply(result),
                Event::Watch { requests, persistent, event } => {
                    EventView::Watch(requests, persistent, event)
                }
                Event::Gap { requests } => EventView::Gap(requests),
                Event::WatchLost { requests, code } => EventView::WatchLost(requests, *code),
                Event::LeaseEnded => EventView::LeaseEnded,
                Event::Room => EventView::Room,
            });
        }
    }

    /// Records a call of a machine: its input, or `None` for a message of its owner.
    #[inline]
    pub(crate) fn called(&mut self, key: Key, input: Option<&Input>) {
        if let Some(record) = &mut self.0 {
            record.called(key, input);
        }
    }

    #[inline]
    pub(crate) fn sees(&mut self, what: u64, is_seen: bool, numbers: &mut [u64]) -> bool {
        match &mut self.0 {
            Some(record) => record.sees(what, is_seen, numbers),
            None => is_seen,
        }
    }

    #[inline]
    pub(crate) fn notes(&mut self, write: &dyn Fn(&mut Fields<'_>)) {
        if let Some(record) = &mut self.0 {
            record.notes(write);
        }
    }

    /// Returns what a machine observes, after its host has recorded or replaced it.
    #[inline]
    pub(crate) fn see<T, const N: usize>(
        host: &mut dyn Host,
        what: u64,
        seen: Option<T>,
        encode: impl FnOnce(&T) -> [u64; N],
        decode: impl FnOnce([u64; N]) -> Option<T>,
    ) -> Option<T> {
        let mut numbers = seen.as_ref().map_or([0; N], encode);
        host.see(what, seen.is_some(), &mut numbers).then_some(numbers).and_then(decode)
    }

    #[inline]
    pub(crate) fn note(host: &mut dyn Host, write: &dyn Fn(&mut Fields<'_>)) {
        host.note(write);
    }

    #[inline]
    pub(crate) fn machine_submits(&mut self, tag: u64, kind: Submission) {
        self.output(Kind::MACHINE_SUBMIT, &[tag, kind as u64]);
    }

    #[inline]
    pub(crate) fn machine_sets_timer(&mut self, at: Option<Instant>) {
        self.output(Kind::MACHINE_TIMER, &[moment(at)]);
    }
}

pub(super) fn nanoseconds(now: Instant) -> u64 {
    now.since_start().as_nanos() as u64
}

/// Returns a moment plus 1, or 0 for none.
fn moment(at: Option<Instant>) -> u64 {
    at.map_or(0, |at| nanoseconds(at).saturating_add(1))
}
