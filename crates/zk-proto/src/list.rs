//! Vectors, checked as a whole when they are decoded, and decoded item by item when they are used.

#[cfg(feature = "alloc")]
pub(crate) mod reader;

use core::fmt;

use crate::error::DecodeError;
use crate::field::{Explain, Field, FieldPath, FieldVisitor, Layout};
use crate::sink::Sink;
use crate::wire::{CheckedItems, Decode, Encode, Reader, put_length};

/// A vector of a record, borrowed from a frame or from a slice.
///
/// Decoding checks every item, so that [`iter`](Self::iter) cannot fail. It allocates nothing.
/// Every item takes at least one byte, so a count above the number of remaining bytes is an error.
///
/// A null vector, which Java writes for a null reference, stays null and iterates as empty.
///
/// ```
/// use zk_proto::{Decode, List};
///
/// let names = List::<&str>::decode_all(b"\0\0\0\x02\0\0\0\x01a\0\0\0\x01b")?;
/// assert!(names.iter().eq(["a", "b"]));
/// assert_eq!(names, List::new(&["a", "b"]));
/// # Ok::<(), zk_proto::DecodeError>(())
/// ```
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    items: ListItems<'a, T>,
}

#[derive(Clone, Copy)]
enum ListItems<'a, T> {
    Null,
    Slice(&'a [T]),
    Wire { count: usize, items: CheckedItems<'a> },
}

impl<'a, T> List<'a, T> {
    /// The null vector.
    pub const NULL: Self = Self { items: ListItems::Null };

    /// Creates a vector from these items.
    pub const fn new(items: &'a [T]) -> Self {
        Self { items: ListItems::Slice(items) }
    }

    /// Returns whether the vector is null, as opposed to empty.
    ///
    /// ```
    /// use zk_proto::List;
    ///
    /// let empty: List<'_, &str> = List::new(&[]);
    /// assert!(!empty.is_null() && List::<&str>::NULL.is_null());
    /// assert_eq!(empty.len(), List::<&str>::NULL.len());
    /// ```
    pub fn is_null(&self) -> bool {
        matches!(self.items, ListItems::Null)
    }

    /// Returns the number of items. It is 0 for null.
    pub fn len(&self) -> usize {
        match self.items {
            ListItems::Null => 0,
            ListItems::Slice(items) => items.len(),
            ListItems::Wire { count, .. } => count,
        }
    }

    /// Returns whether the vector has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: Copy + Decode<'a>> List<'a, T> {
    /// Returns the items in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + Clone + use<'a, T> {
        let (slice, wire) = match self.items {
            ListItems::Null => (&[][..], CheckedItems::Bytes(&[])),
            ListItems::Slice(items) => (items, CheckedItems::Bytes(&[])),
            ListItems::Wire { items, .. } => (&[][..], items),
        };
        Iter { slice: slice.iter(), wire, left: self.len() }
    }
}

#[derive(Clone)]
struct Iter<'a, T> {
    slice: core::slice::Iter<'a, T>,
    wire: CheckedItems<'a>,
    left: usize,
}

impl<'a, T: Copy + Decode<'a>> Iterator for Iter<'a, T> {
    type Item = T;

    // A call would keep the position in memory instead of a register.
    #[cfg_attr(target_os = "none", inline)]
    #[cfg_attr(not(target_os = "none"), inline(always))]
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
    // A call would keep the sink's position in memory instead of a register.
    #[cfg_attr(target_os = "none", inline)]
    #[cfg_attr(not(target_os = "none"), inline(always))]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        match self.items {
            ListItems::Null => (-1i32).encode(out),
            ListItems::Slice(items) => {
                put_length(items.len(), out);
                items.iter().for_each(|item| item.encode(out));
            }
            ListItems::Wire { count, items } => {
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
        Ok(Self { items: ListItems::Wire { count, items } })
    }
}

impl<'a, T: Explain<'a>> Explain<'a> for List<'a, T> {
    const TYPE: &'static str = "vector";
    const LAYOUT: &'static Layout = &Layout::Vector(T::LAYOUT);

    fn explain(
        reader: &mut Reader<'a>,
        path: &FieldPath<'_>,
        visit: &mut FieldVisitor<'_>,
    ) -> Result<(), DecodeError> {
        let start = reader.position();
        let count = reader.length()?;
        let range = start..reader.position();
        visit(&Field { range, wire_type: Self::TYPE, path, value: &Count(count) });
        let count = count.unwrap_or(0);
        expect_items(count, reader)?;
        (0..count).try_for_each(|index| T::explain(reader, &FieldPath::Item(path, index), visit))
    }
}

/// Fails if the count exceeds the remaining bytes: a peer can claim any count.
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
