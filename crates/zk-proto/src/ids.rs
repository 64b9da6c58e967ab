//! Identities that servers hand out.

use core::fmt;

/// The id of a transaction: the order of all changes of an ensemble.
///
/// The upper half is the epoch of the leader that proposed it, the lower half counts within it.
/// Zxids compare as signed numbers, as servers compare them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(
    /// The number as it goes on the wire.
    pub i64,
);

impl Zxid {
    /// What a client that has seen nothing yet reports.
    pub const ZERO: Self = Self(0);

    /// The epoch of the leader.
    pub fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The number within the epoch.
    pub fn counter(self) -> u32 {
        self.0 as u32
    }
}

/// The id of a session. Zero is none.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(
    /// The number as it goes on the wire.
    pub i64,
);

impl SessionId {
    /// No session: asks for a new one, or says that there is none.
    pub const NONE: Self = Self(0);
}

macro_rules! hexadecimal {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        newtype_on_the_wire!($name(i64));
    )*};
}

hexadecimal!(Zxid, SessionId);
