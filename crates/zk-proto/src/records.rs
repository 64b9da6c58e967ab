//! The records of the protocol, named as in `zookeeper.jute`. To add one, declare it here and
//! give it a row in `operations.rs`.

use crate::codes::{
    AddWatchMode, CreateMode, ErrorCode, EventType, KeeperState, Perms, WatcherType,
};
use crate::ids::{SessionId, Zxid};
use crate::list::List;
use crate::multi::{Multi, MultiOp, MultiReadOp, MultiReadResult, MultiResult};

records! {
    // ---- Shared ---------------------------------------------------------------------------------

    /// What a server knows of a node besides its data: 68 bytes, in many replies. Since 3.0.
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

    /// Who an ACL is about. Since 3.0.
    pub struct Id<'a> {
        /// How the id is proven: `world`, `auth`, `digest`, `ip`, `sasl`, `x509`.
        pub scheme: &'a str,
        /// The id, in the form that the scheme asks for. kazoo writes null for `auth`.
        pub id: Option<&'a str>,
    }

    /// One permission of an access control list. Since 3.0.
    pub struct Acl<'a> {
        /// What is permitted.
        pub perms: Perms,
        /// To whom.
        pub id: Id<'a>,
    }

    /// Something happened to a watched node: `notification` (0), only sent by servers. Since 3.0.
    ///
    /// It follows a [`ReplyHeader`](crate::ReplyHeader) with
    /// [`Xid::NOTIFICATION`](crate::Xid::NOTIFICATION).
    pub struct WatcherEvent<'a> {
        /// What happened.
        pub event_type: EventType,
        /// Always [`KeeperState::SYNC_CONNECTED`].
        pub state: KeeperState,
        /// The node.
        pub path: &'a str,
    }

    /// An error as a body. Since 3.4.
    ///
    /// Stands for an operation that failed in a `multi` (14) or `multiRead` (22), with `error` (-1)
    /// for its type, and answers `addWatch` (106), with [`ErrorCode::OK`].
    pub struct ErrorResponse {
        /// How it failed.
        pub err: ErrorCode,
    }

    // ---- Nodes ----------------------------------------------------------------------------------

    /// Creates a node: `create` (1) since 3.0, `create2` (15) since 3.5.0 and `createContainer`
    /// (19) since 3.5.1. [`NodeKind`](crate::NodeKind) chooses between them.
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

    /// Answers `create` (1). Since 3.0.
    pub struct CreateResponse<'a> {
        /// The node as it was created, with its sequence number if there is one.
        pub path: &'a str,
    }

    /// Answers `create2` (15), `createContainer` (19) and `createTTL` (21). Since 3.5.0.
    pub struct Create2Response<'a> {
        /// The node as it was created, with its sequence number if there is one.
        pub path: &'a str,
        /// Its stat.
        pub stat: Stat,
    }

    /// Creates a node that the server deletes once it has had no children and no change for some
    /// time: `createTTL` (21). Since 3.5.3; usable since 3.5.4.
    ///
    /// [`ErrorCode::UNIMPLEMENTED`] unless the server has `extendedTypesEnabled`. To make one that
    /// is valid, see [`NodeKind`](crate::NodeKind).
    pub struct CreateTtlRequest<'a> {
        /// The node; a prefix of its name if the mode is sequential.
        pub path: &'a str,
        /// Its first data, or null.
        pub data: Option<&'a [u8]>,
        /// Its access control list, which must not be empty.
        pub acl: List<'a, Acl<'a>>,
        /// [`CreateMode::PERSISTENT_WITH_TTL`] or [`CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL`].
        pub mode: CreateMode,
        /// The time to live, in milliseconds: a [`Ttl`](crate::Ttl).
        pub ttl: i64,
    }

    /// Deletes a node without children: `delete` (2). Needs [`Perms::DELETE`] on its parent.
    /// Since 3.0.
    pub struct DeleteRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// The version that it must have, or -1.
        pub version: i32,
    }

    /// Deletes a container that is empty: `deleteContainer` (20). Since 3.5.1.
    ///
    /// Servers send it to themselves. Clients have no use for it.
    pub struct DeleteContainerRequest<'a> {
        /// The container.
        pub path: &'a str,
    }

    /// Asks whether a node exists: `exists` (3). Since 3.0.
    pub struct ExistsRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Whether to set a watch; it is set even when the node does not exist.
        pub watch: bool,
    }

    /// Answers `exists` (3) when the node does; otherwise the header says [`ErrorCode::NO_NODE`].
    /// Since 3.0.
    pub struct ExistsResponse {
        /// Its stat.
        pub stat: Stat,
    }

    // ---- Data -----------------------------------------------------------------------------------

    /// Reads a node's data: `getData` (4). Since 3.0.
    pub struct GetDataRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Whether to set a watch; none is set when the node does not exist.
        pub watch: bool,
    }

    /// Answers `getData` (4) since 3.0, and `reconfig` (16) with the new configuration since 3.5.0.
    pub struct GetDataResponse<'a> {
        /// The data; null if the node was created with null.
        pub data: Option<&'a [u8]>,
        /// The node's stat.
        pub stat: Stat,
    }

    /// Replaces a node's data: `setData` (5). Since 3.0.
    pub struct SetDataRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// The new data, or null.
        pub data: Option<&'a [u8]>,
        /// The version that it must have, or -1.
        pub version: i32,
    }

    /// Answers `setData` (5). Since 3.0.
    pub struct SetDataResponse {
        /// The node's stat after the change.
        pub stat: Stat,
    }

    // ---- Access control -------------------------------------------------------------------------

    /// Reads a node's access control list: `getACL` (6). Since 3.0.
    ///
    /// Needs [`Perms::READ`] or [`Perms::ADMIN`]; without the latter, digests are masked since
    /// 3.5.5 and 3.4.14.
    pub struct GetAclRequest<'a> {
        /// The node.
        pub path: &'a str,
    }

    /// Answers `getACL` (6). Since 3.0.
    pub struct GetAclResponse<'a> {
        /// The list.
        pub acl: List<'a, Acl<'a>>,
        /// The node's stat.
        pub stat: Stat,
    }

    /// Replaces a node's access control list: `setACL` (7). Needs [`Perms::ADMIN`]. Since 3.0.
    pub struct SetAclRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// The new list, which must not be empty.
        pub acl: List<'a, Acl<'a>>,
        /// What the node's [`Stat::aversion`] must be, or -1.
        pub version: i32,
    }

    /// Answers `setACL` (7). Since 3.0.
    pub struct SetAclResponse {
        /// The node's stat after the change.
        pub stat: Stat,
    }

    // ---- Children -------------------------------------------------------------------------------

    /// Lists a node's children: `getChildren` (8) since 3.0, `getChildren2` (12) since 3.3.0.
    pub struct GetChildrenRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Whether to set a watch; none is set when the node does not exist.
        pub watch: bool,
    }

    /// Answers `getChildren` (8). Since 3.0.
    pub struct GetChildrenResponse<'a> {
        /// The names of the children, in no order.
        pub children: List<'a, &'a str>,
    }

    /// Answers `getChildren2` (12). Since 3.3.0.
    pub struct GetChildren2Response<'a> {
        /// The names of the children, in no order.
        pub children: List<'a, &'a str>,
        /// The node's stat.
        pub stat: Stat,
    }

    /// Counts all nodes below a node: `getAllChildrenNumber` (104). Since 3.6.0.
    pub struct GetAllChildrenNumberRequest<'a> {
        /// The node.
        pub path: &'a str,
    }

    /// Answers `getAllChildrenNumber` (104). Since 3.6.0.
    pub struct GetAllChildrenNumberResponse {
        /// How many nodes are below it, children of children included.
        pub total_number: i32,
    }

    /// Lists the ephemeral nodes of this session: `getEphemerals` (103). Since 3.6.0.
    pub struct GetEphemeralsRequest<'a> {
        /// What their paths must start with. It need not be a path; null, as well as an empty one,
        /// is for all of them.
        pub prefix_path: Option<&'a str>,
    }

    /// Answers `getEphemerals` (103). Since 3.6.0.
    pub struct GetEphemeralsResponse<'a> {
        /// The whole paths of the nodes, in no order.
        pub ephemerals: List<'a, &'a str>,
    }

    // ---- Several at once ------------------------------------------------------------------------

    /// Asserts that a node exists and has a version: `check` (13), to be sent only inside a multi.
    /// Since 3.4.0.
    ///
    /// By itself it costs the connection, or goes without an answer where it holds (3.8.0).
    pub struct CheckVersionRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// The version that it must have, or -1.
        pub version: i32,
    }

    // ---- Watches --------------------------------------------------------------------------------

    /// Sets a watch that stays when it fires: `addWatch` (106). Since 3.6.0.
    ///
    /// The node need not exist. Answered by an [`ErrorResponse`].
    pub struct AddWatchRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Of which events to tell.
        pub mode: AddWatchMode,
    }

    /// Asks whether there is a watch on a path: `checkWatches` (17). Since 3.5.0.
    ///
    /// [`ErrorCode::NO_WATCHER`] when there is none. Java sends it to remove one of several local
    /// watchers, which the server need not know of.
    pub struct CheckWatchesRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Which of its watches.
        pub watcher_type: WatcherType,
    }

    /// Removes this connection's watches from a path: `removeWatches` (18). Since 3.5.0.
    ///
    /// [`ErrorCode::NO_WATCHER`] when there is none, for instance because it has just fired.
    pub struct RemoveWatchesRequest<'a> {
        /// The node.
        pub path: &'a str,
        /// Which of its watches.
        pub watcher_type: WatcherType,
    }

    /// Sets one-shot watches again after a reconnect: `setWatches` (101). Since 3.0.
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

    /// As [`SetWatches`], with the watches that stay: `setWatches2` (105). Since 3.6.0.
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

    // ---- The session ----------------------------------------------------------------------------

    /// Waits until this member has caught up with what the leader had committed: `sync` (9).
    /// Since 3.0.
    pub struct SyncRequest<'a> {
        /// Any path; it does not matter which.
        pub path: &'a str,
    }

    /// Answers `sync` (9). Since 3.0.
    pub struct SyncResponse<'a> {
        /// The path of the request.
        pub path: &'a str,
    }

    /// Presents credentials: `auth` (100). Since 3.0.
    ///
    /// They count for the connection, not for the session. [`ErrorCode::AUTH_FAILED`] is followed
    /// by the end of the connection.
    pub struct AuthPacket<'a> {
        /// Always 0; servers ignore it.
        pub auth_type: i32,
        /// As in [`Id::scheme`].
        pub scheme: &'a str,
        /// What the scheme asks for: for `digest`, `user:password` as it is.
        [secret] pub auth: Option<&'a [u8]>,
    }

    /// One step of authentication by SASL: `sasl` (102). Since 3.4.0.
    pub struct GetSaslRequest<'a> {
        /// The mechanism's token. The first one of `DIGEST-MD5` is empty, but not null.
        [secret] pub token: Option<&'a [u8]>,
    }

    /// Answers `sasl` (102). Since 3.4.0.
    ///
    /// Also stands, with a null token, behind a header that says [`ErrorCode::AUTH_FAILED`].
    pub struct SetSaslResponse<'a> {
        /// The mechanism's token. Null from a server without SASL.
        pub token: Option<&'a [u8]>,
    }

    /// One of the identities of a connection. Since 3.7.0.
    pub struct ClientInfo<'a> {
        /// As in [`Id::scheme`].
        pub auth_scheme: &'a str,
        /// Who it is, without secrets: an address, or the user of a digest.
        pub user: &'a str,
    }

    /// Answers `whoAmI` (107), which asks whom the server takes this connection for. Since 3.7.0.
    pub struct WhoAmIResponse<'a> {
        /// Its identities: its address, and whatever was proven by `auth` or `sasl`.
        pub client_info: List<'a, ClientInfo<'a>>,
    }

    // ---- The ensemble ---------------------------------------------------------------------------

    /// Changes who is a member of the ensemble: `reconfig` (16). Since 3.5.0.
    ///
    /// Either the first two lists say what changes, or the third names all members. Answered by a
    /// [`GetDataResponse`] with the new configuration.
    pub struct ReconfigRequest<'a> {
        /// Members that join or change, as `server.N=...`, separated by commas.
        pub joining_servers: Option<&'a str>,
        /// Ids of members that leave, separated by commas.
        pub leaving_servers: Option<&'a str>,
        /// All members from now on, as `server.N=...`, separated by commas.
        pub new_members: Option<&'a str>,
        /// The version that the configuration must have, or -1.
        pub cur_config_id: i64,
    }
}

impl Id<'static> {
    /// Everybody (`ANYONE_ID_UNSAFE`).
    pub const ANYONE: Self = Self { scheme: "world", id: Some("anyone") };
    /// Whatever this connection has proven to be, except its address (`AUTH_IDS`). Servers replace
    /// it with that.
    pub const AUTH: Self = Self { scheme: "auth", id: Some("") };
}

impl Acl<'static> {
    /// Everything for everybody (`OPEN_ACL_UNSAFE`).
    pub const OPEN: Self = Self { perms: Perms::ALL, id: Id::ANYONE };
    /// Everything for whoever creates the node (`CREATOR_ALL_ACL`).
    pub const CREATOR_ALL: Self = Self { perms: Perms::ALL, id: Id::AUTH };
    /// Reading for everybody (`READ_ACL_UNSAFE`).
    pub const READ: Self = Self { perms: Perms::READ, id: Id::ANYONE };
}

/// Runs several writes as one transaction: `multi` (14). Since 3.4.0.
pub type MultiRequest<'a> = Multi<'a, MultiOp<'a>>;

/// Answers `multi` (14), also when it failed: then every result is an error, nothing was applied,
/// and the header still says [`ErrorCode::OK`]. Since 3.4.0.
pub type MultiResponse<'a> = Multi<'a, MultiResult<'a>>;

/// Runs several reads, each of which may fail by itself: `multiRead` (22). Since 3.6.0.
pub type MultiReadRequest<'a> = Multi<'a, MultiReadOp<'a>>;

/// Answers `multiRead` (22), with one result for each read. Since 3.6.0.
pub type MultiReadResponse<'a> = Multi<'a, MultiReadResult<'a>>;
