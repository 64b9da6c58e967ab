//! Numbers with a meaning. None is an enum: a newer peer may send one that is not known here.

wire_number! {
    /// Which operation a request asks for (`ZooDefs.OpCode`).
    pub struct OpCode {
        /// A watch event; only ever sent by the server, without a request.
        NOTIFICATION = 0,
        /// Create a node; the reply names it. Since 3.0.
        CREATE = 1,
        /// Delete a node that has no children. Since 3.0.
        DELETE = 2,
        /// Read a node's stat, if it exists. Since 3.0.
        EXISTS = 3,
        /// Read a node's data. Since 3.0.
        GET_DATA = 4,
        /// Replace a node's data. Since 3.0.
        SET_DATA = 5,
        /// List a node's children. Since 3.0.
        GET_CHILDREN = 8,
        /// Wait until this member has caught up with the leader. Since 3.0.
        SYNC = 9,
        /// Keep the session alive. Since 3.0.
        PING = 11,
        /// List a node's children and read its stat. Since 3.3.
        GET_CHILDREN2 = 12,
        /// Check a node's version; only legal inside a multi. Since 3.4.
        CHECK = 13,
        /// Several writes, all or none. Since 3.4.
        MULTI = 14,
        /// Create a node; the reply carries its stat too. Since 3.5.
        CREATE2 = 15,
        /// Remove watches of this connection. Since 3.5.
        REMOVE_WATCHES = 18,
        /// Create a container, which the server deletes once it is empty again. Since 3.5.1.
        CREATE_CONTAINER = 19,
        /// Set watches again after a reconnect. Since 3.0.
        SET_WATCHES = 101,
        /// As `SET_WATCHES`, with persistent watches. Since 3.6.
        SET_WATCHES2 = 105,
        /// End the session. Since 3.0.
        CLOSE_SESSION = -11,
        /// Not an operation: the type of a failed result inside a multi.
        ERROR = -1,
    }
}

wire_number! {
    /// The outcome of an operation, as a reply's header carries it (`KeeperException.Code`).
    pub struct ErrorCode {
        /// Success.
        OK = 0,
        /// Something went wrong on the server.
        SYSTEM_ERROR = -1,
        /// This part of a multi was not run, since another one failed.
        RUNTIME_INCONSISTENCY = -2,
        /// Data is inconsistent.
        DATA_INCONSISTENCY = -3,
        /// Made by clients: the connection was lost.
        CONNECTION_LOSS = -4,
        /// The server could not decode the request, or failed on it.
        MARSHALLING_ERROR = -5,
        /// The server does not know the operation, or has it switched off.
        UNIMPLEMENTED = -6,
        /// Made by clients: the operation took too long.
        OPERATION_TIMEOUT = -7,
        /// A path, a flag or another argument is invalid.
        BAD_ARGUMENTS = -8,
        /// The session is not known; internal to servers.
        UNKNOWN_SESSION = -12,
        /// No quorum of the new configuration is connected.
        NEW_CONFIG_NO_QUORUM = -13,
        /// Another reconfiguration is in progress.
        RECONFIG_IN_PROGRESS = -14,
        /// The node, or the parent to create it in, does not exist.
        NO_NODE = -101,
        /// The ACL does not permit this.
        NO_AUTH = -102,
        /// The node has another version than the one given.
        BAD_VERSION = -103,
        /// An ephemeral node cannot have children.
        NO_CHILDREN_FOR_EPHEMERALS = -108,
        /// The node exists already.
        NODE_EXISTS = -110,
        /// The node has children and cannot be deleted.
        NOT_EMPTY = -111,
        /// The session has expired.
        SESSION_EXPIRED = -112,
        /// The ACL is invalid.
        INVALID_ACL = -114,
        /// Authentication failed.
        AUTH_FAILED = -115,
        /// The session has moved to another server.
        SESSION_MOVED = -118,
        /// The server is read-only.
        NOT_READ_ONLY = -119,
        /// A local session cannot own ephemeral nodes.
        EPHEMERAL_ON_LOCAL_SESSION = -120,
        /// There is no such watch.
        NO_WATCHER = -121,
        /// Made by clients: the request took too long.
        REQUEST_TIMEOUT = -122,
        /// Reconfiguration is switched off.
        RECONFIG_DISABLED = -123,
        /// The server demands authentication and closes the session.
        SESSION_CLOSED_REQUIRE_SASL_AUTH = -124,
        /// A hard quota is exceeded.
        QUOTA_EXCEEDED = -125,
        /// The server is overloaded and did not run the operation.
        THROTTLED_OP = -127,
    }
}

wire_number! {
    /// What happened to a node (`Watcher.Event.EventType`).
    pub struct EventType {
        /// About the session; made by clients only.
        NONE = -1,
        /// The node was created.
        NODE_CREATED = 1,
        /// The node was deleted.
        NODE_DELETED = 2,
        /// The node's data changed.
        NODE_DATA_CHANGED = 3,
        /// A child of the node was created or deleted.
        NODE_CHILDREN_CHANGED = 4,
    }
}

wire_number! {
    /// The state of a session in a watch event (`Watcher.Event.KeeperState`).
    ///
    /// Servers always send [`SYNC_CONNECTED`](Self::SYNC_CONNECTED).
    pub struct KeeperState {
        /// Not connected.
        DISCONNECTED = 0,
        /// Connected.
        SYNC_CONNECTED = 3,
        /// Authentication failed.
        AUTH_FAILED = 4,
        /// Connected to a member that is read-only.
        CONNECTED_READ_ONLY = 5,
        /// Authenticated by SASL.
        SASL_AUTHENTICATED = 6,
        /// The client closed the session.
        CLOSED = 7,
        /// The session has expired.
        EXPIRED = -112,
    }
}

wire_number! {
    /// What kind of node to create (`CreateMode`). These are numbers, not flags.
    pub struct CreateMode {
        /// Stays until it is deleted.
        PERSISTENT = 0,
        /// Is deleted when the session ends.
        EPHEMERAL = 1,
        /// Persistent, with a [`Sequence`](crate::Sequence) appended to its name.
        PERSISTENT_SEQUENTIAL = 2,
        /// Ephemeral, with a [`Sequence`](crate::Sequence) appended to its name.
        EPHEMERAL_SEQUENTIAL = 3,
        /// Is deleted by the server some time after its last child; needs
        /// [`OpCode::CREATE_CONTAINER`].
        CONTAINER = 4,
    }
}

impl CreateMode {
    /// Whether the server appends a number to the name.
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::PERSISTENT_SEQUENTIAL | Self::EPHEMERAL_SEQUENTIAL)
    }

    /// Whether the node goes away with the session.
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::EPHEMERAL | Self::EPHEMERAL_SEQUENTIAL)
    }
}

wire_number! {
    /// How a watch that stays is to behave (`AddWatchMode`).
    pub struct AddWatchMode {
        /// Every change of the node and of its list of children.
        PERSISTENT = 0,
        /// Every creation, deletion and data change of the node and all below it.
        PERSISTENT_RECURSIVE = 1,
    }
}

wire_number! {
    /// Which watches on a path to remove (`Watcher.WatcherType`).
    pub struct WatcherType {
        /// The one set by `getChildren`.
        CHILDREN = 1,
        /// The one set by `exists` or `getData`.
        DATA = 2,
        /// All of them.
        ANY = 3,
        /// The persistent one. Since 3.9.
        PERSISTENT = 4,
        /// The persistent recursive one. Since 3.9.
        PERSISTENT_RECURSIVE = 5,
    }
}

wire_number! {
    /// What an ACL permits; the constants can be combined with `|`.
    pub struct Perms {
        /// Read data and list children.
        READ = 1,
        /// Replace data.
        WRITE = 2,
        /// Create children.
        CREATE = 4,
        /// Delete children.
        DELETE = 8,
        /// Change the ACL.
        ADMIN = 16,
        /// Everything.
        ALL = 31,
    }
}

impl Perms {
    /// Whether all of `other` is permitted.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for Perms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
