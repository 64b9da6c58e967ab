//! Vectors: checked as a whole when they are read, decoded item by item when they are used.

use core::fmt;

use crate::error::DecodeError;
use crate::explain::{Explain, Field, Path, Show};
use crate::sink::Sink;
use crate::wire::{Checked, Decode, Encode, Reader, put_length, total};

/// A vector of a record: borrowed from a frame, or from a slice of items to be written.
///
/// Reading one checks every item, so that [`iter`](Self::iter) cannot fail; nothing is allocated.
/// Every item takes at least one byte, so that a count cannot exceed the bytes behind it.
/// A null vector, which Java writes for a null reference, stays null and iterates as empty.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    items: Items<'a, T>,
}

#[derive(Clone, Copy)]
enum Items<'a, T> {
    Null,
    Slice(&'a [T]),
    Wire { count: usize, items: Checked<'a> },
}

impl<'a, T> List<'a, T> {
    /// The null vector.
    pub const NULL: Self = Self { items: Items::Null };

    /// A vector of these items.
    pub const fn new(items: &'a [T]) -> Self {
        Self { items: Items::Slice(items) }
    }

    /// Whether the vector is null, as opposed to empty.
    pub fn is_null(&self) -> bool {
        matches!(self.items, Items::Null)
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        match self.items {
            Items::Null => 0,
            Items::Slice(items) => items.len(),
            Items::Wire { count, .. } => count,
        }
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: Copy + Decode<'a>> List<'a, T> {
    /// The items, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + Clone + use<'a, T> {
        let (slice, wire) = match self.items {
            Items::Null => (&[][..], Checked::Bytes(&[])),
            Items::Slice(items) => (items, Checked::Bytes(&[])),
            Items::Wire { items, .. } => (&[][..], items),
        };
        Iter { slice: slice.iter(), wire, left: self.len() }
    }
}

#[derive(Clone)]
struct Iter<'a, T> {
    slice: core::slice::Iter<'a, T>,
    wire: Checked<'a>,
    left: usize,
}

impl<'a, T: Copy + Decode<'a>> Iterator for Iter<'a, T> {
    type Item = T;

    // A call would keep the position in memory instead of a register.
    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        match self.slice.next() {
            Some(item) => Some(*item),
            None => T::next_item(&mut self.wire),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, T: Copy + Decode<'a>> ExactSizeIterator for Iter<'a, T> {}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self::new(items)
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for List<'a, T> {
    fn from(items: &'a [T; N]) -> Self {
        Self::new(items)
    }
}

impl<'a, T: Copy + Decode<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_null() == other.is_null() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Copy + Decode<'a> + Eq> Eq for List<'a, T> {}

impl<'a, T: Copy + Decode<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            return f.write_str("null");
        }
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Encode> Encode for List<'_, T> {
    #[inline]
    fn encoded_len(&self) -> usize {
        let items = match self.items {
            Items::Null => 0,
            Items::Slice(items) => total(items.iter().map(Encode::encoded_len)),
            Items::Wire { items, .. } => items.as_bytes().len(),
        };
        total([4, items])
    }

    // A call would keep the sink's position in memory instead of a register.
    #[inline(always)]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        match self.items {
            Items::Null => (-1i32).encode(out),
            Items::Slice(items) => {
                put_length(items.len(), out);
                items.iter().for_each(|item| item.encode(out));
            }
            Items::Wire { count, items } => {
                put_length(count, out);
                out.put(items.as_bytes());
            }
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for List<'a, T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let Some(count) = reader.length()? else {
            return Ok(Self::NULL);
        };
        expect_items(count, reader)?;
        let items = T::check_items(reader, count)?;
        Ok(Self { items: Items::Wire { count, items } })
    }
}

impl<'a, T: Explain<'a>> Explain<'a> for List<'a, T> {
    const TYPE: &'static str = "vector";

    fn explain(
        reader: &mut Reader<'a>,
        path: &Path<'_>,
        show: &mut Show<'_>,
    ) -> Result<(), DecodeError> {
        let start = reader.position();
        let count = reader.length()?;
        let range = start..reader.position();
        show(&Field { range, wire_type: Self::TYPE, path, value: &Count(count) });
        let count = count.unwrap_or(0);
        expect_items(count, reader)?;
        (0..count).try_for_each(|place| T::explain(reader, &Path::Item(path, place), show))
    }
}

/// The count is only a claim: it is believed no further than bytes have arrived.
fn expect_items(count: usize, reader: &Reader<'_>) -> Result<(), DecodeError> {
    if count > reader.rest().len() { Err(reader.truncated(count)) } else { Ok(()) }
}

struct Count(Option<usize>);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(1) => f.write_str("1 item"),
            Some(count) => write!(f, "{count} items"),
            None => f.write_str("null"),
        }
    }
}
