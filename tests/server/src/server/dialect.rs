//! Between the bytes of a client that speaks the dialect of ClickHouse Keeper and ZooKeeper's form,
//! in which all else here is.

use bytes::{Buf, Bytes, BytesMut};
use zk_proto::frame::{self, PREFIX_LEN};
use zk_proto::keeper::{Dialect, blocks};

/// Client and server cannot go on.
#[derive(Debug)]
pub(super) struct Unreadable;

/// The frames that a client sends.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox {
    received: BytesMut,
    /// What was received, without compression. Otherwise, it is empty.
    decompressed: Vec<u8>,
    dialect: Dialect,
}

impl Inbox {
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Returns the bytes that were received, to read a four-letter word.
    pub(super) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Continues in the dialect that the handshake granted.
    pub(super) fn speak(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    /// Takes the first payload, with what its length does not count if the server is a Keeper.
    pub(super) fn handshake(
        &mut self,
        limit: usize,
        is_keeper: bool,
    ) -> Result<Option<Bytes>, Unreadable> {
        if !is_keeper {
            return frame::split_bytes(&mut self.received, limit).map_err(|_| Unreadable);
        }
        let length = Dialect::handshake_length(&self.received, limit).map_err(|_| Unreadable)?;
        let whole = length.filter(|length| *length <= self.received.len());
        Ok(whole.map(|length| {
            let mut frame = self.received.split_to(length).freeze();
            frame.advance(PREFIX_LEN);
            frame
        }))
    }

    /// Takes the payload of the next request, in ZooKeeper's form.
    pub(super) fn request(&mut self, limit: usize) -> Result<Option<Bytes>, Unreadable> {
        if self.dialect == Dialect::default() {
            return frame::split_bytes(&mut self.received, limit).map_err(|_| Unreadable);
        }
        if self.dialect.compression {
            while let Some(rest) = blocks::decompress(&self.received, limit, &mut self.decompressed)
                .map_err(|_| Unreadable)?
            {
                let taken = self.received.len() - rest.len();
                self.received.advance(taken);
            }
        } else {
            self.decompressed.extend_from_slice(&self.received);
            self.received.clear();
        }
        let length = self.dialect.request_length(&self.decompressed, limit);
        let Some(length) = length.map_err(|_| Unreadable)? else { return Ok(None) };
        let request: Vec<u8> = self.decompressed.drain(..length).collect();
        let (payload, _) = frame::split(&request, limit).ok().flatten().ok_or(Unreadable)?;
        let narrow = match payload.split_first_chunk() {
            Some((xid, rest)) if self.dialect.wide_xids => {
                [&narrow(i64::from_be_bytes(*xid))?.to_be_bytes(), rest].concat()
            }
            None if self.dialect.wide_xids => return Err(Unreadable),
            _ => payload.to_vec(),
        };
        Ok(Some(narrow.into()))
    }
}

/// Returns the form of an xid with 4 bytes. The last one closes a session, in both forms.
fn narrow(xid: i64) -> Result<i32, Unreadable> {
    match xid {
        i64::MAX => Ok(i32::MAX),
        _ => i32::try_from(xid).map_err(|_| Unreadable),
    }
}

fn widen(xid: i32) -> i64 {
    if xid == i32::MAX { i64::MAX } else { xid.into() }
}

/// Returns a frame for a client that speaks a dialect.
pub(super) fn translate(dialect: Dialect, frame: Bytes) -> Bytes {
    let payload = frame.get(PREFIX_LEN..).and_then(|payload| payload.split_first_chunk());
    let wide = match payload {
        Some((xid, rest)) if dialect.wide_xids => {
            let length = u32::try_from(rest.len() + size_of::<i64>()).unwrap_or(u32::MAX);
            let xid = widen(i32::from_be_bytes(*xid)).to_be_bytes();
            [&length.to_be_bytes(), &xid[..], rest].concat().into()
        }
        _ => frame,
    };
    if dialect.compression { compress(&wide) } else { wide }
}

/// Returns one block that holds `bytes`. Its LZ4 has no matches.
#[cfg(feature = "compression")]
fn compress(bytes: &[u8]) -> Bytes {
    let mut literals = vec![15 << 4];
    match bytes.len().checked_sub(15) {
        None => literals[0] = (bytes.len() as u8) << 4,
        Some(more) => {
            literals.resize(1 + more / 255, 255);
            literals.push((more % 255) as u8);
        }
    }
    literals.extend_from_slice(bytes);
    let length = blocks::HEADER_LEN + literals.len();
    let lengths = [length, bytes.len()].map(|length| u32::try_from(length).unwrap_or(u32::MAX));
    let [length, size] = lengths.map(u32::to_le_bytes);
    let block = [&[blocks::LZ4], &length[..], &size, &literals].concat();
    let sum = cityhash_rs::cityhash_102_128(&block);
    let (high, low) = ((sum >> 64) as u64, sum as u64);
    [&high.to_le_bytes(), &low.to_le_bytes(), &block[..]].concat().into()
}

#[cfg(not(feature = "compression"))]
fn compress(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(all(test, feature = "compression"))]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_checksum_of_clickhouse() {
        // As ClickHouse 26.9 sent it: a block without matches.
        let plain = b"\0\0\0\x22\0\0\0\x01\0\0\0\x04\0\0\0\x15/keeper/feature_flags\0";
        let sum = 0x5b33_1ad8_2102_b389_40e3_12b3_5525_6dd8_u128;
        let block = compress(plain);
        assert_eq!(block[..blocks::CHECKSUM_LEN], sum.to_be_bytes());
        for length in [0, 1, 14, 15, 16, 269, 270, 271, 5000] {
            let (plain, mut out) = (vec![7; length], Vec::new());
            let block = compress(&plain);
            assert_eq!(blocks::decompress(&block, 8192, &mut out), Ok(Some(&b""[..])));
            assert_eq!(out, plain);
        }
    }
}
