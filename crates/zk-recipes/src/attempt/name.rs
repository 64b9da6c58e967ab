//! Names of lock nodes: how to build and how to parse them.

pub(crate) mod fast;

use alloc::string::{String, ToString};
use core::fmt;

use uuid::Uuid;
use zk_session::proto::{SequenceNumber, SessionId};

use super::full::Full;

/// Whether a contender shares the lock with others.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Held together with other contenders in this mode: a reader.
    Shared,
    /// Held alone: a writer, or any contender of a mutex.
    Exclusive,
}

/// The naming of the nodes of one kind of lock.
///
/// All contenders of a lock must use the same scheme, in any programming language.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    pub(super) format: PrefixFormat,
    pub(super) exclusive: &'static str,
    pub(super) shared: Option<&'static str>,
    /// Whether only contenders of this library use it.
    private: bool,
}

impl Scheme {
    /// The exclusive lock of Apache Curator (`InterProcessMutex`): `_c_<guid>-lock-<sequence>`.
    pub const CURATOR_MUTEX: Self =
        Self::new(PrefixFormat::Curator { dashes: true }, "lock-", None);

    /// The read/write lock of Apache Curator (`InterProcessReadWriteLock`):
    /// `_c_<guid>-__READ__<sequence>` and `_c_<guid>-__WRIT__<sequence>`.
    pub const CURATOR_READ_WRITE: Self =
        Self::new(PrefixFormat::Curator { dashes: true }, "__WRIT__", Some("__READ__"));

    /// The leader election of Apache Curator (`LeaderLatch`): `_c_<guid>-latch-<sequence>`.
    pub const CURATOR_LEADER: Self =
        Self::new(PrefixFormat::Curator { dashes: true }, "latch-", None);

    /// The permits of Apache Curator's semaphore (`InterProcessSemaphoreV2`), which it calls
    /// leases: `_c_<guid>-lease-<sequence>`.
    pub const CURATOR_LEASE: Self =
        Self::new(PrefixFormat::Curator { dashes: true }, "lease-", None);

    /// The lock of go-zk: `_c_<guid without dashes>-lock-<sequence>`. Curator's mutex and this one
    /// read each other's names.
    pub const GO_ZK: Self = Self::new(PrefixFormat::Curator { dashes: false }, "lock-", None);

    pub(super) const fn new(
        format: PrefixFormat,
        exclusive: &'static str,
        shared: Option<&'static str>,
    ) -> Self {
        Self { format, exclusive, shared, private: false }
    }

    /// Returns whether the scheme has shared nodes besides the exclusive ones.
    pub const fn has_readers(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns whether only contenders of this library use the scheme.
    pub const fn is_private(&self) -> bool {
        self.private
    }

    /// Returns whether contenders may order nodes by the transactions that created them. Other
    /// libraries do not.
    pub(crate) const fn ranks(&self) -> Option<Full> {
        #[cfg(feature = "full")]
        if self.private {
            return Some(Full::On);
        }
        None
    }

    /// Returns the name of a new node without the sequence number, which the server appends. In a
    /// scheme without shared nodes, every mode is exclusive.
    pub fn prefix(&self, mode: LockMode, guid: Uuid, session: SessionId) -> String {
        let mut name = String::with_capacity(NAME_CAPACITY);
        self.push_prefix(&mut name, mode, guid, session);
        name
    }

    /// Appends the name of a new node, without the sequence number, to the path of its parent.
    pub(crate) fn push_prefix(
        &self,
        path: &mut String,
        mode: LockMode,
        guid: Uuid,
        session: SessionId,
    ) {
        let marker = match (mode, self.shared) {
            (LockMode::Shared, Some(shared)) => shared,
            _ => self.exclusive,
        };
        let mut text = [0; 36];
        let mut push = |parts: &[&str]| parts.iter().for_each(|part| path.push_str(part));
        match self.format {
            PrefixFormat::Curator { dashes } => {
                let guid = match dashes {
                    true => guid.as_hyphenated().encode_lower(&mut text),
                    false => guid.as_simple().encode_lower(&mut text),
                };
                push(&["_c_", guid, "-", marker]);
            }
            PrefixFormat::Kazoo(_) => push(&[guid.as_simple().encode_lower(&mut text), marker]),
            PrefixFormat::Compact(_) => push(&[&*compact(guid), "-", marker]),
            PrefixFormat::Session(_) => {
                let guid = guid.as_simple().encode_lower(&mut text);
                push(&["x-", &*session.0.to_string(), "-", guid, "-"]);
            }
        }
    }

    /// Parses the name of a child of the lock path. Returns `None` if it is no contender's.
    pub fn parse<'a>(&self, child: &'a str) -> Option<Name<'a>> {
        let (guid, rest) = match self.format {
            PrefixFormat::Curator { .. } => curator_guid(child)?,
            PrefixFormat::Kazoo(_) => guid_of(child, 32)?,
            PrefixFormat::Compact(_) => compact_guid(child)?,
            PrefixFormat::Session(_) => return session_name(child),
        };
        let (mode, suffix) = match (rest.strip_prefix(self.exclusive), self.shared) {
            (Some(suffix), _) => (LockMode::Exclusive, suffix),
            (None, Some(shared)) => (LockMode::Shared, rest.strip_prefix(shared)?),
            (None, None) => return None,
        };
        Some(Name { child, guid: Some(guid), mode, sequence: SequenceNumber::parse(suffix)? })
    }
}

/// # Schemes of other programs
impl Scheme {
    /// One scheme for each naming in use. None of them parses the names of another.
    const KNOWN: &[Self] =
        &[Self::CURATOR_MUTEX, Self::CURATOR_READ_WRITE, Self::CURATOR_LEADER, Self::CURATOR_LEASE];

    /// Returns the scheme of a node's name, if it is a contender of any known kind of lock. A
    /// private scheme is recognized with any markers.
    ///
    /// Without the feature `full`, only the schemes of Curator are known.
    pub fn recognize(child: &str) -> Option<Self> {
        let known = Self::KNOWN.iter().find(|scheme| scheme.parse(child).is_some()).copied();
        #[cfg(feature = "full")]
        let known = known.or_else(|| Self::recognize_other(child));
        known
    }
}

/// # Names that are not Curator's
#[cfg(feature = "full")]
impl Scheme {
    /// The exclusive lock of kazoo: `<guid>__lock__<sequence>`.
    pub const KAZOO_MUTEX: Self = Self::new(PrefixFormat::Kazoo(Full::On), "__lock__", None);

    /// The read/write lock of kazoo: `<guid>__rlock__<sequence>` and `<guid>__lock__<sequence>`.
    pub const KAZOO_READ_WRITE: Self =
        Self::new(PrefixFormat::Kazoo(Full::On), "__lock__", Some("__rlock__"));

    /// The lock recipe that comes with ZooKeeper (`WriteLock`): `x-<session>-<sequence>`.
    ///
    /// This crate adds a GUID after the session; that recipe reads such names as well. Without a
    /// GUID, nothing would distinguish two contenders of one session, or an earlier node with the
    /// same name.
    pub const ZOOKEEPER_RECIPE: Self = Self::new(PrefixFormat::Session(Full::On), "", None);

    /// A private lock, for contenders of this library only: `<guid>-<marker><sequence>`.
    ///
    /// `exclusive` is the marker of exclusive nodes, `shared` the one of shared nodes if it is a
    /// read/write lock. Neither may be a prefix of the other.
    ///
    /// Names are short, which shortens the lists that contenders read. Contenders also agree who is
    /// first when the sequence numbers of the lock path are exhausted. Other schemes fail then.
    pub const fn private(exclusive: &'static str, shared: Option<&'static str>) -> Self {
        Self { private: true, ..Self::new(PrefixFormat::Compact(Full::On), exclusive, shared) }
    }

    /// The schemes of [`recognize`](Self::recognize) besides those of Curator.
    const OTHERS: &[Self] = &[Self::KAZOO_READ_WRITE, Self::ZOOKEEPER_RECIPE];

    fn recognize_other(child: &str) -> Option<Self> {
        let known = Self::OTHERS.iter().find(|scheme| scheme.parse(child).is_some()).copied();
        known.or_else(|| Self::recognize_private(child))
    }

    fn recognize_private(child: &str) -> Option<Self> {
        let (_, rest) = compact_guid(child)?;
        let sequence = |length| {
            let (_, suffix) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
            SequenceNumber::parse(suffix)
        };
        sequence(10).or_else(|| sequence(11)).map(|_| Self::private("", None))
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.format, self.exclusive, self.shared) {
            (PrefixFormat::Curator { .. }, "lock-", None) => {
                "a mutex of this crate, Apache Curator or go-zk"
            }
            (PrefixFormat::Curator { .. }, "latch-", None) => {
                "a leader election of this crate or Apache Curator"
            }
            (PrefixFormat::Curator { .. }, "lease-", None) => {
                "a semaphore of this crate or Apache Curator"
            }
            (PrefixFormat::Curator { .. }, ..) => {
                "a read/write lock of this crate or Apache Curator"
            }
            (PrefixFormat::Kazoo(_), ..) => "a kazoo lock",
            (PrefixFormat::Compact(_), ..) => "a lock with private names",
            (PrefixFormat::Session(_), ..) => "ZooKeeper's WriteLock",
        })
    }
}

/// The parsed name of a contender's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Name<'a> {
    /// The whole name.
    pub child: &'a str,
    /// Identifies the attempt that created the node. Nodes of ZooKeeper's own recipe have none.
    pub guid: Option<Uuid>,
    /// Whether the contender shares the lock.
    pub mode: LockMode,
    /// The position in the queue: lower numbers come first.
    pub sequence: SequenceNumber,
}

/// Most names are shorter, so that they are allocated once.
pub(crate) const NAME_CAPACITY: usize = 64;

/// The part of a name before the marker.
#[cfg_attr(not(feature = "full"), expect(dead_code, reason = "without `full`, all are Curator's"))]
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrefixFormat {
    /// `_c_<guid>-`, with or without dashes in the GUID. Both forms are parsed.
    Curator { dashes: bool },
    /// `<guid>`, without dashes.
    Kazoo(Full),
    /// `<guid>-`, with the GUID in as few characters as possible.
    Compact(Full),
    /// `x-<session>-`, followed by `<guid>-` in names of this crate. ZooKeeper's own recipe writes
    /// no GUID.
    Session(Full),
}

/// Parses the GUID of Curator's format: with dashes from Curator and this crate, without from
/// go-zk.
fn curator_guid(child: &str) -> Option<(Uuid, &str)> {
    let rest = child.strip_prefix("_c_")?;
    let of_length = |length| {
        let (guid, rest) = guid_of(rest, length)?;
        Some((guid, rest.strip_prefix('-')?))
    };
    of_length(36).or_else(|| of_length(32))
}

/// Parses a name of ZooKeeper's own recipe. The session is a signed decimal number in Java,
/// hexadecimal in C.
fn session_name(child: &str) -> Option<Name<'_>> {
    let rest = child.strip_prefix("x-")?;
    let unsigned = rest.strip_prefix('-').unwrap_or(rest);
    let (session, rest) = unsigned.split_once('-')?;
    if session.is_empty() || !session.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (guid, suffix) = match guid_of(rest, 32) {
        Some((guid, rest)) => (Some(guid), rest.strip_prefix('-')?),
        None => (None, rest),
    };
    let sequence = SequenceNumber::parse(suffix)?;
    Some(Name { child, guid, mode: LockMode::Exclusive, sequence })
}

fn guid_of(text: &str, length: usize) -> Option<(Uuid, &str)> {
    let (guid, rest) = text.split_at_checked(length)?;
    // Two 64-bit halves take far less work than one 128-bit number.
    let (mut high, mut low) = (0, 0);
    for (place, byte) in guid.bytes().enumerate() {
        if length == 36 && matches!(place, 8 | 13 | 18 | 23) {
            if byte != b'-' {
                return None;
            }
        } else {
            let digit = char::from(byte).to_digit(16)?;
            (high, low) = (high << 4 | low >> 60, low << 4 | u64::from(digit));
        }
    }
    Some((Uuid::from_u64_pair(high, low), rest))
}

/// The digits of a compact GUID, five bits each.
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
const COMPACT_LENGTH: usize = 26;

fn compact(guid: Uuid) -> String {
    let digit = |place: usize| DIGITS[(guid.as_u128() >> (5 * place)) as usize % DIGITS.len()];
    (0..COMPACT_LENGTH).rev().map(|place| char::from(digit(place))).collect()
}

fn compact_guid(child: &str) -> Option<(Uuid, &str)> {
    let (digits, rest) = child.split_at_checked(COMPACT_LENGTH)?;
    let value = digits.bytes().try_fold(0u128, |value, byte| {
        let digit = DIGITS.iter().position(|digit| *digit == byte)?;
        value.checked_mul(32)?.checked_add(digit as u128)
    })?;
    Some((Uuid::from_u128(value), rest.strip_prefix('-')?))
}

#[cfg(test)]
mod tests;
