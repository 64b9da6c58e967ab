//! The handshake: the first frame of a connection in each direction, without a header.

use crate::ids::{SessionId, Zxid};

records! {
    /// Asks for a new session, or to take up an old one on this connection: the first frame from a
    /// client, without an opcode. Since 3.0.
    pub struct ConnectRequest<'a> {
        /// Always 0.
        pub protocol_version: i32,
        /// The newest transaction that this client has seen. A member that is behind it closes the
        /// connection without a word.
        pub last_zxid_seen: Zxid,
        /// The session timeout that the client would like, in milliseconds.
        pub timeout: i32,
        /// The session to resume, or [`SessionId::NONE`].
        pub session_id: SessionId,
        /// The password of that session: 16 bytes, zeros for a new one. See
        /// [`Password`](crate::Password).
        [secret] pub password: Option<&'a [u8]>,
        /// Whether a read-only member will do. `None` leaves the byte out, as 3.3 and older did.
        pub read_only: Option<bool>,
    }

    /// Answers a [`ConnectRequest`]: the first frame from a server. Since 3.0.
    ///
    /// A read-only server that cannot make a session sends a
    /// [`ReplyHeader`](crate::ReplyHeader) with [`ErrorCode::NOT_READ_ONLY`](crate::ErrorCode) in
    /// its place (3.7.0 and later).
    pub struct ConnectResponse<'a> {
        /// Always 0.
        pub protocol_version: i32,
        /// The session timeout that the server grants, in milliseconds. Not above 0: no session.
        pub timeout: i32,
        /// The session, or [`SessionId::NONE`]: no session.
        pub session_id: SessionId,
        /// The password with which to resume it, to be kept from every answer.
        [secret] pub password: Option<&'a [u8]>,
        /// Whether this member is read-only. `None` when the byte is absent, as from 3.3 and older.
        pub read_only: Option<bool>,
    }
}

impl ConnectResponse<'_> {
    /// Whether the server says that the session is gone: expired, unknown, or asked for with a
    /// wrong password, which it does not tell apart (`ZooKeeperServer.java`).
    pub fn is_expired(&self) -> bool {
        self.timeout <= 0 || self.session_id == SessionId::NONE
    }
}
