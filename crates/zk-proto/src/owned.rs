//! Records that borrow nothing: to keep, to send elsewhere, to make up.
//!
//! There is one for each record that borrows, under the same name and with the same fields. What it
//! keeps its strings and buffers in is a parameter, its [`Storage`]: [`Heap`] copies them,
//! `Bytes` (with feature `bytes`) shares the frame's memory with the buffers. They encode
//! to the same bytes.
//!
//! ```
//! use zk_proto::{GetDataResponse, Stat, owned::{self, Keep}};
//!
//! let reply = GetDataResponse { data: Some(b"10.0.0.7"), stat: Stat::default() };
//! let kept: owned::GetDataResponse = reply.into_owned();
//! assert_eq!(kept.data, Some(b"10.0.0.7".to_vec()));
//! ```
//!
//! Records that borrow nothing anyway, such as [`Stat`](crate::Stat), stand for themselves.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::Deref;

pub use crate::connect::owned::*;
use crate::multi::{MultiEntry, encode_items, items_len};
pub use crate::multi::{owned_op::*, owned_read_op::*, owned_read_result::*, owned_result::*};
pub use crate::operations::owned::*;
pub use crate::records::owned::*;
use crate::sink::Sink;
use crate::wire::{Decode, Encode, put_length, total};

/// Turns what borrows from a frame into what does not.
pub trait Keep {
    /// The owned form, by where it keeps its strings and buffers.
    type Kept<S: Storage>;

    /// The owned form, kept in `storage`.
    fn keep<S: Storage>(&self, storage: &S) -> Self::Kept<S>;

    /// The owned form, copied.
    fn into_owned(self) -> Self::Kept<Heap>
    where
        Self: Sized,
    {
        self.keep(&Heap)
    }
}

/// What an owned record keeps its strings and buffers in.
pub trait Storage {
    /// A string.
    type Text: Encode + Clone + Debug + Eq;
    /// A string or null.
    type NullableText: Encode + Clone + Debug + Eq;
    /// A buffer or null.
    type Buffer: Encode + Clone + Debug + Eq;

    /// Keeps a string.
    fn text(&self, text: &str) -> Self::Text;

    /// Keeps a string or null.
    fn nullable_text(&self, text: Option<&str>) -> Self::NullableText;

    /// Keeps a buffer or null.
    fn buffer(&self, buffer: Option<&[u8]>) -> Self::Buffer;
}

/// Copies: `String` and `Vec<u8>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap;

impl Storage for Heap {
    type Text = String;
    type NullableText = Option<String>;
    type Buffer = Option<Vec<u8>>;

    fn text(&self, text: &str) -> String {
        text.to_owned()
    }

    fn nullable_text(&self, text: Option<&str>) -> Option<String> {
        text.map(str::to_owned)
    }

    fn buffer(&self, buffer: Option<&[u8]>) -> Option<Vec<u8>> {
        buffer.map(<[u8]>::to_vec)
    }
}

/// The frame itself: buffers that lie in it become slices of it, which keep it alive as a whole.
/// Any other buffer is copied, as strings are.
#[cfg(feature = "bytes")]
impl Storage for bytes::Bytes {
    type Text = String;
    type NullableText = Option<String>;
    type Buffer = Option<Self>;

    fn text(&self, text: &str) -> String {
        text.to_owned()
    }

    fn nullable_text(&self, text: Option<&str>) -> Option<String> {
        text.map(str::to_owned)
    }

    fn buffer(&self, buffer: Option<&[u8]>) -> Option<Self> {
        buffer.map(|part| {
            let start = part.as_ptr().addr().checked_sub(self.as_ptr().addr());
            match start.map(|start| (start, start.saturating_add(part.len()))) {
                Some((start, end)) if end <= self.len() => self.slice(start..end),
                _ => Self::copy_from_slice(part),
            }
        })
    }
}

/// A vector, which may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(
    /// The items, or null.
    pub Option<Vec<T>>,
);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self(Some(items))
    }
}

/// Null has no items.
impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T: Encode> Encode for List<T> {
    fn encoded_len(&self) -> usize {
        total(self.iter().map(Encode::encoded_len).chain([4]))
    }

    fn encode<Out: Sink + ?Sized>(&self, out: &mut Out) {
        match &self.0 {
            Some(items) => {
                put_length(items.len(), out);
                items.iter().for_each(|item| item.encode(out));
            }
            None => (-1i32).encode(out),
        }
    }
}

impl<'a, T: Copy + Decode<'a> + Keep> Keep for crate::List<'a, T> {
    type Kept<S: Storage> = List<T::Kept<S>>;

    fn keep<S: Storage>(&self, storage: &S) -> Self::Kept<S> {
        let items = || self.iter().map(|item| item.keep(storage)).collect();
        List((!self.is_null()).then(items))
    }
}

/// A multi: items, each behind a header, without a count.
///
/// The headers are made anew when it is encoded. Of what they hold, only the error is not told by
/// the item itself; nobody reads it, so it is not kept: an item of a request gets -1, as from every
/// known client, and a result its own error, as from every known server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multi<T>(
    /// The items.
    pub Vec<T>,
);

/// [`MultiRequest`](crate::MultiRequest) that borrows nothing.
pub type MultiRequest<S = Heap> = Multi<MultiOp<S>>;
/// [`MultiResponse`](crate::MultiResponse) that borrows nothing.
pub type MultiResponse<S = Heap> = Multi<MultiResult<S>>;
/// [`MultiReadRequest`](crate::MultiReadRequest) that borrows nothing.
pub type MultiReadRequest<S = Heap> = Multi<MultiReadOp<S>>;
/// [`MultiReadResponse`](crate::MultiReadResponse) that borrows nothing.
pub type MultiReadResponse<S = Heap> = Multi<MultiReadResult<S>>;

impl<T: MultiEntry> Encode for Multi<T> {
    fn encoded_len(&self) -> usize {
        items_len(&self.0)
    }

    fn encode<Out: Sink + ?Sized>(&self, out: &mut Out) {
        encode_items(&self.0, out);
    }
}

impl<'a, T: crate::MultiItem<'a> + Keep> Keep for crate::Multi<'a, T> {
    type Kept<S: Storage> = Multi<T::Kept<S>>;

    fn keep<S: Storage>(&self, storage: &S) -> Self::Kept<S> {
        Multi(self.iter().map(|item| item.keep(storage)).collect())
    }
}

keeps_itself!(u8, bool, i32, i64, Option<bool>, ());

impl Keep for &str {
    type Kept<S: Storage> = S::Text;

    fn keep<S: Storage>(&self, storage: &S) -> S::Text {
        storage.text(self)
    }
}

impl Keep for Option<&str> {
    type Kept<S: Storage> = S::NullableText;

    fn keep<S: Storage>(&self, storage: &S) -> S::NullableText {
        storage.nullable_text(*self)
    }
}

impl Keep for Option<&[u8]> {
    type Kept<S: Storage> = S::Buffer;

    fn keep<S: Storage>(&self, storage: &S) -> S::Buffer {
        storage.buffer(*self)
    }
}

macro_rules! encoded_like_borrowed {
    ($($type:ty => $borrow:expr;)*) => {$(
        impl Encode for $type {
            #[inline]
            fn encoded_len(&self) -> usize {
                $borrow(self).encoded_len()
            }

            #[inline]
            fn encode<Out: Sink + ?Sized>(&self, out: &mut Out) {
                $borrow(self).encode(out);
            }
        }
    )*};
}

encoded_like_borrowed! {
    String => Self::as_str;
    Option<String> => Self::as_deref;
    Option<Vec<u8>> => Self::as_deref;
}

#[cfg(feature = "bytes")]
encoded_like_borrowed! {
    Option<bytes::Bytes> => Self::as_deref;
}
