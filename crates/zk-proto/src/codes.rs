//! Numbers with a meaning. None is an enum: a newer peer may send one that is not known here.

wire_number! {
    /// Which operation a request asks for (`ZooDefs.OpCode`), with the first server that knows it.
    ///
    /// A server answers [`ErrorCode::UNIMPLEMENTED`] to one that it does not know, and closes the
    /// connection (before 3.4.6 it did not answer at all).
    pub struct OpCode {
        /// A watch event; only ever sent by the server, without a request. Since 3.0.
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
        /// Read a node's access control list. Since 3.0.
        GET_ACL = 6,
        /// Replace a node's access control list. Since 3.0.
        SET_ACL = 7,
        /// List a node's children. Since 3.0.
        GET_CHILDREN = 8,
        /// Wait until this member has caught up with the leader. Since 3.0.
        SYNC = 9,
        /// Keep the session alive. Since 3.0.
        PING = 11,
        /// List a node's children and read its stat. Since 3.3.0.
        GET_CHILDREN2 = 12,
        /// Check a node's version; only legal inside a multi. Since 3.4.0.
        CHECK = 13,
        /// Several writes, all or none. Since 3.4.0.
        MULTI = 14,
        /// Create a node; the reply carries its stat too. Since 3.5.0.
        CREATE2 = 15,
        /// Change the members of the ensemble. Since 3.5.0.
        RECONFIG = 16,
        /// Ask whether this connection has a watch. Since 3.5.0.
        CHECK_WATCHES = 17,
        /// Remove watches of this connection. Since 3.5.0.
        REMOVE_WATCHES = 18,
        /// Create a container, which the server deletes once it is empty again. Since 3.5.1.
        CREATE_CONTAINER = 19,
        /// Delete an empty container; servers send it to themselves. Since 3.5.1.
        DELETE_CONTAINER = 20,
        /// Create a node with a time to live. Since 3.5.3; usable since 3.5.4.
        CREATE_TTL = 21,
        /// Several reads, each by itself. Since 3.6.0.
        MULTI_READ = 22,
        /// Present credentials for this connection. Since 3.0.
        AUTH = 100,
        /// Set watches again after a reconnect. Since 3.0.
        SET_WATCHES = 101,
        /// One step of authentication by SASL. Since 3.4.0.
        SASL = 102,
        /// List the ephemeral nodes of this session. Since 3.6.0.
        GET_EPHEMERALS = 103,
        /// Count all nodes below a node. Since 3.6.0.
        GET_ALL_CHILDREN_NUMBER = 104,
        /// As `SET_WATCHES`, with persistent watches. Since 3.6.0.
        SET_WATCHES2 = 105,
        /// Set a watch that stays when it fires. Since 3.6.0.
        ADD_WATCH = 106,
        /// Ask whom the server takes this connection for. Since 3.7.0.
        WHO_AM_I = 107,
        /// Make a session; servers send it to themselves, and it has no record here. A client asks
        /// for a session with a [`ConnectRequest`](crate::ConnectRequest). Since 3.0.
        CREATE_SESSION = -10,
        /// End the session. Since 3.0.
        CLOSE_SESSION = -11,
        /// Not an operation: the type of a failed result inside a multi. Since 3.4.0.
        ERROR = -1,
    }
}

wire_number! {
    /// The outcome of an operation, as a reply's header carries it (`KeeperException.Code`).
    ///
    /// Those made by clients never come from a server.
    pub struct ErrorCode {
        /// Success. Since 3.0.
        OK = 0,
        /// Something went wrong on the server; above it are the errors of the system. Since 3.0.
        SYSTEM_ERROR = -1,
        /// This part of a multi was not run, since another one failed. Since 3.4.0; the number is
        /// that of an inconsistency found at run time, since 3.0.
        RUNTIME_INCONSISTENCY = -2,
        /// Data is inconsistent. Since 3.0.
        DATA_INCONSISTENCY = -3,
        /// Made by clients: the connection was lost. Since 3.0.
        CONNECTION_LOSS = -4,
        /// The server could not decode the request, or failed on it. Since 3.0.
        MARSHALLING_ERROR = -5,
        /// The server does not know the operation, or has it switched off. Since 3.0.
        UNIMPLEMENTED = -6,
        /// Made by clients: the operation took too long. Since 3.0.
        OPERATION_TIMEOUT = -7,
        /// A path, a flag or another argument is invalid. Since 3.0.
        BAD_ARGUMENTS = -8,
        /// Made by the C client: its handle cannot be used any more. Since 3.0.
        INVALID_STATE = -9,
        /// The session is not known; internal to servers. Since 3.5.0.
        UNKNOWN_SESSION = -12,
        /// No quorum of the new configuration is connected. Since 3.5.0.
        NEW_CONFIG_NO_QUORUM = -13,
        /// Another reconfiguration is in progress. Since 3.5.0.
        RECONFIG_IN_PROGRESS = -14,
        /// Made by the C client: no connection by TLS. Since 3.6.0.
        SSL_CONNECTION_ERROR = -15,
        /// Never sent: below it are the errors of operations. Since 3.0.
        API_ERROR = -100,
        /// The node, or the parent to create it in, does not exist. Since 3.0.
        NO_NODE = -101,
        /// The ACL does not permit this. Since 3.0.
        NO_AUTH = -102,
        /// The node has another version than the one given. Since 3.0.
        BAD_VERSION = -103,
        /// An ephemeral node cannot have children. Since 3.0.
        NO_CHILDREN_FOR_EPHEMERALS = -108,
        /// The node exists already. Since 3.0.
        NODE_EXISTS = -110,
        /// The node has children and cannot be deleted. Since 3.0.
        NOT_EMPTY = -111,
        /// The session has expired. Since 3.0.
        SESSION_EXPIRED = -112,
        /// Made by clients: a callback is invalid. Since 3.0.
        INVALID_CALLBACK = -113,
        /// The ACL is invalid. Since 3.0.
        INVALID_ACL = -114,
        /// Authentication failed. Since 3.0.
        AUTH_FAILED = -115,
        /// Made by the C client: it is being closed. Since 3.0.
        CLOSING = -116,
        /// Made by the C client: there is nothing to process. Since 3.0.
        NOTHING = -117,
        /// The session has moved to another server, which mostly closes the connection instead of
        /// saying so. Since 3.2.0.
        SESSION_MOVED = -118,
        /// The server is read-only. Since 3.4.0.
        NOT_READ_ONLY = -119,
        /// A local session cannot own ephemeral nodes. Since 3.5.0.
        EPHEMERAL_ON_LOCAL_SESSION = -120,
        /// There is no such watch. Since 3.5.0.
        NO_WATCHER = -121,
        /// Made by clients: the request took too long. Since 3.5.5.
        REQUEST_TIMEOUT = -122,
        /// Reconfiguration is switched off. Since 3.5.3.
        RECONFIG_DISABLED = -123,
        /// The server demands authentication and closes the session. Since 3.6.0 and 3.5.9.
        SESSION_CLOSED_REQUIRE_SASL_AUTH = -124,
        /// A hard quota is exceeded. Since 3.7.0.
        QUOTA_EXCEEDED = -125,
        /// The server is overloaded and did not run the operation. Since 3.7.0.
        THROTTLED_OP = -127,
    }
}

wire_number! {
    /// What happened to a node (`Watcher.Event.EventType`).
    ///
    /// Those made by clients never come from a server.
    pub struct EventType {
        /// Made by clients: it is the state of the session that changed. Since 3.0.
        NONE = -1,
        /// The node was created. Since 3.0.
        NODE_CREATED = 1,
        /// The node was deleted. Since 3.0.
        NODE_DELETED = 2,
        /// The node's data changed. Since 3.0.
        NODE_DATA_CHANGED = 3,
        /// A child of the node was created or deleted. Since 3.0.
        NODE_CHILDREN_CHANGED = 4,
        /// Made by clients: the watch of `exists` or `getData` was removed. Since 3.5.0.
        DATA_WATCH_REMOVED = 5,
        /// Made by clients: the watch of `getChildren` was removed. Since 3.5.0.
        CHILD_WATCH_REMOVED = 6,
        /// Made by clients: a persistent watch was removed. Since 3.6.0.
        PERSISTENT_WATCH_REMOVED = 7,
    }
}

wire_number! {
    /// The state of a session in a watch event (`Watcher.Event.KeeperState`).
    ///
    /// Servers always send [`SYNC_CONNECTED`](Self::SYNC_CONNECTED); clients tell their users of
    /// the others.
    pub struct KeeperState {
        /// Not used any more. Since 3.0.
        UNKNOWN = -1,
        /// Not connected. Since 3.0.
        DISCONNECTED = 0,
        /// Not used any more. Since 3.0.
        NO_SYNC_CONNECTED = 1,
        /// Connected. Since 3.0.
        SYNC_CONNECTED = 3,
        /// Authentication failed. Since 3.4.0.
        AUTH_FAILED = 4,
        /// Connected to a member that is read-only. Since 3.4.0.
        CONNECTED_READ_ONLY = 5,
        /// Authenticated by SASL. Since 3.4.0.
        SASL_AUTHENTICATED = 6,
        /// The client closed the session. Since 3.5.5.
        CLOSED = 7,
        /// The session has expired. Since 3.0.
        EXPIRED = -112,
    }
}

wire_number! {
    /// What kind of node to create (`CreateMode`). These are numbers, not flags.
    ///
    /// Not every operation takes every mode: [`NodeKind`](crate::NodeKind) knows which.
    pub struct CreateMode {
        /// Stays until it is deleted. Since 3.0.
        PERSISTENT = 0,
        /// Is deleted when the session ends. Since 3.0.
        EPHEMERAL = 1,
        /// Persistent, with a [`Sequence`](crate::Sequence) appended to its name. Since 3.0.
        PERSISTENT_SEQUENTIAL = 2,
        /// Ephemeral, with a [`Sequence`](crate::Sequence) appended to its name. Since 3.0.
        EPHEMERAL_SEQUENTIAL = 3,
        /// Is deleted by the server some time after its last child; needs
        /// [`OpCode::CREATE_CONTAINER`]. Since 3.5.1.
        CONTAINER = 4,
        /// Is deleted by the server once it has had no children and no change for some time; needs
        /// [`OpCode::CREATE_TTL`]. Since 3.5.3.
        PERSISTENT_WITH_TTL = 5,
        /// As [`PERSISTENT_WITH_TTL`](Self::PERSISTENT_WITH_TTL), with a
        /// [`Sequence`](crate::Sequence) appended to its name. Since 3.5.3.
        PERSISTENT_SEQUENTIAL_WITH_TTL = 6,
    }
}

impl CreateMode {
    /// Whether the server appends a number to the name.
    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PERSISTENT_SEQUENTIAL
                | Self::EPHEMERAL_SEQUENTIAL
                | Self::PERSISTENT_SEQUENTIAL_WITH_TTL
        )
    }

    /// Whether the node goes away with the session.
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::EPHEMERAL | Self::EPHEMERAL_SEQUENTIAL)
    }
}

wire_number! {
    /// How a watch that stays is to behave (`AddWatchMode`). Since 3.6.0.
    pub struct AddWatchMode {
        /// Every change of the node and of its list of children. Since 3.6.0.
        PERSISTENT = 0,
        /// Every creation, deletion and data change of the node and all below it. Since 3.6.0.
        PERSISTENT_RECURSIVE = 1,
    }
}

wire_number! {
    /// Which watches on a path to check or to remove (`Watcher.WatcherType`).
    pub struct WatcherType {
        /// The one set by `getChildren`. Since 3.5.0.
        CHILDREN = 1,
        /// The one set by `exists` or `getData`. Since 3.5.0.
        DATA = 2,
        /// All of them. Since 3.5.0.
        ANY = 3,
        /// The persistent one. Since 3.9.0.
        PERSISTENT = 4,
        /// The persistent recursive one. Since 3.9.0.
        PERSISTENT_RECURSIVE = 5,
    }
}

wire_number! {
    /// What an ACL permits; the constants can be combined with `|`. All of them since 3.0.
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
