//! The same messages without abstraction: one length check, then loads and stores.

use zk_proto::{
    ErrorCode, EventType, KeeperState, ReplyHeader, SessionId, Stat, WatcherEvent, Xid, Zxid,
};

/// A buffer that is filled from its front. The caller has checked its length.
pub(crate) struct Out<'b>(pub(crate) &'b mut [u8], usize);

impl<'b> Out<'b> {
    pub(crate) fn new(buffer: &'b mut [u8]) -> Self {
        Self(buffer, 0)
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
    }

    #[inline]
    fn int(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    fn buffer(&mut self, bytes: &[u8]) {
        self.int(bytes.len() as i32);
        self.bytes(bytes);
    }
}

pub(crate) fn get_data(buffer: &mut [u8], path: &str) -> usize {
    let length = 13 + path.len();
    let mut out = Out::new(&mut buffer[..4 + length]);
    out.int(length as i32);
    out.int(1);
    out.int(4);
    out.buffer(path.as_bytes());
    out.bytes(&[1]);
    4 + length
}

pub(crate) fn set_data(buffer: &mut [u8], path: &str, data: &[u8]) -> usize {
    let length = 20 + path.len() + data.len();
    let mut out = Out::new(&mut buffer[..4 + length]);
    out.int(length as i32);
    out.int(1);
    out.int(5);
    out.buffer(path.as_bytes());
    out.buffer(data);
    out.int(-1);
    4 + length
}

/// Writes a creation whose access control list has one entry, for everybody.
pub(crate) fn create(
    buffer: &mut [u8],
    path: &str,
    data: &[u8],
    (scheme, id): (&str, &str),
) -> usize {
    let length = 36 + path.len() + data.len() + scheme.len() + id.len();
    let mut out = Out::new(&mut buffer[..4 + length]);
    out.int(length as i32);
    out.int(1);
    out.int(1);
    out.buffer(path.as_bytes());
    out.buffer(data);
    out.int(1);
    out.int(31);
    out.buffer(scheme.as_bytes());
    out.buffer(id.as_bytes());
    out.int(3);
    4 + length
}

#[inline]
fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn long(bytes: &[u8], at: usize) -> i64 {
    i64::from(int(bytes, at)) << 32 | i64::from(int(bytes, at + 4) as u32)
}

#[inline]
fn string(bytes: &[u8], at: usize) -> Option<&str> {
    let length = usize::try_from(int(bytes.get(at..at + 4)?, 0)).ok()?;
    core::str::from_utf8(bytes.get(at + 4..)?.get(..length)?).ok()
}

#[inline]
pub(crate) fn header(payload: &[u8]) -> Option<ReplyHeader> {
    let bytes = payload.get(..16)?;
    Some(ReplyHeader {
        xid: Xid(int(bytes, 0)),
        zxid: Zxid(long(bytes, 4)),
        err: ErrorCode(int(bytes, 12)),
    })
}

#[inline]
pub(crate) fn stat(bytes: &[u8]) -> Option<Stat> {
    let bytes: &[u8; 68] = bytes.try_into().ok()?;
    Some(Stat {
        czxid: Zxid(long(bytes, 0)),
        mzxid: Zxid(long(bytes, 8)),
        ctime: long(bytes, 16),
        mtime: long(bytes, 24),
        version: int(bytes, 32),
        cversion: int(bytes, 36),
        aversion: int(bytes, 40),
        ephemeral_owner: SessionId(long(bytes, 44)),
        data_length: int(bytes, 52),
        num_children: int(bytes, 56),
        pzxid: Zxid(long(bytes, 60)),
    })
}

pub(crate) fn data_reply(payload: &[u8]) -> Option<(ReplyHeader, &[u8], Stat)> {
    let length = usize::try_from(int(payload.get(16..20)?, 0)).ok()?;
    let (data, rest) = payload.get(20..)?.split_at_checked(length)?;
    Some((header(payload)?, data, stat(rest)?))
}

pub(crate) fn stat_reply(payload: &[u8]) -> Option<(ReplyHeader, Stat)> {
    Some((header(payload)?, stat(payload.get(16..)?)?))
}

pub(crate) fn event(payload: &[u8]) -> Option<(ReplyHeader, WatcherEvent<'_>)> {
    let bytes = payload.get(16..24)?;
    let path = string(payload, 24)?;
    if payload.len() != 28 + path.len() {
        return None;
    }
    let event_type = EventType(int(bytes, 0));
    Some((header(payload)?, WatcherEvent { event_type, state: KeeperState(int(bytes, 4)), path }))
}

/// Passes each name to `each` as it is found.
pub(crate) fn children(payload: &[u8], mut each: impl FnMut(&str)) -> Option<ReplyHeader> {
    let mut at = 20;
    for _ in 0..int(payload.get(16..20)?, 0) {
        let name = string(payload, at)?;
        each(name);
        at += 4 + name.len();
    }
    (at == payload.len()).then_some(())?;
    header(payload)
}
