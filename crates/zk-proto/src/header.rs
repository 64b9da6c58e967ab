//! What stands before every request and every reply.

use core::fmt;

use crate::codes::{ErrorCode, OpCode};
use crate::ids::Zxid;

/// The number by which a client matches a reply to its request.
///
/// Ordinary requests count up from 1. The negative ones are reserved (`ClientCnxn.java`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(
    /// The number as it goes on the wire.
    pub i32,
);

impl Xid {
    /// A watch event; only ever sent by the server.
    pub const NOTIFICATION: Self = Self(-1);
    /// A ping. The server answers with this number whatever the request had.
    pub const PING: Self = Self(-2);
    /// Credentials.
    pub const AUTH: Self = Self(-4);
    /// Watches set again after a reconnect.
    pub const SET_WATCHES: Self = Self(-8);
    /// The first ordinary one.
    pub const FIRST: Self = Self(1);

    /// Returns the xid of the next request. The first xid follows the last one, and every reserved
    /// xid.
    #[must_use]
    pub fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(next) if next > 0 => Self(next),
            _ => Self::FIRST,
        }
    }
}

impl fmt::Debug for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Xid({self})")
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NOTIFICATION => f.pad("NOTIFICATION"),
            Self::PING => f.pad("PING"),
            Self::AUTH => f.pad("AUTH"),
            Self::SET_WATCHES => f.pad("SET_WATCHES"),
            Self(xid) => fmt::Display::fmt(&xid, f),
        }
    }
}

newtype_on_the_wire!(
    Xid(i32),
    &[Xid::NOTIFICATION, Xid::PING, Xid::AUTH, Xid::SET_WATCHES, Xid::FIRST]
);

record! {
    /// Stands before every request except the first frame of a connection. Since 3.0.
    pub struct RequestHeader {
        /// Chosen by the client, echoed by the server.
        pub xid: Xid,
        /// Which operation the body asks for.
        pub opcode: OpCode,
    }
}

record! {
    /// Stands before every reply and notification except the first frame of a connection. Since
    /// 3.0.
    ///
    /// When `err` is not 0 there is no body, or one to be ignored.
    pub struct ReplyHeader {
        /// The request that this answers, or a reserved number.
        pub xid: Xid,
        /// The newest transaction that the server had applied when it answered. Only that of
        /// replies to ordinary requests counts as seen by the client (`ClientCnxn.java`); it is
        /// 0 or -1 in some others.
        pub zxid: Zxid,
        /// How it went.
        pub err: ErrorCode,
    }
}
