//! The records of the protocol, with the names of `zookeeper.jute` as Rust spells them.
//!
//! `GetACLRequest` there is `GetAclRequest` here, and `ephemeralOwner` is `ephemeral_owner`. Three
//! fields have other names: `flags` of a create is `mode`, `passwd` is `password`, and `type` is
//! `opcode`, `event_type`, `watcher_type` or `auth_type`. `tests/java_records` compares all names.
//!
//! "Since" names the first release whose `zookeeper.jute` and `ZooDefs.OpCode` have the record.
//! `docs/protocol.md` has the sources of other facts about servers, where no source is given here.
//!
//! To add a record, declare it here and give its operation a row in `operations.rs`.

use crate::codes::{
    AddWatchMode, CreateMode, ErrorCode, EventType, KeeperState, Perms, WatcherType,
};
use crate::ids::{SessionId, Zxid};
use crate::list::List;

records! {
    // ---- Shared ---------------------------------------------------------------------------------

    /// The metadata of a node: 68 bytes, part of many replies. Since 3.0.
    ///
    /// ```
    /// use zk_proto::{Encode, SessionId, Stat};
    ///
    /// let stat = Stat { ephemeral_owner: SessionId(0x1000055566d000c), ..Stat::default() };
    /// let is_ephemeral = stat.ephemeral_owner != SessionId::NONE;
    /// assert!(is_ephemeral);
    /// assert_eq!(stat.encoded_len(), 68);
    /// ```
    #[derive(Default)]
    #[doc(alias = "znode")]
    pub struct Stat {
        /// The transaction that created the node.
        pub czxid: Zxid,
        /// The transaction that last changed the data.
        pub mzxid: Zxid,
        /// The time of creation, in milliseconds since 1970 by the leader's clock.
        pub ctime: i64,
        /// The time of the last change of the data, in milliseconds since 1970 by the leader's
        /// clock.
        pub mtime: i64,
        /// The number of changes of the data.
        #[doc(alias = "dataVersion")]
        pub version: i32,
        /// The number of creations and deletions of children.
        pub cversion: i32,
        /// The number of changes of the access control list.
        #[doc(alias = "aclVersion")]
        pub aversion: i32,
        /// The session that owns the node, or [`SessionId::NONE`] if the node is not ephemeral.
        #[doc(alias = "ephemeralOwner")]
        pub ephemeral_owner: SessionId,
        /// The length of the data in bytes.
        #[doc(alias = "dataLength")]
        pub data_length: i32,
        /// The number of children.
        #[doc(alias = "numChildren")]
        pub num_children: i32,
        /// The transaction that last created or deleted a child.
        pub pzxid: Zxid,
    }

    /// An identity in an access control list. Since 3.0.
    pub struct Id<'a> {
        /// The way to prove the identity: `world`, `auth`, `digest`, `ip`, `sasl` or `x509`.
        pub scheme: &'a str,
        /// The identity, in the form that the scheme requires. kazoo sends null for `auth`
        /// (recording `3.8.0-kazoo-authdata`).
        pub id: Option<&'a str>,
    }

    /// An entry of an access control list: permissions for one identity. Since 3.0.
    pub struct Acl<'a> {
        /// The permissions.
        pub perms: Perms,
        /// The identity that has them.
        pub id: Id<'a>,
    }

    /// A watch event, which reports a change of a watched node: `notification` (0). Since 3.0.
    ///
    /// Only servers send it. It follows a [`ReplyHeader`](crate::ReplyHeader) with
    /// [`Xid::NOTIFICATION`](crate::Xid::NOTIFICATION).
    ///
    /// ```
    /// use zk_proto::{Decode, EventType, KeeperState, WatcherEvent};
    ///
    /// let event = WatcherEvent::decode_all(b"\0\0\0\x02\0\0\0\x03\0\0\0\x05/lock")?;
    /// assert_eq!(event.event_type, EventType::NODE_DELETED);
    /// assert_eq!((event.state, event.path), (KeeperState::SYNC_CONNECTED, "/lock"));
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    #[doc(alias("WatchedEvent", "notification"))]
    pub struct WatcherEvent<'a> {
        /// The kind of change.
        pub event_type: EventType,
        /// Always [`KeeperState::SYNC_CONNECTED`].
        pub state: KeeperState,
        /// The path of the node.
        pub path: &'a str,
    }

    /// An error code as a body. Since 3.4.
    ///
    /// Stands for a failed operation in a `multi` (14) or `multiRead` (22), where its type is
    /// `error` (-1). Also answers `addWatch` (106), with [`ErrorCode::OK`].
    pub struct ErrorResponse {
        /// The error code.
        pub err: ErrorCode,
    }

    // ---- Nodes ----------------------------------------------------------------------------------

    /// A request to create a node: `create` (1), `create2` (15) or `createContainer` (19).
    ///
    /// They exist since 3.0, 3.5.0 and 3.5.1. [`NodeKind::create`](crate::NodeKind::create) picks
    /// the right one.
    ///
    /// # Errors
    ///
    /// - [`ErrorCode::NO_NODE`]: the parent does not exist.
    /// - [`ErrorCode::NODE_EXISTS`]: the node exists.
    /// - [`ErrorCode::NO_CHILDREN_FOR_EPHEMERALS`]: the parent is ephemeral.
    /// - [`ErrorCode::NO_AUTH`]: the parent does not grant [`Perms::CREATE`].
    ///
    /// ```
    /// use zk_proto::{Acl, CreateMode, CreateRequest, List, Request};
    ///
    /// let acl = [Acl::OPEN];
    /// let request = Request::Create2(CreateRequest {
    ///     path: "/locks/printer/lock-",
    ///     data: Some(b"host-7"),
    ///     acl: List::new(&acl),
    ///     mode: CreateMode::EPHEMERAL_SEQUENTIAL,
    /// });
    /// assert_eq!(request.path(), Some("/locks/printer/lock-"));
    /// ```
    #[doc(alias("create", "znode"))]
    pub struct CreateRequest<'a> {
        /// The path of the node. If the mode is sequential, the server appends a number.
        pub path: &'a str,
        /// The initial data, or null.
        pub data: Option<&'a [u8]>,
        /// The access control list, which must not be empty.
        pub acl: List<'a, Acl<'a>>,
        /// The kind of node.
        #[doc(alias = "flags")]
        pub mode: CreateMode,
    }

    /// The reply to `create` (1). Since 3.0.
    pub struct CreateResponse<'a> {
        /// The path of the new node, including a sequence number.
        pub path: &'a str,
    }

    /// The reply to `create2` (15), `createContainer` (19) and `createTTL` (21). Since 3.5.0.
    pub struct Create2Response<'a> {
        /// The path of the new node, including a sequence number.
        pub path: &'a str,
        /// The stat of the new node.
        pub stat: Stat,
    }

    /// A request to create a node with a time to live: `createTTL` (21). Since 3.5.3; usable since
    /// 3.5.4.
    ///
    /// The server deletes the node once it has had no children and no change for that time.
    /// [`NodeKind::create`](crate::NodeKind::create) builds only valid requests.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::UNIMPLEMENTED`] unless the server has `extendedTypesEnabled`
    /// (`EphemeralType`); otherwise as [`CreateRequest`].
    #[doc(alias = "createTTL")]
    pub struct CreateTtlRequest<'a> {
        /// The path of the node. If the mode is sequential, the server appends a number.
        pub path: &'a str,
        /// The initial data, or null.
        pub data: Option<&'a [u8]>,
        /// The access control list, which must not be empty.
        pub acl: List<'a, Acl<'a>>,
        /// [`CreateMode::PERSISTENT_WITH_TTL`] or [`CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL`].
        #[doc(alias = "flags")]
        pub mode: CreateMode,
        /// The time to live in milliseconds, in the range of [`Ttl`](crate::Ttl).
        pub ttl: i64,
    }

    /// A request to delete a node without children: `delete` (2). Since 3.0.
    ///
    /// # Errors
    ///
    /// - [`ErrorCode::NO_NODE`]: the node does not exist.
    /// - [`ErrorCode::NOT_EMPTY`]: the node has children.
    /// - [`ErrorCode::BAD_VERSION`]: the node has another version.
    /// - [`ErrorCode::NO_AUTH`]: the parent does not grant [`Perms::DELETE`].
    #[doc(alias = "delete")]
    pub struct DeleteRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The version that the node must have, or -1 for any.
        pub version: i32,
    }

    /// A request to delete an empty container: `deleteContainer` (20). Since 3.5.1.
    ///
    /// Servers send it to themselves (`ContainerManager`). Clients do not need it.
    #[doc(alias = "deleteContainer")]
    pub struct DeleteContainerRequest<'a> {
        /// The path of the container.
        pub path: &'a str,
    }

    /// A request to check whether a node exists: `exists` (3). Since 3.0.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`] if it does not.
    #[doc(alias("exists", "znode"))]
    pub struct ExistsRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// Whether to set a watch. The server sets it even if the node does not exist.
        pub watch: bool,
    }

    /// The reply to `exists` (3) if the node exists. Since 3.0.
    pub struct ExistsResponse {
        /// The stat of the node.
        pub stat: Stat,
    }

    // ---- Data -----------------------------------------------------------------------------------

    /// A request to read the data of a node: `getData` (4). Since 3.0.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`], or [`ErrorCode::NO_AUTH`] without [`Perms::READ`].
    ///
    /// ```
    /// use zk_proto::{GetDataRequest, OpCode, Request};
    ///
    /// let request = Request::GetData(GetDataRequest { path: "/config", watch: true });
    /// assert_eq!(request.opcode(), OpCode::GET_DATA);
    /// ```
    #[doc(alias("getData", "znode"))]
    pub struct GetDataRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// Whether to set a watch. The server sets none if the node does not exist.
        pub watch: bool,
    }

    /// The reply to `getData` (4) since 3.0, and `reconfig` (16) since 3.5.0.
    ///
    /// For `reconfig`, the data is the new configuration.
    pub struct GetDataResponse<'a> {
        /// The data, or null if the node was created with null.
        pub data: Option<&'a [u8]>,
        /// The stat of the node.
        pub stat: Stat,
    }

    /// A request to replace the data of a node: `setData` (5). Since 3.0.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`], [`ErrorCode::BAD_VERSION`], or [`ErrorCode::NO_AUTH`] without
    /// [`Perms::WRITE`].
    #[doc(alias = "setData")]
    pub struct SetDataRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The new data, or null.
        pub data: Option<&'a [u8]>,
        /// The version that the node must have, or -1 for any.
        pub version: i32,
    }

    /// The reply to `setData` (5). Since 3.0.
    pub struct SetDataResponse {
        /// The stat of the node after the change.
        pub stat: Stat,
    }

    // ---- Access control -------------------------------------------------------------------------

    /// A request to read the access control list of a node: `getACL` (6). Since 3.0.
    ///
    /// It needs [`Perms::READ`] or [`Perms::ADMIN`]. Without the latter, servers since 3.4.14 and
    /// 3.5.5 mask the hashes of digests (ZOOKEEPER-1392).
    #[doc(alias = "getACL")]
    pub struct GetAclRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
    }

    /// The reply to `getACL` (6). Since 3.0.
    pub struct GetAclResponse<'a> {
        /// The access control list.
        pub acl: List<'a, Acl<'a>>,
        /// The stat of the node.
        pub stat: Stat,
    }

    /// A request to replace the access control list of a node: `setACL` (7). Since 3.0.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`], [`ErrorCode::BAD_VERSION`], [`ErrorCode::INVALID_ACL`], or
    /// [`ErrorCode::NO_AUTH`] without [`Perms::ADMIN`].
    #[doc(alias = "setACL")]
    pub struct SetAclRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The new list, which must not be empty.
        pub acl: List<'a, Acl<'a>>,
        /// The value that [`Stat::aversion`] must have, or -1 for any.
        pub version: i32,
    }

    /// The reply to `setACL` (7). Since 3.0.
    pub struct SetAclResponse {
        /// The stat of the node after the change.
        pub stat: Stat,
    }

    // ---- Children -------------------------------------------------------------------------------

    /// A request to list the children of a node: `getChildren` (8) since 3.0, `getChildren2` (12)
    /// since 3.3.0.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`], or [`ErrorCode::NO_AUTH`] without [`Perms::READ`].
    #[doc(alias("getChildren", "getChildren2"))]
    pub struct GetChildrenRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// Whether to set a watch. The server sets none if the node does not exist.
        pub watch: bool,
    }

    /// The reply to `getChildren` (8). Since 3.0.
    pub struct GetChildrenResponse<'a> {
        /// The names of the children, unordered.
        pub children: List<'a, &'a str>,
    }

    /// The reply to `getChildren2` (12). Since 3.3.0.
    pub struct GetChildren2Response<'a> {
        /// The names of the children, unordered.
        pub children: List<'a, &'a str>,
        /// The stat of the node.
        pub stat: Stat,
    }

    /// A request to count all nodes below a node: `getAllChildrenNumber` (104). Since 3.6.0.
    #[doc(alias = "getAllChildrenNumber")]
    pub struct GetAllChildrenNumberRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
    }

    /// The reply to `getAllChildrenNumber` (104). Since 3.6.0.
    pub struct GetAllChildrenNumberResponse {
        /// The number of nodes below it, at any depth.
        pub total_number: i32,
    }

    /// A request to list the ephemeral nodes of this session: `getEphemerals` (103). Since 3.6.0.
    #[doc(alias = "getEphemerals")]
    pub struct GetEphemeralsRequest<'a> {
        /// The prefix of the paths to list. It need not be a path; null and the empty string
        /// match all.
        pub prefix_path: Option<&'a str>,
    }

    /// The reply to `getEphemerals` (103). Since 3.6.0.
    pub struct GetEphemeralsResponse<'a> {
        /// The full paths of the nodes, unordered.
        pub ephemerals: List<'a, &'a str>,
    }

    // ---- Several at once ------------------------------------------------------------------------

    /// A request to check that a node exists and has a version: `check` (13), inside a multi only.
    /// Since 3.4.0.
    ///
    /// **Do not send it alone.** [`Request::harms_servers`](crate::Request::harms_servers) says
    /// what happens to the server.
    #[doc(alias = "check")]
    pub struct CheckVersionRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The version that the node must have, or -1 for any.
        pub version: i32,
    }

    // ---- Watches --------------------------------------------------------------------------------

    /// A request to set a watch that stays when it fires: `addWatch` (106). Since 3.6.0.
    ///
    /// The node need not exist. The reply is an [`ErrorResponse`].
    #[doc(alias = "addWatch")]
    pub struct AddWatchRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The events to report.
        pub mode: AddWatchMode,
    }

    /// A request to check whether a path has a watch: `checkWatches` (17). Since 3.5.0.
    ///
    /// The Java client sends it when it removes one of several local watchers, which the server
    /// does not distinguish (`ZooKeeper.removeWatches`).
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_WATCHER`] if there is none.
    #[doc(alias = "checkWatches")]
    pub struct CheckWatchesRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The type of watch.
        pub watcher_type: WatcherType,
    }

    /// A request to remove the watches of this connection from a path: `removeWatches` (18). Since
    /// 3.5.0.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_WATCHER`] if there is none, for example because it has just fired.
    #[doc(alias = "removeWatches")]
    pub struct RemoveWatchesRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The type of watch.
        pub watcher_type: WatcherType,
    }

    /// A request to set one-shot watches again after a reconnect: `setWatches` (101). Since 3.0.
    ///
    /// For each watch that would have fired since `relative_zxid`, the server sends an event at
    /// once.
    #[doc(alias = "setWatches")]
    pub struct SetWatches<'a> {
        /// The newest transaction that the client had seen when the connection broke.
        pub relative_zxid: Zxid,
        /// The nodes that existed and whose data was watched.
        pub data_watches: List<'a, &'a str>,
        /// The nodes that did not exist and whose creation was watched.
        pub exist_watches: List<'a, &'a str>,
        /// The nodes whose children were watched.
        pub child_watches: List<'a, &'a str>,
    }

    /// A request to set one-shot and persistent watches again: `setWatches2` (105). Since 3.6.0.
    ///
    /// The server sends no events for changes that persistent watches missed.
    #[doc(alias = "setWatches2")]
    pub struct SetWatches2<'a> {
        /// The newest transaction that the client had seen when the connection broke.
        pub relative_zxid: Zxid,
        /// The nodes that existed and whose data was watched.
        pub data_watches: List<'a, &'a str>,
        /// The nodes that did not exist and whose creation was watched.
        pub exist_watches: List<'a, &'a str>,
        /// The nodes whose children were watched.
        pub child_watches: List<'a, &'a str>,
        /// The nodes with a persistent watch.
        pub persistent_watches: List<'a, &'a str>,
        /// The nodes with a persistent recursive watch.
        pub persistent_recursive_watches: List<'a, &'a str>,
    }

    // ---- The session ----------------------------------------------------------------------------

    /// A request to wait until this server has caught up with the leader: `sync` (9). Since 3.0.
    #[doc(alias = "sync")]
    pub struct SyncRequest<'a> {
        /// Any path. It has no effect.
        pub path: &'a str,
    }

    /// The reply to `sync` (9). Since 3.0.
    pub struct SyncResponse<'a> {
        /// The path of the request.
        pub path: &'a str,
    }

    /// A request to present credentials: `auth` (100). Since 3.0.
    ///
    /// They are valid for the connection, not for the session. `Debug` hides them.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::AUTH_FAILED`]. The server then closes the connection.
    ///
    /// ```
    /// use zk_proto::AuthPacket;
    ///
    /// let packet = AuthPacket { auth_type: 0, scheme: "digest", auth: Some(b"alice:secret") };
    /// assert!(format!("{packet:?}").ends_with("auth: Secret(12 bytes) }"));
    /// ```
    #[doc(alias("auth", "addAuthInfo"))]
    pub struct AuthPacket<'a> {
        /// Always 0; servers ignore it.
        pub auth_type: i32,
        /// The scheme, as in [`Id::scheme`].
        pub scheme: &'a str,
        /// The credentials in the form that the scheme requires. For `digest`, this is
        /// `user:password` in plain text.
        [secret] pub auth: Option<&'a [u8]>,
    }

    /// A request for one step of SASL authentication: `sasl` (102). Since 3.4.0.
    #[doc(alias = "sasl")]
    pub struct GetSaslRequest<'a> {
        /// The token of the mechanism. The first token of `DIGEST-MD5` is empty, but not null.
        [secret] pub token: Option<&'a [u8]>,
    }

    /// The reply to `sasl` (102). Since 3.4.0.
    ///
    /// It also follows a header with [`ErrorCode::AUTH_FAILED`], with a null token.
    pub struct SetSaslResponse<'a> {
        /// The token of the mechanism, or null from a server without SASL.
        pub token: Option<&'a [u8]>,
    }

    /// An identity of a connection. Since 3.7.0.
    pub struct ClientInfo<'a> {
        /// The scheme, as in [`Id::scheme`].
        pub auth_scheme: &'a str,
        /// The identity without secrets, such as an address or the user of a digest.
        pub user: &'a str,
    }

    /// The reply to `whoAmI` (107), which asks for the identities of a connection. Since 3.7.0.
    #[doc(alias = "whoAmI")]
    pub struct WhoAmIResponse<'a> {
        /// The address of the client, and each identity that `auth` or `sasl` has proven.
        pub client_info: List<'a, ClientInfo<'a>>,
    }

    // ---- The ensemble ---------------------------------------------------------------------------

    /// A request to change the members of the ensemble: `reconfig` (16). Since 3.5.0.
    ///
    /// Either the first two lists describe the change, or the third lists all members. The reply
    /// is a [`GetDataResponse`] with the new configuration.
    #[doc(alias = "reconfig")]
    pub struct ReconfigRequest<'a> {
        /// The members that join or change, as `server.N=...`, separated by commas.
        pub joining_servers: Option<&'a str>,
        /// The ids of the members that leave, separated by commas.
        pub leaving_servers: Option<&'a str>,
        /// All members of the new configuration, as `server.N=...`, separated by commas.
        pub new_members: Option<&'a str>,
        /// The version that the configuration must have, or -1 for any.
        pub cur_config_id: i64,
    }
}

impl Id<'static> {
    /// Everybody.
    #[doc(alias = "ANYONE_ID_UNSAFE")]
    pub const ANYONE: Self = Self { scheme: "world", id: Some("anyone") };
    /// Every identity that this connection has proven, except its address.
    ///
    /// The server replaces it by those identities (`PrepRequestProcessor.fixupACL`).
    #[doc(alias = "AUTH_IDS")]
    pub const AUTH: Self = Self { scheme: "auth", id: Some("") };
}

impl Acl<'static> {
    /// Grants everything to everybody.
    #[doc(alias = "OPEN_ACL_UNSAFE")]
    pub const OPEN: Self = Self { perms: Perms::ALL, id: Id::ANYONE };
    /// Grants everything to the creator of the node.
    #[doc(alias = "CREATOR_ALL_ACL")]
    pub const CREATOR_ALL: Self = Self { perms: Perms::ALL, id: Id::AUTH };
    /// Grants reading to everybody.
    #[doc(alias = "READ_ACL_UNSAFE")]
    pub const READ: Self = Self { perms: Perms::READ, id: Id::ANYONE };
}
