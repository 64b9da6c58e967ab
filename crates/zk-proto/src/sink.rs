//! The destinations of encoded bytes.

use crate::error::EncodeError;

/// A destination of encoded bytes.
///
/// [`SliceSink`] implements it always, `Vec<u8>` and `BytesMut` with the feature `alloc`.
///
/// A sink of your own can count or hash the bytes instead of storing them:
///
/// ```
/// use zk_proto::{Encode, Sink};
///
/// struct Count(usize);
///
/// impl Sink for Count {
///     fn put(&mut self, bytes: &[u8]) {
///         self.0 += bytes.len();
///     }
/// }
///
/// let mut count = Count(0);
/// "/locks".encode(&mut count);
/// assert_eq!(count.0, 10);
/// ```
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Makes room for that many more bytes, if the sink can grow.
    #[inline]
    #[expect(unused_variables, reason = "the default does nothing")]
    fn reserve(&mut self, bytes: usize) {}
}

/// A [`Sink`] over a fixed buffer. It never panics, and counts the bytes that do not fit.
///
/// ```
/// use zk_proto::{Encode, EncodeError, SliceSink};
///
/// let mut buffer = [0; 6];
/// let mut sink = SliceSink::new(&mut buffer);
/// 7i32.encode(&mut sink);
/// 8i32.encode(&mut sink);
/// assert_eq!(sink.finish(), Err(EncodeError::BufferTooSmall { needed: 8 }));
/// ```
#[derive(Debug)]
pub struct SliceSink<'b> {
    buffer: &'b mut [u8],
    /// The offset of the next byte, even beyond the end of the buffer.
    position: usize,
}

impl<'b> SliceSink<'b> {
    /// Creates a sink that fills `buffer` from its front.
    #[inline]
    pub fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, position: 0 }
    }

    /// Returns the number of bytes that were put, whether they fit or not.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BufferTooSmall`] if they did not all fit.
    #[inline]
    pub fn finish(self) -> Result<usize, EncodeError> {
        match self.position {
            needed if needed > self.buffer.len() => Err(EncodeError::BufferTooSmall { needed }),
            written => Ok(written),
        }
    }
}

impl Sink for SliceSink<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        // After an overflow, the end is before the position, and there is no such range.
        let end = self.position.wrapping_add(bytes.len());
        match self.buffer.get_mut(self.position..end) {
            Some(target) => {
                target.copy_from_slice(bytes);
                self.position = end;
            }
            None => self.position = self.position.saturating_add(bytes.len()),
        }
    }
}

/// Counts the bytes that are put into it.
#[derive(Debug, Default)]
pub(crate) struct Counter(pub(crate) usize);

impl Sink for Counter {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 = self.0.saturating_add(bytes.len());
    }
}
