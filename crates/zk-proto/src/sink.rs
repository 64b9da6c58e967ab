//! Where encoded bytes go: a fixed buffer, or one that grows.

use crate::error::EncodeError;

/// Where encoded bytes go.
///
/// Implemented by [`SliceSink`] always, by `Vec<u8>` with feature `alloc` and by `BytesMut` with
/// feature `bytes`.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Makes room for `bytes` more, if the sink can grow.
    #[inline]
    fn reserve(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

#[cfg(feature = "alloc")]
impl Sink for alloc::vec::Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn reserve(&mut self, bytes: usize) {
        self.reserve(bytes);
    }
}

#[cfg(feature = "bytes")]
impl Sink for bytes::BytesMut {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn reserve(&mut self, bytes: usize) {
        self.reserve(bytes);
    }
}

/// A [`Sink`] over a fixed buffer. It counts what did not fit instead of panicking.
#[derive(Debug)]
pub struct SliceSink<'b> {
    buffer: &'b mut [u8],
    /// Where the next byte belongs, be it beyond the end.
    position: usize,
}

impl<'b> SliceSink<'b> {
    /// A sink that fills `buffer` from its front.
    #[inline]
    pub fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, position: 0 }
    }

    /// Bytes that were put, whether or not they fit.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// How many bytes were written.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BufferTooSmall`] when they did not all fit.
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
        // If it wraps around, it is before the position, and there is no such place.
        let end = self.position.wrapping_add(bytes.len());
        match self.buffer.get_mut(self.position..end) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.position = end;
            }
            None => self.position = self.position.saturating_add(bytes.len()),
        }
    }
}
