//! The kinds of work to measure.

use core::fmt::{self, Write as _};
use core::future::poll_fn;
use core::pin::Pin;
use core::str::FromStr;
use core::task::Poll;

/// The node to read and write, and the parent of the others.
pub(crate) const PATH: &str = "/bench";
/// The data of the node.
pub(crate) const DATA: [u8; 100] = [b'x'; 100];

/// Returns a path of 76 bytes.
pub(crate) fn child(number: usize) -> String {
    // In one small allocation: it counts as the client's.
    let mut path = String::with_capacity(76);
    write!(path, "{PATH}/{number:069}").expect("writing to a string succeeds");
    path
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    SequentialGet,
    PipelinedGet256,
    PipelinedGet1024,
    PipelinedSet256,
    /// Pairs of create and delete, 256 in flight.
    CreateDelete256,
    /// One-shot watches, each on its own node, all of which another process changes. Setting them
    /// counts only for the memory.
    WatchesFired,
    /// The same watches, awaited by one task that polls all of them whenever it is woken.
    WatchesJoined,
    /// Requests by tasks that wait for room, four tasks for each request in flight.
    TasksForRoom,
    /// Sessions created all at once; the memory is what each holds afterwards.
    Sessions,
    /// Idle seconds of one of a thousand sessions, which only stays alive.
    IdleSeconds,
    /// Watches set again after the connection is cut; the time is that of one such reconnect.
    WatchesBack,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::SequentialGet,
        Self::PipelinedGet256,
        Self::PipelinedGet1024,
        Self::PipelinedSet256,
        Self::CreateDelete256,
        Self::WatchesFired,
        Self::WatchesJoined,
        Self::TasksForRoom,
        Self::Sessions,
        Self::IdleSeconds,
        Self::WatchesBack,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::SequentialGet => "sequential-get",
            Self::PipelinedGet256 => "pipelined-get-256",
            Self::PipelinedGet1024 => "pipelined-get-1024",
            Self::PipelinedSet256 => "pipelined-set-256",
            Self::CreateDelete256 => "create-delete-256",
            Self::WatchesFired => "watches-fired",
            Self::WatchesJoined => "watches-joined",
            Self::TasksForRoom => "tasks-for-room",
            Self::Sessions => "sessions",
            Self::IdleSeconds => "idle-seconds",
            Self::WatchesBack => "watches-back",
        }
    }

    /// Returns whether the null server can answer it.
    pub(crate) fn suits_null_server(self) -> bool {
        self != Self::WatchesBack
    }

    /// Returns whether it measures watches that fire.
    pub(crate) fn is_watches(self) -> bool {
        matches!(self, Self::WatchesFired | Self::WatchesJoined)
    }

    /// Returns whether only our clients support it.
    pub(crate) fn is_ours_alone(self) -> bool {
        matches!(self, Self::Sessions | Self::IdleSeconds | Self::WatchesBack | Self::TasksForRoom)
    }
}

/// Waits for all futures; polls all of them whenever one is woken.
pub(crate) async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) {
    poll_fn(|cx| {
        futures.retain_mut(|future| Pin::new(future).poll(cx).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("expected one of {}", names()))
    }
}

/// A kind of work, and its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    /// The number of operations.
    pub(crate) operations: usize,
    /// The number of operations in flight.
    pub(crate) in_flight: usize,
}

impl Work {
    pub(crate) fn new(kind: Kind, scale: f64) -> Self {
        let (operations, in_flight) = match kind {
            Kind::SequentialGet => (50_000.0, 1),
            Kind::PipelinedGet256 => (1_000_000.0, 256),
            Kind::PipelinedGet1024 => (1_000_000.0, 1024),
            Kind::PipelinedSet256 => (500_000.0, 256),
            Kind::CreateDelete256 => (200_000.0, 256),
            Kind::WatchesFired | Kind::WatchesJoined => (10_000.0, 1000),
            Kind::TasksForRoom => (16_384.0, 64),
            Kind::Sessions => (1_000.0, 1),
            Kind::IdleSeconds => (30_000.0, 1),
            Kind::WatchesBack => (10_000.0, 1),
        };
        Self { kind, operations: ((operations * scale) as usize).max(1), in_flight }
    }
}
