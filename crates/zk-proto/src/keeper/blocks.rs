//! Compressed streams: blocks, each with a checksum, a method and two lengths in front.
//!
//! ```text
//! 16 bytes   the checksum of the rest of the block, by CityHash128
//!  1 byte    the method: 0x82 is LZ4, 0x02 none
//!  4 bytes   the length from the method on, little-endian
//!  4 bytes   the length of what it holds, little-endian
//! ```
//!
//! Frames do not have to begin where blocks do. Source: `CompressedReadBufferBase.cpp` and
//! `ICompressionCodec.cpp` of ClickHouse.

use alloc::vec::Vec;
use core::fmt;

/// The bytes of the checksum.
pub const CHECKSUM_LEN: usize = 16;
/// The bytes of the method and the lengths behind the checksum.
pub const HEADER_LEN: usize = 9;
/// The method LZ4.
pub const LZ4: u8 = 0x82;
/// The method of a block that is not compressed.
pub const NONE: u8 = 0x02;

crate::named! {
    /// A block that cannot be read. The rest of the stream is unreadable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum BlockError {
        /// A length exceeds the limit, or is shorter than the header.
        Length(u32),
        /// The method is unknown.
        Method(u8),
        /// The compressed bytes are malformed.
        Malformed,
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(f, "a compressed block has the length {length}"),
            Self::Method(method) => write!(f, "the compression method {method:#04x} is unknown"),
            Self::Malformed => f.write_str("a compressed block is malformed"),
        }
    }
}

impl core::error::Error for BlockError {}

/// Splits the first block off `stream`, appends what it holds to `out`, and returns the bytes
/// behind it. Returns `None` until the whole block has arrived. The checksum is not checked.
///
/// # Errors
///
/// Fails if a length exceeds `limit` bytes, if the method is unknown, or if the bytes are malformed.
pub fn decompress<'s>(
    stream: &'s [u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<Option<&'s [u8]>, BlockError> {
    let header = stream.get(CHECKSUM_LEN..).and_then(|rest| rest.first_chunk::<HEADER_LEN>());
    let Some([method, l0, l1, l2, l3, s0, s1, s2, s3]) = header.copied() else { return Ok(None) };
    let checked = |length: u32, least: usize| match usize::try_from(length) {
        Ok(checked) if (least..=limit).contains(&checked) => Ok(checked),
        _ => Err(BlockError::Length(length)),
    };
    let length = checked(u32::from_le_bytes([l0, l1, l2, l3]), HEADER_LEN)?;
    let size = checked(u32::from_le_bytes([s0, s1, s2, s3]), 0)?;
    let Some((block, rest)) = stream.split_at_checked(CHECKSUM_LEN + length) else {
        return Ok(None);
    };
    let body = &block[CHECKSUM_LEN + HEADER_LEN..];
    match method {
        LZ4 => lz4(body, size, out).ok_or(BlockError::Malformed)?,
        NONE if body.len() == size => out.extend_from_slice(body),
        NONE => return Err(BlockError::Malformed),
        _ => return Err(BlockError::Method(method)),
    }
    Ok(Some(rest))
}

/// Decompresses a block of LZ4 that holds `size` bytes.
fn lz4(mut block: &[u8], size: usize, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    while let Some((token, rest)) = block.split_first() {
        block = rest;
        let literals = length(usize::from(token >> 4), &mut block)?;
        let (copied, rest) = block.split_at_checked(literals)?;
        (out.len() - start + literals <= size).then_some(())?;
        out.extend_from_slice(copied);
        // The last sequence has no match.
        let Some((distance, rest)) = rest.split_first_chunk() else {
            return (rest.is_empty() && out.len() - start == size).then_some(());
        };
        block = rest;
        let distance = usize::from(u16::from_le_bytes(*distance));
        let matched = 4 + length(usize::from(token & 15), &mut block)?;
        let from = (out.len() - start).checked_sub(distance).filter(|_| distance > 0)? + start;
        (out.len() - start + matched <= size).then_some(())?;
        // It may overlap what it appends.
        (from..from + matched).for_each(|place| out.push(out[place]));
    }
    (out.len() - start == size).then_some(())
}

/// Reads the rest of a length: bytes of 255, and a last one below.
fn length(nibble: usize, block: &mut &[u8]) -> Option<usize> {
    let mut length = nibble;
    let mut is_last = nibble < 15;
    while !is_last {
        let (byte, rest) = block.split_first()?;
        *block = rest;
        length += usize::from(*byte);
        is_last = *byte < 255;
    }
    Some(length)
}
