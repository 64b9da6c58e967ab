//! The owned form of vectors.

use alloc::vec::Vec;
use core::ops::Deref;

use super::storage::{IntoOwned, Storage};
use crate::sink::Sink;
use crate::wire::{Decode, Encode, put_length};

/// The owned form of a vector, which may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(
    /// The items, or `None` for null.
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

/// A null vector dereferences to the empty slice.
impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T: Encode> Encode for List<T> {
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

impl<'a, T: Copy + Decode<'a> + IntoOwned> IntoOwned for crate::List<'a, T> {
    type Owned<S: Storage> = List<T::Owned<S>>;

    fn to_owned_in<S: Storage>(&self, storage: &S) -> Self::Owned<S> {
        let items = || self.iter().map(|item| item.to_owned_in(storage)).collect();
        List((!self.is_null()).then(items))
    }
}
