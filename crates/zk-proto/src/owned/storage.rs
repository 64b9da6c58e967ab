//! The storage of strings and buffers in owned records.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use crate::sink::Sink;
use crate::wire::Encode;

/// A conversion from a type that borrows from a frame to its owned form.
pub trait IntoOwned {
    /// The owned form, with its strings and buffers in `S`.
    type Owned<S: Storage>;

    /// Returns the owned form, with its strings and buffers in `storage`.
    ///
    /// With the `Bytes` of the frame as the storage, buffers are not copied:
    ///
    /// ```
    /// use bytes::Bytes;
    /// use zk_proto::owned::{self, IntoOwned};
    /// use zk_proto::{Decode, SetSaslResponse};
    ///
    /// let frame = Bytes::from_static(b"\0\0\0\x05token");
    /// let reply = SetSaslResponse::decode_all(&frame)?;
    /// let shared: owned::SetSaslResponse<Bytes> = reply.to_owned_in(&frame);
    /// assert_eq!(shared.token, Some(frame.slice(4..)));
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    fn to_owned_in<S: Storage>(&self, storage: &S) -> Self::Owned<S>;

    /// Returns the owned form, with copies of all strings and buffers.
    fn into_owned(self) -> Self::Owned<Heap>
    where
        Self: Sized,
    {
        self.to_owned_in(&Heap)
    }
}

/// A policy for where an owned record keeps its strings and buffers.
pub trait Storage {
    /// A string.
    type Text: Encode + Clone + Debug + Eq;
    /// A string or null.
    type NullableText: Encode + Clone + Debug + Eq;
    /// A buffer or null.
    type Buffer: Encode + Clone + Debug + Eq;

    /// Stores a string.
    fn text(&self, text: &str) -> Self::Text;

    /// Stores a string or null.
    fn nullable_text(&self, text: Option<&str>) -> Self::NullableText;

    /// Stores a buffer or null.
    fn buffer(&self, buffer: Option<&[u8]>) -> Self::Buffer;
}

/// Storage that copies into `String` and `Vec<u8>`.
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

owned_as_itself!(u8, bool, i32, i64, Option<bool>, ());

impl IntoOwned for &str {
    type Owned<S: Storage> = S::Text;

    fn to_owned_in<S: Storage>(&self, storage: &S) -> S::Text {
        storage.text(self)
    }
}

impl IntoOwned for Option<&str> {
    type Owned<S: Storage> = S::NullableText;

    fn to_owned_in<S: Storage>(&self, storage: &S) -> S::NullableText {
        storage.nullable_text(*self)
    }
}

impl IntoOwned for Option<&[u8]> {
    type Owned<S: Storage> = S::Buffer;

    fn to_owned_in<S: Storage>(&self, storage: &S) -> S::Buffer {
        storage.buffer(*self)
    }
}

macro_rules! encoded_like_borrowed {
    ($($type:ty => $borrow:expr;)*) => {$(
        impl Encode for $type {
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

// Behind the macro that it uses.
mod shared;

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn reserve(&mut self, bytes: usize) {
        self.reserve(bytes);
    }
}
