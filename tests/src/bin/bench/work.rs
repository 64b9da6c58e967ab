//! What is measured.

use core::fmt;
use core::str::FromStr;

/// The node that is read and written.
pub(crate) const PATH: &str = "/bench";
/// What it holds.
pub(crate) const DATA: [u8; 100] = [b'x'; 100];

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    SequentialGet,
    PipelinedGet256,
    PipelinedGet1024,
    PipelinedSet256,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::SequentialGet, Self::PipelinedGet256, Self::PipelinedGet1024, Self::PipelinedSet256];

    fn name(self) -> &'static str {
        match self {
            Self::SequentialGet => "sequential-get",
            Self::PipelinedGet256 => "pipelined-get-256",
            Self::PipelinedGet1024 => "pipelined-get-1024",
            Self::PipelinedSet256 => "pipelined-set-256",
        }
    }
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
            .ok_or_else(|| format!("it is one of {}", names()))
    }
}

/// A kind of work, and how much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// How many operations.
    pub(crate) operations: usize,
    /// How many of them are under way at once.
    pub(crate) in_flight: usize,
    /// Whether they write.
    pub(crate) writes: bool,
}

impl Work {
    pub(crate) fn new(kind: Kind, scale: f64) -> Self {
        let (operations, in_flight, writes) = match kind {
            Kind::SequentialGet => (50_000.0, 1, false),
            Kind::PipelinedGet256 => (1_000_000.0, 256, false),
            Kind::PipelinedGet1024 => (1_000_000.0, 1024, false),
            Kind::PipelinedSet256 => (500_000.0, 256, true),
        };
        Self { operations: (operations * scale) as usize, in_flight, writes }
    }
}
