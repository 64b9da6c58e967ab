//! The headers of requests and replies.

use core::fmt;

use crate::codes::{ErrorCode, OpCode};
use crate::ids::Zxid;

/// The number by which a client matches a reply to its request.
///
/// Ordinary requests count up from 1. Some negative numbers are reserved
/// (`ClientCnxn`, constants `*_XID`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(
    /// The number on the wire.
    pub i32,
);

impl Xid {
    /// The xid of a watch event, which only servers send.
    pub const NOTIFICATION: Self = Self(-1);
    /// The xid of a ping. The reply has it even if the request had another.
    pub const PING: Self = Self(-2);
    /// The xid of credentials.
    pub const AUTH: Self = Self(-4);
    /// The xid of watches that are set again after a reconnect.
    pub const SET_WATCHES: Self = Self(-8);
    /// The first xid of an ordinary request.
    pub const FIRST: Self = Self(1);

    /// Returns the xid of the next request.
    ///
    /// After the last xid, and after every reserved xid, it returns the first xid.
    ///
    /// ```
    /// use zk_proto::Xid;
    ///
    /// assert_eq!(Xid(7).next(), Xid(8));
    /// assert_eq!(Xid(i32::MAX).next(), Xid::FIRST);
    /// assert_eq!(Xid::PING.next(), Xid::FIRST);
    /// ```
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
    &[Xid::NOTIFICATION, Xid::PING, Xid::AUTH, Xid::SET_WATCHES, Xid::FIRST],
    &[(-1, "NOTIFICATION"), (-2, "PING"), (-4, "AUTH"), (-8, "SET_WATCHES")]
);

record! {
    /// The header of every request except the first frame of a connection. Since 3.0.
    pub struct RequestHeader {
        /// The number that the client chose. The server repeats it in the reply.
        pub xid: Xid,
        /// The operation, which determines the type of the body.
        pub opcode: OpCode,
    }
}

record! {
    /// The header of every reply and watch event except the first frame of a connection. Since 3.0.
    ///
    /// If `err` is not [`ErrorCode::OK`], there is no body, or one to ignore.
    ///
    /// ```
    /// use zk_proto::{Decode, ErrorCode, ReplyHeader, Xid};
    ///
    /// let header = ReplyHeader::decode_all(b"\0\0\0\x01\0\0\0\0\0\0\0\x05\xff\xff\xff\x9b")?;
    /// assert_eq!((header.xid, header.err), (Xid(1), ErrorCode::NO_NODE));
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    pub struct ReplyHeader {
        /// The xid of the request, or a reserved xid.
        pub xid: Xid,
        /// The newest transaction that the server had applied when it answered.
        ///
        /// Only replies to ordinary requests count as seen by the client
        /// (`ClientCnxn.SendThread.readResponse`). In other frames the zxid may be 0 or -1.
        pub zxid: Zxid,
        /// The outcome of the operation.
        pub err: ErrorCode,
    }
}
