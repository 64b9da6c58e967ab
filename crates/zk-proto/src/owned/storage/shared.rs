//! Storage that shares the memory of a frame, and the buffer that frames are encoded into.

use alloc::borrow::ToOwned;
use alloc::string::String;

use super::Storage;
use crate::sink::Sink;
use crate::wire::Encode;

/// Storage that shares the memory of the frame.
///
/// Buffers inside the frame become slices of it, which keep the whole frame alive. Other buffers
/// are copied, and so are strings.
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

encoded_like_borrowed! {
    Option<bytes::Bytes> => Self::as_deref;
}

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
