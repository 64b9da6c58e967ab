//! The watches of an attempt, which are renewed when they stay silent, and its timer.

use alloc::vec::Vec;

use zk_session::Error;
use zk_session::dispatch::{Input, Port};
use zk_session::proto::{ExistsRequest, GetChildrenRequest, GetDataRequest, Request};
use zk_session::session::{Reply, State};
use zk_session::sync::Arc;
use zk_session::time::Instant;

use super::connection::Connection;
use super::renewal::Renewal;

/// The number of a request of one attempt. It also identifies the watch that the request sets.
///
/// No two requests of an attempt have the same. It is the tag of the request at the [`Port`].
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(crate) u64);

/// A machine that consists of several gives each a number: the upper half of its request numbers.
impl OpId {
    const PART: u32 = 32;

    pub(super) const fn of(part: u32, number: u64) -> Self {
        Self(((part as u64) << Self::PART) | number)
    }

    /// Returns the number of the request with this tag.
    pub const fn of_tag(tag: u64) -> Self {
        Self(tag)
    }

    /// Returns the tag of the request.
    pub const fn tag(self) -> u64 {
        self.0
    }

    /// Returns the sub-machine whose request it is.
    pub(crate) const fn part(self) -> u32 {
        (self.0 >> Self::PART) as u32
    }
}

/// A request that sets a watch.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) path: Arc<str>,
    pub(crate) kind: WatchKind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum WatchKind {
    End,
    Data,
    Presence,
}

impl Watch {
    fn request(&self) -> Request<'_> {
        let path = &*self.path;
        match self.kind {
            // `getChildren` is the cheapest watch. Lock nodes have no children, so the reply is
            // empty, whatever their data is. It does not fire when the data changes. Unlike
            // `exists`, it leaves no watch if the node is gone.
            WatchKind::End => Request::GetChildren(GetChildrenRequest { path, watch: true }),
            WatchKind::Data => Request::GetData(GetDataRequest { path, watch: true }),
            WatchKind::Presence => Request::Exists(ExistsRequest { path, watch: true }),
        }
    }
}

/// The watches of an attempt and of all its parts, their request numbers, its timer, and its
/// connection.
///
/// A watch that stays silent is [renewed](Renewal).
#[derive(Clone, Debug)]
pub struct Watches {
    /// The last number of a request.
    pub(crate) last_op: u64,
    all: Vec<Watching>,
    /// `None` if watches are not renewed.
    renewal: Option<Renewal>,
    /// The request that renews a watch, until it is answered.
    renewing: Option<u64>,
    /// The time of the last request for a watch, or of the session's resumption. Pings are counted
    /// from then, too.
    silent_since: Instant,
    /// If the machine has received no input by this time, a watch is renewed.
    silent_until: Option<Instant>,
    /// When the machine receives [`Input::Timer`](zk_session::dispatch::Input::Timer).
    pub(crate) alarm: Option<Instant>,
    /// By the last state that the machine has received.
    pub(crate) connection: Connection,
}

/// A watch that is set, and how to renew it.
#[derive(Clone, Debug)]
struct Watching {
    op: OpId,
    /// The session's tag of the request. Each renewal changes between two tags.
    tag: u64,
    watch: Watch,
}

/// The bit in which the two tags of a request differ. Request numbers do not reach it.
const RENEWED: u64 = 1 << 63;

impl Watches {
    /// Creates the watches of one attempt, which are not renewed if `renewal` is `None`. A lost
    /// watch event then makes the machine wait for ever.
    pub const fn new(renewal: Option<Renewal>) -> Self {
        Self {
            last_op: 0,
            all: Vec::new(),
            renewal,
            renewing: None,
            silent_since: Instant::START,
            silent_until: None,
            alarm: None,
            connection: Connection::Up,
        }
    }

    /// Returns the seed of the renewals, before the first wait.
    #[cfg(all(feature = "full", feature = "blocking"))]
    pub(crate) fn seed(&self) -> Option<u64> {
        self.renewal.as_ref().map(Renewal::seed)
    }

    pub(crate) fn set(&mut self, op: OpId, watch: Watch, port: &mut Port<'_>) {
        port.submit_and_watch(op.0, &watch.request());
        self.silent_since = port.now();
        // Mostly there is only one watch.
        self.all.reserve_exact(1);
        self.all.push(Watching { op, tag: op.0, watch });
    }

    /// Drops a watch. Returns whether it was set.
    #[inline(never)]
    pub(crate) fn remove(&mut self, op: OpId, port: &mut Port<'_>) -> bool {
        port.unwatch(op.0);
        port.unwatch(op.0 | RENEWED);
        let place = self.all.iter().position(|watching| watching.op == op);
        place.map(|place| self.all.remove(place)).is_some()
    }

    /// Returns whether the machine receives an input of the session. The tag of a renewal becomes that
    /// of the first request.
    pub(crate) fn receive(&mut self, input: &mut Input, port: &mut Port<'_>) -> bool {
        match input {
            Input::State(state) => {
                self.silent_since = port.now();
                if let State::Renewing = state {
                    // They were dropped with their session.
                    self.all.clear();
                    self.renewing = None;
                }
                true
            }
            Input::Reply { tag, result } => self.reply(tag, result, port),
            Input::Watch { tag, .. } => {
                *tag &= !RENEWED;
                self.remove(OpId(*tag), port)
            }
            Input::Timer => self.alarm.take_if(|at| *at <= port.now()).is_some(),
            Input::LeaseEnded | Input::Settled => true,
            _ => false,
        }
    }

    /// Submits the request of a silent watch again. The old watch stays until the new one is set.
    pub(crate) fn renew_if_silent(&mut self, port: &mut Port<'_>) {
        let now = port.now();
        if self.silent_until.take_if(|at| *at <= now).is_none() {
            return;
        }
        self.silent_since = now;
        let renewal = self.renewal.as_mut();
        let place = renewal.and_then(|renewal| renewal.next(self.all.len()));
        let place = place.filter(|_| self.connection.is_up());
        if let Some(Watching { tag, watch, .. }) = place.map(|place| &self.all[place]) {
            let tag = tag ^ RENEWED;
            self.renewing = Some(tag);
            port.submit_and_watch(tag, &watch.request());
        }
    }

    /// Handles a reply if it is that of a renewal. Returns whether the machine receives it.
    fn reply(&mut self, tag: &mut u64, result: &Result<Reply, Error>, port: &mut Port<'_>) -> bool {
        if self.renewing != Some(*tag) {
            return true;
        }
        self.renewing = None;
        let renewed = core::mem::replace(tag, *tag & !RENEWED);
        let Some(watching) = self.all.iter_mut().find(|watching| watching.op.0 == *tag) else {
            // It has fired or was removed since.
            port.unwatch(renewed);
            return false;
        };
        if result.is_ok() {
            port.unwatch(core::mem::replace(&mut watching.tag, renewed));
        } else {
            port.unwatch(renewed);
        }
        Renewal::is_conclusive(result)
    }

    /// Called after each input: the machine is no longer silent.
    pub(crate) fn set_timer(&mut self, port: &mut Port<'_>) {
        self.silent_until = None;
        if let Some(renewal) = &mut self.renewal
            && self.renewing.is_none()
            && !self.all.is_empty()
        {
            let wait = renewal.wait(port.session_timeout());
            self.silent_until = Some(self.silent_since + wait);
        }
        let at = match (self.alarm, self.silent_until) {
            (Some(alarm), Some(silent_until)) => Some(alarm.min(silent_until)),
            (alarm, silent_until) => alarm.or(silent_until),
        };
        port.set_timer(at);
    }
}
