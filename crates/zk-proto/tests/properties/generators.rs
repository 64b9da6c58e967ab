//! Generators of borrowed records: owned records, encoded and decoded.
//!
//! The decoded records borrow from leaked bytes, a few megabytes in a test run.

use proptest::prelude::*;
use zk_proto::*;

/// A value that can be generated.
pub(crate) trait Generate: Sized + core::fmt::Debug + 'static {
    fn any() -> BoxedStrategy<Self>;
}

pub(crate) fn leak<T>(items: Vec<T>) -> &'static [T] {
    items.leak()
}

fn leaked(message: &impl Encode) -> &'static [u8] {
    let mut bytes = vec![0; message.encoded_len()];
    assert_eq!(message.encode_to_slice(&mut bytes), Ok(bytes.len()));
    leak(bytes)
}

macro_rules! borrow {
    ($($name:ident)*) => {$(
        impl Generate for $name<'static> {
            fn any() -> BoxedStrategy<Self> {
                any_with::<owned::$name>(GeneratorMode::Harmful)
                    .prop_map(|owned| Decode::decode_all(leaked(&owned)).expect("what was encoded"))
                    .boxed()
            }
        }
    )*};
}

borrow! {
    ConnectRequest ConnectResponse Id Acl WatcherEvent CreateRequest CreateResponse
    Create2Response CreateTtlRequest DeleteRequest DeleteContainerRequest ExistsRequest
    GetDataRequest GetDataResponse SetDataRequest GetAclRequest GetAclResponse SetAclRequest
    GetChildrenRequest GetChildrenResponse GetChildren2Response GetAllChildrenNumberRequest
    GetEphemeralsRequest GetEphemeralsResponse CheckVersionRequest AddWatchRequest
    CheckWatchesRequest RemoveWatchesRequest SetWatches SetWatches2 SyncRequest SyncResponse
    AuthPacket GetSaslRequest SetSaslResponse ClientInfo WhoAmIResponse ReconfigRequest
    MultiRequest MultiResponse MultiReadRequest MultiReadResponse
}

macro_rules! own {
    ($($name:ident)*) => {$(
        impl Generate for $name {
            fn any() -> BoxedStrategy<Self> {
                any_with::<Self>(GeneratorMode::Harmful).boxed()
            }
        }
    )*};
}

own! {
    RequestHeader ReplyHeader MultiHeader Stat ErrorResponse ExistsResponse SetDataResponse
    SetAclResponse GetAllChildrenNumberResponse
}

macro_rules! operations {
    ($($name:ident)*) => {$(
        impl Generate for $name<'static> {
            fn any() -> BoxedStrategy<Self> {
                any_with::<owned::$name>(GeneratorMode::Harmful)
                    .prop_map(|owned| {
                        let decoded = Self::decode(owned.opcode(), leaked(&owned));
                        decoded.expect("what was encoded")
                    })
                    .boxed()
            }
        }
    )*};
}

operations! { Request Response }
