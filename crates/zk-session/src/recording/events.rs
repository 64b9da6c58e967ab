//! What only clients record: their events, and what happens outside the session.

use zk_proto::ErrorCode;
use zk_proto::recording::Fields;

use super::recorder::{Record, Recorder};
use crate::connect_string::ServerAddress;
use crate::dispatch::Host;
use crate::error::Error;
use crate::session::{Cause, Event, Reply, RequestId, Session, State, WatchedEvent};

/// What has a recorder.
pub(crate) trait Recorded {
    fn recorder(&mut self) -> &mut Recorder;
}

impl<T> Recorded for Session<T> {
    fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }
}

/// What records the session of a client.
pub(super) trait RecordClient: Record {
    fn servers(&mut self, servers: &[ServerAddress]);
    fn event(&mut self, event: EventView<'_>);
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

impl Recorder {
    /// Stands for a list that machines may share, next to the kinds of
    /// [`Submission`](crate::dispatch::Submission).
    pub(crate) const LIST: u64 = 3;

    #[inline]
    pub(crate) fn servers(&mut self, servers: &[ServerAddress]) {
        if let Some(record) = &mut self.0 {
            record.servers(servers);
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
}
