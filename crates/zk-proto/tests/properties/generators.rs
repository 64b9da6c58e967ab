//! Any record, for proptest.
//!
//! Records borrow, and a strategy must yield values that own themselves: what they borrow is
//! leaked. That is a few megabytes in a test run.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use zk_proto::*;

/// A value that can be made up.
pub(crate) trait Generate: Sized + core::fmt::Debug + 'static {
    fn any() -> BoxedStrategy<Self>;
}

macro_rules! primitives {
    ($($type:ty: $strategy:expr;)*) => {$(
        impl Generate for $type {
            fn any() -> BoxedStrategy<Self> {
                $strategy.boxed()
            }
        }
    )*};
}

primitives! {
    (): Just(());
    bool: any::<bool>();
    i32: prop_oneof![any::<i32>(), Just(0), Just(-1), Just(i32::MAX), Just(i32::MIN)];
    i64: prop_oneof![any::<i64>(), Just(0), Just(-1), Just(i64::MAX), Just(i64::MIN)];
    &'static [u8]: vec(any::<u8>(), 0..24).prop_map(leak);
    &'static str: vec(any::<char>(), 0..12).prop_map(|chars| &*chars.into_iter().collect::<String>().leak());
}

pub(crate) fn leak<T>(items: Vec<T>) -> &'static [T] {
    items.leak()
}

impl<T: Generate> Generate for Option<T> {
    fn any() -> BoxedStrategy<Self> {
        proptest::option::weighted(0.8, T::any()).boxed()
    }
}

impl<T: Generate + Copy + Decode<'static>> Generate for List<'static, T> {
    fn any() -> BoxedStrategy<Self> {
        let items = vec(T::any(), 0..5).prop_map(|items| Self::new(leak(items)));
        prop_oneof![9 => items, 1 => Just(Self::NULL)].boxed()
    }
}

impl<T: Generate + MultiItem<'static>> Generate for Multi<'static, T> {
    fn any() -> BoxedStrategy<Self> {
        vec(T::any(), 0..5).prop_map(|items| Self::new(leak(items))).boxed()
    }
}

macro_rules! newtypes {
    ($($name:ident)*) => {$(
        impl Generate for $name {
            fn any() -> BoxedStrategy<Self> {
                Generate::any().prop_map($name).boxed()
            }
        }
    )*};
}

newtypes! {
    AddWatchMode CreateMode ErrorCode EventType KeeperState OpCode Perms SessionId WatcherType Xid
    Zxid
}

macro_rules! records {
    ($($name:ty { $($field:ident)* })*) => {$(
        impl Generate for $name {
            fn any() -> BoxedStrategy<Self> {
                ($( { let $field = Generate::any(); $field }, )*)
                    .prop_map(|($($field,)*)| Self { $($field,)* })
                    .boxed()
            }
        }
    )*};
}

records! {
    RequestHeader { xid opcode }
    ReplyHeader { xid zxid err }
    MultiHeader { opcode done err }
    ConnectRequest<'static> {
        protocol_version last_zxid_seen timeout session_id password read_only
    }
    ConnectResponse<'static> { protocol_version timeout session_id password read_only }
    Stat {
        czxid mzxid ctime mtime version cversion aversion ephemeral_owner data_length num_children
        pzxid
    }
    Id<'static> { scheme id }
    Acl<'static> { perms id }
    WatcherEvent<'static> { event_type state path }
    ErrorResponse { err }
    CreateRequest<'static> { path data acl mode }
    CreateResponse<'static> { path }
    Create2Response<'static> { path stat }
    CreateTtlRequest<'static> { path data acl mode ttl }
    DeleteRequest<'static> { path version }
    DeleteContainerRequest<'static> { path }
    ExistsRequest<'static> { path watch }
    ExistsResponse { stat }
    GetDataRequest<'static> { path watch }
    GetDataResponse<'static> { data stat }
    SetDataRequest<'static> { path data version }
    SetDataResponse { stat }
    GetAclRequest<'static> { path }
    GetAclResponse<'static> { acl stat }
    SetAclRequest<'static> { path acl version }
    SetAclResponse { stat }
    GetChildrenRequest<'static> { path watch }
    GetChildrenResponse<'static> { children }
    GetChildren2Response<'static> { children stat }
    GetAllChildrenNumberRequest<'static> { path }
    GetAllChildrenNumberResponse { total_number }
    GetEphemeralsRequest<'static> { prefix_path }
    GetEphemeralsResponse<'static> { ephemerals }
    CheckVersionRequest<'static> { path version }
    AddWatchRequest<'static> { path mode }
    CheckWatchesRequest<'static> { path watcher_type }
    RemoveWatchesRequest<'static> { path watcher_type }
    SetWatches<'static> { relative_zxid data_watches exist_watches child_watches }
    SetWatches2<'static> {
        relative_zxid data_watches exist_watches child_watches persistent_watches
        persistent_recursive_watches
    }
    SyncRequest<'static> { path }
    SyncResponse<'static> { path }
    AuthPacket<'static> { auth_type scheme auth }
    GetSaslRequest<'static> { token }
    SetSaslResponse<'static> { token }
    ClientInfo<'static> { auth_scheme user }
    WhoAmIResponse<'static> { client_info }
    ReconfigRequest<'static> { joining_servers leaving_servers new_members cur_config_id }
}

macro_rules! enums {
    ($($name:ty { $($variant:ident)* })*) => {$(
        impl Generate for $name {
            fn any() -> BoxedStrategy<Self> {
                Union::new([ $( Generate::any().prop_map(<$name>::$variant).boxed(), )* ]).boxed()
            }
        }
    )*};
}

enums! {
    Request<'static> {
        Create Delete Exists GetData SetData GetAcl SetAcl GetChildren Sync Ping GetChildren2 Check
        Multi Create2 Reconfig CheckWatches RemoveWatches CreateContainer DeleteContainer CreateTtl
        MultiRead Auth SetWatches Sasl GetEphemerals GetAllChildrenNumber SetWatches2 AddWatch
        WhoAmI CloseSession
    }
    Response<'static> {
        Create Delete Exists GetData SetData GetAcl SetAcl GetChildren Sync Ping GetChildren2 Check
        Multi Create2 Reconfig CheckWatches RemoveWatches CreateContainer DeleteContainer CreateTtl
        MultiRead Auth SetWatches Sasl GetEphemerals GetAllChildrenNumber SetWatches2 AddWatch
        WhoAmI CloseSession
    }
    MultiOp<'static> { Create Delete SetData Check Create2 CreateContainer CreateTtl }
    MultiResult<'static> { Create Delete SetData Check Create2 Error }
    MultiReadOp<'static> { GetData GetChildren }
    MultiReadResult<'static> { GetData GetChildren Error }
}
