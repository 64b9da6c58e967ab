//! The records of the protocol, named as in `zookeeper.jute`. To add one, declare it here and
//! give it a row in `operations.rs`.

use crate::codes::{CreateMode, ErrorCode, EventType, KeeperState, Perms, WatcherType};
use crate::ids::{SessionId, Zxid};
use crate::list::List;
use crate::multi::{Multi, MultiOp, MultiResult};

// ---- Shared ------------------------------------------------------------------------------------

record! {
    /// What a server knows of a node besides its data. 68 bytes.
    #[derive(Default)]
    pub struct Stat {
        /// The transaction that created the node.
        pub czxid: Zxid,
        /// The transaction that last changed its data.
        pub mzxid: Zxid,
        /// When it was created, in milliseconds since 1970, by the leader's clock.
        pub ctime: i64,
        /// When its data last changed, likewise.
        pub mtime: i64,
        /// How often its data changed.
        pub version: i32,
        /// How often a child was created or deleted.
        pub cversion: i32,
        /// How often its ACL changed.
        pub aversion: i32,
        /// The session that it goes away with; none if it is not ephemeral.
        pub ephemeral_owner: SessionId,
        /// Length of its data in bytes.
        pub data_length: i32,
        /// How many children it has.
        pub num_children: i32,
        /// The transaction that last created or deleted a child.
        pub pzxid: Zxid,
    }
}

record! {
    /// Who an ACL is about.
    pub struct Id<'a> {
        /// How the id is proven: `world`, `auth`, `digest`, `ip`, `sasl`, `x509`.
        pub scheme: &'a str,
        /// The id, in the form that the scheme asks for. kazoo writes null for `auth`.
        pub id: Option<&'a str>,
    }
}

record! {
    /// One permission of an access control list.
    pub struct Acl<'a> {
        /// What is permitted.
        pub perms: Perms,
        /// To whom.
        pub id: Id<'a>,
    }
}

impl Acl<'static> {
    /// Everything for everybody (`OPEN_ACL_UNSAFE`).
    pub const OPEN: Self =
        Self { perms: Perms::ALL, id: Id { scheme: "world", id: Some("anyone") } };
    /// Everything for whoever creates the node (`CREATOR_ALL_ACL`).
    pub const CREATOR_ALL: Self =
        Self { perms: Perms::ALL, id: Id { scheme: "auth", id: Some("") } };
    /// Reading for everybody (`READ_ACL_UNSAFE`).
    pub const READ: Self =
        Self { perms: Perms::READ, id: Id { scheme: "world", id: Some("anyone") } };
}

record! {
    /// Something happened to a watched node.
    pub struct WatcherEvent<'a> {
        /// What happened.
        pub event_type: EventType,
        /// Always [`KeeperState::SYNC_CONNECTED`].
        pub state: KeeperState,
        /// The node.
        pub path: &'a str,
    }
}

record! {
    /// The code of an operation that failed inside a multi.
    pub struct ErrorResponse {
        /// How it failed.
        pub err: ErrorCode,
    }
}

// ---- Nodes -------------------------------------------------------------------------------------

record! {
    /// Creates a node: `create` (1), `create2` (15) and `createContainer` (19).
    ///
    /// The parent must exist ([`ErrorCode::NO_NODE`]), must not be ephemeral and must grant
    /// [`Perms::CREATE`].
    pub struct CreateRequest<'a> {
        /// The node; a prefix of its name if the mode is sequential.
        pub path: &'a str,
        /// Its first data, or null.
        pub data: Option<&'a [u8]>,
        /// Its access control list, which must not be empty.
        pub acl: List<'a, Acl<'a>>,
        /// What kind of node.
        pub mode: CreateMode,
    }
}

record! {
    /// Answers `create` (1).
    pub struct CreateResponse<'a> {
        /// The node as it was created, with its sequence number if there is one.
        pub path: &'a str,
    }
}

record! {
    /// Answers `create2` (15) and `createContainer` (19). Since 3.5.
    pub struct Create2Response<'a> {
        /// The node as it was created, with its sequence number if there is one.
        pub path: &'a str,
        /// Its stat.
        pub stat: Stat,
    }
}

record! {
    /// Deletes a node without children: `delete` (2). Needs [`Perms::DELETE`] on its parent.
    pub struct DeleteRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// The version that it must have, or -1.
        pub version: i32,
    }
}

record! {
    /// Asks whether a node exists: `exists` (3).
    pub struct ExistsRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Whether to set a watch; it is set even when the node does not exist.
        pub watch: bool,
    }
}

record! {
    /// Answers `exists` (3) when the node does; otherwise the header says [`ErrorCode::NO_NODE`].
    pub struct ExistsResponse {
        /// Its stat.
        pub stat: Stat,
    }
}

// ---- Data --------------------------------------------------------------------------------------

record! {
    /// Reads a node's data: `getData` (4).
    pub struct GetDataRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Whether to set a watch; none is set when the node does not exist.
        pub watch: bool,
    }
}

record! {
    /// Answers `getData` (4).
    pub struct GetDataResponse<'a> {
        /// The data; null if the node was created with null.
        pub data: Option<&'a [u8]>,
        /// The node's stat.
        pub stat: Stat,
    }
}

record! {
    /// Replaces a node's data: `setData` (5).
    pub struct SetDataRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// The new data, or null.
        pub data: Option<&'a [u8]>,
        /// The version that it must have, or -1.
        pub version: i32,
    }
}

record! {
    /// Answers `setData` (5).
    pub struct SetDataResponse {
        /// The node's stat after the change.
        pub stat: Stat,
    }
}

// ---- Children ----------------------------------------------------------------------------------

record! {
    /// Lists a node's children: `getChildren` (8) and `getChildren2` (12).
    pub struct GetChildrenRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Whether to set a watch; none is set when the node does not exist.
        pub watch: bool,
    }
}

record! {
    /// Answers `getChildren` (8).
    pub struct GetChildrenResponse<'a> {
        /// The names of the children, in no order.
        pub children: List<'a, &'a str>,
    }
}

record! {
    /// Answers `getChildren2` (12).
    pub struct GetChildren2Response<'a> {
        /// The names of the children, in no order.
        pub children: List<'a, &'a str>,
        /// The node's stat.
        pub stat: Stat,
    }
}

// ---- Several at once ---------------------------------------------------------------------------

record! {
    /// Asserts that a node exists and has a version: `check` (13), only inside a multi.
    pub struct CheckVersionRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// The version that it must have, or -1.
        pub version: i32,
    }
}

/// Runs several writes as one transaction: `multi` (14). Since 3.4.
pub type MultiRequest<'a> = Multi<'a, MultiOp<'a>>;

/// Answers `multi` (14), also when it failed: then every result is an error, nothing was applied,
/// and the header still says [`ErrorCode::OK`].
pub type MultiResponse<'a> = Multi<'a, MultiResult<'a>>;

// ---- Watches -----------------------------------------------------------------------------------

record! {
    /// Removes this connection's watches from a path: `removeWatches` (18). Since 3.5.
    ///
    /// [`ErrorCode::NO_WATCHER`] when there is none, for instance because it has just fired.
    pub struct RemoveWatchesRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Which of its watches.
        pub watcher_type: WatcherType,
    }
}

record! {
    /// Sets one-shot watches again after a reconnect: `setWatches` (101).
    ///
    /// The server sends an event at once for each that would have fired since `relative_zxid`.
    pub struct SetWatches<'a> {
        /// The newest transaction that the client had seen when the connection was lost.
        pub relative_zxid: Zxid,
        /// Nodes that existed and whose data was watched.
        pub data_watches: List<'a, &'a str>,
        /// Nodes that did not exist and whose creation was watched.
        pub exist_watches: List<'a, &'a str>,
        /// Nodes whose children were watched.
        pub child_watches: List<'a, &'a str>,
    }
}

record! {
    /// As [`SetWatches`], with the watches that stay: `setWatches2` (105). Since 3.6.
    ///
    /// There are no events for what persistent watches missed.
    pub struct SetWatches2<'a> {
        /// The newest transaction that the client had seen when the connection was lost.
        pub relative_zxid: Zxid,
        /// Nodes that existed and whose data was watched.
        pub data_watches: List<'a, &'a str>,
        /// Nodes that did not exist and whose creation was watched.
        pub exist_watches: List<'a, &'a str>,
        /// Nodes whose children were watched.
        pub child_watches: List<'a, &'a str>,
        /// Nodes with a persistent watch.
        pub persistent_watches: List<'a, &'a str>,
        /// Nodes with a persistent recursive watch.
        pub persistent_recursive_watches: List<'a, &'a str>,
    }
}

// ---- The session -------------------------------------------------------------------------------

record! {
    /// Waits until this member has caught up with what the leader had committed: `sync` (9).
    pub struct SyncRequest<'a> {
        /// Any path; it does not matter which.
        pub path: &'a str,
    }
}

record! {
    /// Answers `sync` (9).
    pub struct SyncResponse<'a> {
        /// The path of the request.
        pub path: &'a str,
    }
}
