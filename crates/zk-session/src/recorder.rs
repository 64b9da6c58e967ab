//! What a session tells its recorder, where its inputs and outputs pass.
//!
//! A program that makes no `Recording` has none of the code behind it: only that makes a [`Record`].

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;

use zk_proto::frame::FrameError;
use zk_proto::recording::{Fields, Kind};
use zk_proto::{Request, Xid};

use crate::dispatch::attached::{Attached, Input};
use crate::dispatch::port::{RECORDS, Submission};
use crate::dispatch::token::Key;
use crate::session::event::{Action, Event};
use crate::time::Instant;

/// Declares once what can be recorded: the methods of [`Record`], and those of [`Recorder`], which
/// do nothing unless there is one.
macro_rules! recorded {
    ($( $(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),*); )*) => {
        /// What records a session.
        pub(crate) trait Record: Send + Sync {
            $( $(#[$attribute])* fn $name(&mut self, $($argument: $type),*); )*

            /// Records an event, without its token.
            fn event(&mut self, event: Event<()>);

            /// Records what a machine observes. A replay returns what was recorded instead.
            fn sees(&mut self, what: u64, is_seen: bool, numbers: &mut [u64]) -> bool;
        }

        impl Recorder {
            $(
                $(#[$attribute])*
                #[inline]
                pub(crate) fn $name(&mut self, $($argument: $type),*) {
                    if let Some(record) = self.on() {
                        record.$name($($argument),*);
                    }
                }
            )*
        }
    };
}

recorded! {
    /// Records a call of the dispatcher. Until its [end](Self::end), nothing is an input.
    fn begin(kind: Kind, now: Instant, numbers: &[u64]);
    /// Begins a call that attaches a machine.
    fn attached(now: Instant, machine: &dyn Attached);
    /// Begins a call in which a machine receives a message.
    fn commanded(now: Instant, key: Key, machine: Option<&dyn Attached>, message: &mut dyn Any);
    /// Ends a call.
    fn end();
    /// Records an input, unless the dispatcher makes it.
    fn input(kind: Kind, now: Option<Instant>, numbers: &[u64]);
    /// Records an output.
    fn output(kind: Kind, numbers: &[u64]);
    /// Records that the transport is connected.
    fn connected(now: Instant);
    /// Records bytes that the transport has taken.
    fn sent(now: Instant, bytes: &[u8]);
    /// Records a frame without its length prefix.
    fn received(now: Instant, payload: &[u8]);
    /// Records more bytes of a frame that is too long.
    fn rest(now: Instant, bytes: &[u8]);
    /// Records a frame with an invalid length.
    fn bad_frame(now: Instant, error: FrameError);
    /// Records the start of a frame that is too long.
    fn oversized(now: Instant, start: &[u8], length: usize);
    /// Records how many addresses each server has.
    fn addresses(counts: &[usize]);
    /// Records that the list of servers is replaced.
    fn update_servers(now: Instant, kept: &[Option<usize>], count: usize, moves: bool);
    /// Records a request behind other fields.
    fn request(kind: Kind, numbers: &[u64], request: &Request<'_>);
    /// Records a credential by its number.
    fn add_auth(scheme: &str, auth: &[u8]);
    /// Records a call of a machine: its input, or `None` for a message of its owner.
    fn called(key: Key, input: Option<&Input>);
    /// Records an output with other fields than numbers.
    fn write(kind: Kind, write: &dyn Fn(&mut Fields<'_>));
}

/// Records a session, or nothing, which is the default. A clone of a session is not recorded.
///
/// Without clients there is no place for what records, and the compiler leaves out all of this.
#[derive(Default)]
pub(crate) struct Recorder(pub(crate) [Option<Box<dyn Record>>; RECORDS as usize]);

impl Clone for Recorder {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Recorder(on)" } else { "Recorder(off)" })
    }
}

impl Recorder {
    /// Stands for a list that machines may share, next to the kinds of [`Submission`].
    pub(crate) const LIST: u64 = 3;

    #[inline]
    fn on(&mut self) -> Option<&mut Box<dyn Record>> {
        self.0.first_mut()?.as_mut()
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    #[inline]
    pub(crate) fn event<T>(&mut self, event: Option<&Event<T>>) {
        if let Some(record) = self.on()
            && let Some(event) = event
        {
            record.event(event.without_token());
        }
    }

    #[inline]
    pub(crate) fn sees(&mut self, what: u64, is_seen: bool, numbers: &mut [u64]) -> bool {
        self.on().map_or(is_seen, |record| record.sees(what, is_seen, numbers))
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
        if self.is_on() {
            let xid = xid.map_or(0, |xid| xid.0 as u64);
            self.request(Kind::SUBMIT, &[xid, moment(deadline), in_pieces.into()], request);
        }
    }

    #[inline]
    pub(crate) fn authenticate(&mut self, request: &Request<'_>) {
        self.request(Kind::AUTHENTICATE, &[], request);
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
    pub(crate) fn machine_submits(&mut self, tag: u64, kind: Submission) {
        self.output(Kind::MACHINE_SUBMIT, &[tag, kind as u64]);
    }

    #[inline]
    pub(crate) fn machine_sets_timer(&mut self, at: Option<Instant>) {
        self.output(Kind::MACHINE_TIMER, &[moment(at)]);
    }
}

pub(crate) fn nanoseconds(now: Instant) -> u64 {
    now.since_start().as_nanos() as u64
}

/// Returns a moment plus 1, or 0 for none.
fn moment(at: Option<Instant>) -> u64 {
    at.map_or(0, |at| nanoseconds(at).saturating_add(1))
}
