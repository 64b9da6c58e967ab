//! The owned form of multis.

use alloc::vec::Vec;

use super::storage::{Heap, IntoOwned, Storage};
use crate::multi::{EncodeMultiItem, encode_items};
pub use crate::multi::{owned_op::*, owned_read_op::*, owned_read_result::*, owned_result::*};
use crate::sink::Sink;
use crate::wire::Encode;

/// The owned form of a multi: items with headers, without a count.
///
/// Encoding creates the headers anew. What no peer reads is not kept: the error code of an
/// item's header, and all of the last header but its mark. An item of a request gets -1, as
/// all known clients send. A result gets its own error, as all known servers send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multi<T>(
    /// The items.
    pub Vec<T>,
);

/// The owned form of [`MultiRequest`](crate::MultiRequest).
pub type MultiRequest<S = Heap> = Multi<MultiOp<S>>;
/// The owned form of [`MultiResponse`](crate::MultiResponse).
pub type MultiResponse<S = Heap> = Multi<MultiResult<S>>;
/// The owned form of [`MultiReadRequest`](crate::MultiReadRequest).
pub type MultiReadRequest<S = Heap> = Multi<MultiReadOp<S>>;
/// The owned form of [`MultiReadResponse`](crate::MultiReadResponse).
pub type MultiReadResponse<S = Heap> = Multi<MultiReadResult<S>>;

impl<T: EncodeMultiItem> Encode for Multi<T> {
    fn encode<Out: Sink + ?Sized>(&self, out: &mut Out) {
        encode_items(&self.0, out);
    }
}

impl<'a, T: crate::DecodeMultiItem<'a> + IntoOwned> IntoOwned for crate::Multi<'a, T> {
    type Owned<S: Storage> = Multi<T::Owned<S>>;

    fn to_owned_in<S: Storage>(&self, storage: &S) -> Self::Owned<S> {
        Multi(self.iter().map(|item| item.to_owned_in(storage)).collect())
    }
}
