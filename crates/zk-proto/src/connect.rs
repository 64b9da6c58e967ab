//! The handshake: the first frame in each direction, without a header.

use crate::ids::{Password, SessionId, Zxid};

records! {
    /// A request to create or resume a session: the first frame from a client. Since 3.0.
    ///
    /// It has no header and no opcode.
    ///
    /// ```
    /// use zk_proto::{ConnectRequest, SessionId, Zxid, frame};
    ///
    /// let request = ConnectRequest::new_session(30_000);
    /// assert_eq!((request.session_id, request.last_zxid_seen), (SessionId::NONE, Zxid::ZERO));
    /// let mut buffer = [0; 64];
    /// assert_eq!(frame::encode_to_slice(&request, &mut buffer)?, 49);
    /// # Ok::<(), zk_proto::EncodeError>(())
    /// ```
    #[doc(alias = "handshake")]
    pub struct ConnectRequest<'a> {
        /// Always 0.
        pub protocol_version: i32,
        /// The newest transaction that this client has seen.
        ///
        /// A server that has not applied it closes the connection without a reply.
        pub last_zxid_seen: Zxid,
        /// The requested session timeout in milliseconds.
        pub timeout: i32,
        /// The session to resume, or [`SessionId::NONE`] for a new one.
        pub session_id: SessionId,
        /// The [`Password`](crate::Password) of that session: 16 bytes, all zero for a new session.
        [secret] pub password: Option<&'a [u8]>,
        /// Whether the client accepts a read-only server.
        ///
        /// `None` omits the byte, as clients before 3.4 did.
        pub read_only: Option<bool>,
    }

    /// The answer to a [`ConnectRequest`]: the first frame from a server. Since 3.0.
    ///
    /// Since 3.7.0, a read-only server that cannot create a session sends a
    /// [`ReplyHeader`](crate::ReplyHeader) with [`ErrorCode::NOT_READ_ONLY`](crate::ErrorCode)
    /// instead.
    #[doc(alias = "handshake")]
    pub struct ConnectResponse<'a> {
        /// Always 0.
        pub protocol_version: i32,
        /// The granted session timeout in milliseconds. Without a session, it is 0 or less.
        pub timeout: i32,
        /// The session, or [`SessionId::NONE`] if there is none.
        pub session_id: SessionId,
        /// The password to resume the session. Clients keep the one from the latest response.
        [secret] pub password: Option<&'a [u8]>,
        /// Whether this server is read-only. `None` if the byte is absent, as from servers before
        /// 3.4.
        pub read_only: Option<bool>,
    }
}

impl ConnectRequest<'static> {
    /// Returns the request for a new session, with a timeout in milliseconds.
    #[must_use]
    pub const fn new_session(timeout: i32) -> Self {
        Self {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout,
            session_id: SessionId::NONE,
            password: Some(&Password::NONE.0),
            read_only: Some(false),
        }
    }
}

impl ConnectResponse<'_> {
    /// Returns whether the server refuses the session.
    ///
    /// The session has expired, is unknown, or the password is wrong. Servers do not distinguish
    /// these cases (`ZooKeeperServer.finishSessionInit`).
    ///
    /// ```
    /// use zk_proto::{ConnectResponse, Decode};
    ///
    /// let mut refusal = [0; 37];
    /// refusal[19] = 16; // the length of the password
    /// assert!(ConnectResponse::decode_all(&refusal)?.is_expired());
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    pub fn is_expired(&self) -> bool {
        self.timeout <= 0 || self.session_id == SessionId::NONE
    }
}
