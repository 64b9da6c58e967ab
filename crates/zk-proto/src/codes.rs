//! Numbers with a meaning: operations, errors, events, modes and permissions.
//!
//! None of them is an enum, because a newer peer may send a number that is unknown here.
//!
//! "Since" names the first release whose source has the number: `ZooDefs.OpCode`,
//! `KeeperException.Code`, `Watcher.Event`, `Watcher.WatcherType`, `CreateMode` and `AddWatchMode`.

wire_number! {
    /// The operation that a request asks for, with the first server version that knows it.
    ///
    /// A server answers an unknown operation with [`ErrorCode::UNIMPLEMENTED`] and closes the
    /// connection. Servers before 3.4.6 do not answer at all (`UnimplementedRequestProcessor`).
    #[doc(alias = "ZooDefs.OpCode")]
    pub struct OpCode {
        /// A watch event, which only servers send and which answers no request. Since 3.0.
        NOTIFICATION("notification") = 0,
        /// Creates a node; the reply contains its path. Since 3.0.
        CREATE("create") = 1,
        /// Deletes a node without children. Since 3.0.
        DELETE("delete") = 2,
        /// Reads the stat of a node, or reports that the node does not exist. Since 3.0.
        EXISTS("exists") = 3,
        /// Reads the data and the stat of a node. Since 3.0.
        GET_DATA("getData") = 4,
        /// Replaces the data of a node. Since 3.0.
        SET_DATA("setData") = 5,
        /// Reads the access control list of a node. Since 3.0.
        GET_ACL("getACL") = 6,
        /// Replaces the access control list of a node. Since 3.0.
        SET_ACL("setACL") = 7,
        /// Lists the children of a node. Since 3.0.
        GET_CHILDREN("getChildren") = 8,
        /// Waits until this server has caught up with the leader. Since 3.0.
        SYNC("sync") = 9,
        /// Keeps the session alive. Since 3.0.
        PING("ping") = 11,
        /// Lists the children of a node and reads its stat. Since 3.3.0.
        GET_CHILDREN2("getChildren2") = 12,
        /// Checks the version of a node; legal only inside a multi. Since 3.4.0.
        CHECK("check", "checkVersion") = 13,
        /// Applies several writes together or not at all. Since 3.4.0.
        MULTI("multi", "transaction") = 14,
        /// Creates a node; the reply contains its path and its stat. Since 3.5.0.
        CREATE2("create2") = 15,
        /// Changes the members of the ensemble. Since 3.5.0.
        RECONFIG("reconfig") = 16,
        /// Reports whether this connection has a watch on a path. Since 3.5.0.
        CHECK_WATCHES("checkWatches") = 17,
        /// Removes watches of this connection from a path. Since 3.5.0.
        REMOVE_WATCHES("removeWatches") = 18,
        /// Creates a container, which the server deletes once it is empty again. Since 3.5.1.
        CREATE_CONTAINER("createContainer") = 19,
        /// Deletes an empty container; only servers use it. Since 3.5.1.
        DELETE_CONTAINER("deleteContainer") = 20,
        /// Creates a node with a time to live. Since 3.5.3; usable since 3.5.4.
        CREATE_TTL("createTTL") = 21,
        /// Runs several reads, each of which may fail on its own. Since 3.6.0.
        MULTI_READ("multiRead") = 22,
        /// Presents credentials for this connection. Since 3.0.
        AUTH("auth", "addAuthInfo") = 100,
        /// Sets one-shot watches again after a reconnect. Since 3.0.
        SET_WATCHES("setWatches") = 101,
        /// Performs one step of SASL authentication. Since 3.4.0.
        SASL("sasl") = 102,
        /// Lists the ephemeral nodes of this session. Since 3.6.0.
        GET_EPHEMERALS("getEphemerals") = 103,
        /// Counts all nodes below a node. Since 3.6.0.
        GET_ALL_CHILDREN_NUMBER("getAllChildrenNumber") = 104,
        /// Sets one-shot and persistent watches again after a reconnect. Since 3.6.0.
        SET_WATCHES2("setWatches2") = 105,
        /// Sets a persistent watch, which stays when it fires. Since 3.6.0.
        ADD_WATCH("addWatch") = 106,
        /// Lists the identities that the server has verified for this connection. Since 3.7.0.
        WHO_AM_I("whoAmI") = 107,
        /// Creates a session; only servers use it, and this crate has no record for it. Clients
        /// send a [`ConnectRequest`](crate::ConnectRequest) instead. Since 3.0.
        CREATE_SESSION("createSession") = -10,
        /// Ends the session and deletes its ephemeral nodes. Since 3.0.
        CLOSE_SESSION("closeSession") = -11,
        /// Marks a failed result inside a multi; not an operation. Since 3.4.0.
        ERROR("error") = -1,
        /// Lists the children of one kind. ClickHouse Keeper's alone, as are all from here on.
        FILTERED_LIST("filteredList") = 500,
        /// Checks that a node does not exist.
        CHECK_NOT_EXISTS("checkNotExists") = 501,
        /// Creates a node, unless it exists.
        CREATE_IF_NOT_EXISTS("createIfNotExists") = 502,
        /// Deletes a node and all below it.
        REMOVE_RECURSIVE("removeRecursive") = 503,
        /// Checks the stat of a node.
        CHECK_STAT("checkStat") = 504,
        /// Deletes a node, if it exists.
        TRY_REMOVE("tryRemove") = 505,
        /// Lists the children of one kind, with stats and data.
        FILTERED_LIST_WITH_STATS_AND_DATA("filteredListWithStatsAndData") = 506,
        /// Lists all nodes below a node.
        LIST_RECURSIVE("listRecursive") = 507,
    }
}

wire_number! {
    /// The outcome of an operation, as the header of its reply reports it.
    ///
    /// Codes described as "reported by clients" never come from a server. *Codes that only clients
    /// report* in `docs/protocol.md` has the source.
    ///
    /// ```
    /// use zk_proto::ErrorCode;
    ///
    /// assert_eq!(ErrorCode(-101), ErrorCode::NO_NODE);
    /// assert_eq!(ErrorCode(-101).name(), Some("NO_NODE"));
    /// ```
    #[doc(alias = "KeeperException.Code")]
    pub struct ErrorCode {
        /// The operation succeeded. Since 3.0.
        OK = 0,
        /// The server failed; codes from here to -99 are system errors. Since 3.0.
        SYSTEM_ERROR("SystemErrorException") = -1,
        /// This part of a multi did not run, because an earlier part failed. Since 3.4.0.
        ///
        /// Before that, since 3.0, the number meant an inconsistency found at run time.
        RUNTIME_INCONSISTENCY("RuntimeInconsistencyException") = -2,
        /// The data of the server is inconsistent. Since 3.0.
        DATA_INCONSISTENCY("DataInconsistencyException") = -3,
        /// Reported by clients: the connection was lost, and the outcome is unknown. Since 3.0.
        CONNECTION_LOSS("ConnectionLossException") = -4,
        /// The server could not decode the request, or failed while it ran it. Since 3.0.
        MARSHALLING_ERROR("MarshallingErrorException") = -5,
        /// The server does not know the operation, or has it disabled. Since 3.0.
        UNIMPLEMENTED("UnimplementedException") = -6,
        /// Reported by clients: the operation took too long. Since 3.0.
        OPERATION_TIMEOUT("OperationTimeoutException") = -7,
        /// A path, a mode or another argument is invalid. Since 3.0.
        BAD_ARGUMENTS("BadArgumentsException") = -8,
        /// Reported by the C client: its handle is no longer usable. Since 3.0.
        INVALID_STATE("ZINVALIDSTATE") = -9,
        /// The session is unknown; servers use it among themselves. Since 3.5.0.
        UNKNOWN_SESSION("UnknownSessionException") = -12,
        /// No quorum of the new configuration is connected. Since 3.5.0.
        NEW_CONFIG_NO_QUORUM("NewConfigNoQuorum") = -13,
        /// Another reconfiguration is in progress. Since 3.5.0.
        RECONFIG_IN_PROGRESS("ReconfigInProgress") = -14,
        /// Reported by the C client: the TLS connection failed. Since 3.6.0.
        SSL_CONNECTION_ERROR("ZSSLCONNECTIONERROR") = -15,
        /// Never sent; codes below it are errors of operations. Since 3.0.
        API_ERROR("APIErrorException") = -100,
        /// The node does not exist, or its parent does not. Since 3.0.
        NO_NODE("NoNodeException") = -101,
        /// The access control list does not permit the operation. Since 3.0.
        NO_AUTH("NoAuthException") = -102,
        /// The node does not have the version that the request names. Since 3.0.
        BAD_VERSION("BadVersionException") = -103,
        /// The parent is ephemeral and cannot have children. Since 3.0.
        NO_CHILDREN_FOR_EPHEMERALS("NoChildrenForEphemeralsException") = -108,
        /// The node exists already. Since 3.0.
        NODE_EXISTS("NodeExistsException") = -110,
        /// The node has children and cannot be deleted. Since 3.0.
        NOT_EMPTY("NotEmptyException") = -111,
        /// The session has expired. Since 3.0.
        SESSION_EXPIRED("SessionExpiredException") = -112,
        /// Reported by clients: a callback is invalid. Since 3.0.
        INVALID_CALLBACK("InvalidCallbackException") = -113,
        /// The access control list is empty or invalid. Since 3.0.
        INVALID_ACL("InvalidACLException") = -114,
        /// Authentication failed, and the server closes the connection. Since 3.0.
        AUTH_FAILED("AuthFailedException") = -115,
        /// Reported by the C client: its handle is being closed. Since 3.0.
        CLOSING("ZCLOSING") = -116,
        /// Reported by the C client: there is nothing to process. Since 3.0.
        NOTHING("ZNOTHING") = -117,
        /// The session has moved to another server. Since 3.2.0.
        ///
        /// Servers mostly close the connection instead of sending this code.
        SESSION_MOVED("SessionMovedException") = -118,
        /// The server is read-only and refuses a write. Since 3.4.0.
        NOT_READ_ONLY("NotReadOnlyException") = -119,
        /// A local session cannot own ephemeral nodes. Since 3.5.0.
        EPHEMERAL_ON_LOCAL_SESSION("EphemeralOnLocalSessionException") = -120,
        /// There is no such watch. Since 3.5.0.
        NO_WATCHER("NoWatcherException") = -121,
        /// Reported by clients: the request took too long. Since 3.5.5.
        REQUEST_TIMEOUT("RequestTimeoutException") = -122,
        /// The server has reconfiguration disabled. Since 3.5.3.
        RECONFIG_DISABLED("ReconfigDisabledException") = -123,
        /// The server requires authentication and closes the connection. Since 3.6.0 and 3.5.9.
        SESSION_CLOSED_REQUIRE_SASL_AUTH("SessionClosedRequireAuthException") = -124,
        /// The request would exceed a hard quota. Since 3.7.0.
        QUOTA_EXCEEDED("QuotaExceededException") = -125,
        /// The server is overloaded and did not run the operation. Since 3.7.0.
        THROTTLED_OP("ThrottledOpException") = -127,
    }
}

wire_number! {
    /// What happened to a watched node.
    ///
    /// Types described as "reported by clients" never come from a server.
    ///
    /// ```
    /// use zk_proto::EventType;
    ///
    /// assert_eq!(EventType(2), EventType::NODE_DELETED);
    /// assert_eq!(EventType(2).to_string(), "NODE_DELETED");
    /// // A number from a newer server has no name, and is no error.
    /// assert_eq!(EventType(99).name(), None);
    /// ```
    #[doc(alias = "Watcher.Event.EventType")]
    pub struct EventType {
        /// Reported by clients: the state of the session changed, not a node. Since 3.0.
        NONE("None") = -1,
        /// The node was created. Since 3.0.
        NODE_CREATED("NodeCreated") = 1,
        /// The node was deleted. Since 3.0.
        NODE_DELETED("NodeDeleted") = 2,
        /// The node's data changed. Since 3.0.
        NODE_DATA_CHANGED("NodeDataChanged") = 3,
        /// A child of the node was created or deleted. Since 3.0.
        NODE_CHILDREN_CHANGED("NodeChildrenChanged") = 4,
        /// Reported by clients: a watch of `exists` or `getData` was removed. Since 3.5.0.
        DATA_WATCH_REMOVED("DataWatchRemoved") = 5,
        /// Reported by clients: a watch of `getChildren` was removed. Since 3.5.0.
        CHILD_WATCH_REMOVED("ChildWatchRemoved") = 6,
        /// Reported by clients: a persistent watch was removed. Since 3.6.0.
        PERSISTENT_WATCH_REMOVED("PersistentWatchRemoved") = 7,
    }
}

wire_number! {
    /// The state of a session, as a watch event carries it.
    ///
    /// Servers always send [`SYNC_CONNECTED`](Self::SYNC_CONNECTED); clients report the other
    /// states to their users.
    #[doc(alias = "Watcher.Event.KeeperState")]
    pub struct KeeperState {
        /// Obsolete. Since 3.0.
        UNKNOWN("Unknown") = -1,
        /// The client has no connection. Since 3.0.
        DISCONNECTED("Disconnected") = 0,
        /// Obsolete. Since 3.0.
        NO_SYNC_CONNECTED("NoSyncConnected") = 1,
        /// The client is connected. Since 3.0.
        SYNC_CONNECTED("SyncConnected") = 3,
        /// Authentication failed. Since 3.4.0.
        AUTH_FAILED("AuthFailed") = 4,
        /// The client is connected to a read-only server. Since 3.4.0.
        CONNECTED_READ_ONLY("ConnectedReadOnly") = 5,
        /// The client has authenticated by SASL. Since 3.4.0.
        SASL_AUTHENTICATED("SaslAuthenticated") = 6,
        /// The client has closed the session. Since 3.5.5.
        CLOSED("Closed") = 7,
        /// The session has expired. Since 3.0.
        EXPIRED("Expired") = -112,
    }
}

wire_number! {
    /// The kind of a node to create, as a number on the wire.
    ///
    /// The numbers are not flags. Not every operation accepts every mode;
    /// [`NodeKind`](crate::NodeKind) picks the matching operation.
    pub struct CreateMode {
        /// A node that stays until it is deleted. Since 3.0.
        PERSISTENT = 0,
        /// A node that the servers delete when its session ends. Since 3.0.
        EPHEMERAL = 1,
        /// A persistent node with a [`SequenceNumber`](crate::SequenceNumber) appended to its
        /// name. Since 3.0.
        PERSISTENT_SEQUENTIAL = 2,
        /// An ephemeral node with a [`SequenceNumber`](crate::SequenceNumber) appended to its
        /// name. Since 3.0.
        EPHEMERAL_SEQUENTIAL = 3,
        /// A node that the server deletes some time after its last child. Since 3.5.1.
        ///
        /// It needs [`OpCode::CREATE_CONTAINER`].
        CONTAINER = 4,
        /// A node that the server deletes after some time without children and changes. Since
        /// 3.5.3.
        ///
        /// It needs [`OpCode::CREATE_TTL`].
        PERSISTENT_WITH_TTL = 5,
        /// A node with a time to live and a [`SequenceNumber`](crate::SequenceNumber) appended to
        /// its name. Since 3.5.3.
        ///
        /// It needs [`OpCode::CREATE_TTL`].
        PERSISTENT_SEQUENTIAL_WITH_TTL = 6,
    }
}

impl CreateMode {
    /// Returns whether the server appends a sequence number to the name.
    ///
    /// ```
    /// use zk_proto::CreateMode;
    ///
    /// assert!(CreateMode::EPHEMERAL_SEQUENTIAL.is_sequential());
    /// assert!(!CreateMode::CONTAINER.is_sequential());
    /// ```
    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PERSISTENT_SEQUENTIAL
                | Self::EPHEMERAL_SEQUENTIAL
                | Self::PERSISTENT_SEQUENTIAL_WITH_TTL
        )
    }

    /// Returns whether the servers delete the node when its session ends.
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::EPHEMERAL | Self::EPHEMERAL_SEQUENTIAL)
    }
}

wire_number! {
    /// Which events a persistent watch reports. Since 3.6.0.
    pub struct AddWatchMode {
        /// Changes of the node and of its list of children. Since 3.6.0.
        PERSISTENT = 0,
        /// Creations, deletions and data changes of the node and of all nodes below it. Since
        /// 3.6.0.
        PERSISTENT_RECURSIVE = 1,
    }
}

wire_number! {
    /// Which watches on a path a request checks or removes.
    #[doc(alias = "Watcher.WatcherType")]
    pub struct WatcherType {
        /// The watch that `getChildren` sets. Since 3.5.0.
        CHILDREN("Children") = 1,
        /// The watch that `exists` or `getData` sets. Since 3.5.0.
        DATA("Data") = 2,
        /// All watches. Since 3.5.0.
        ANY("Any") = 3,
        /// The persistent watch. Since 3.9.0.
        PERSISTENT("Persistent") = 4,
        /// The persistent recursive watch. Since 3.9.0.
        PERSISTENT_RECURSIVE("PersistentRecursive") = 5,
    }
}

wire_number! {
    /// Permissions of an access control list, to be combined with `|`. All exist since 3.0.
    ///
    /// ```
    /// use zk_proto::Perms;
    ///
    /// let perms = Perms::READ | Perms::WRITE;
    /// assert!(perms.contains(Perms::READ));
    /// assert!(!perms.contains(Perms::READ | Perms::ADMIN));
    /// ```
    #[doc(alias = "ZooDefs.Perms")]
    pub struct Perms {
        /// Permits reading the data and listing the children.
        READ = 1,
        /// Permits replacing the data.
        WRITE = 2,
        /// Permits creating children.
        CREATE = 4,
        /// Permits deleting children.
        DELETE = 8,
        /// Permits changing the access control list.
        ADMIN = 16,
        /// Permits everything.
        ALL = 31,
    }
}

impl Perms {
    /// Returns whether these permissions include all of `other`.
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
