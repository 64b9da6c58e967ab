//! Names of lock nodes: how ours are made, and how those of other contenders are read.

use alloc::format;
use alloc::string::String;
use core::array::from_fn;
use core::fmt;

use uuid::Uuid;
use zk_session::proto::{SequenceNumber, SessionId};

/// What a contender wants of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// To hold it beside others that want the same: a reader.
    Shared,
    /// To hold it alone: a writer, or any contender of a mutex.
    Exclusive,
}

/// How the nodes of one kind of lock are named.
///
/// All contenders of a lock must use the same one, in whatever language they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    style: Style,
    exclusive: &'static str,
    shared: Option<&'static str>,
    private: bool,
}

/// What stands before the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `_c_<guid>-`, with dashes in the guid or without. Read in both forms.
    Curator { dashes: bool },
    /// `<guid without dashes>`.
    Kazoo,
    /// `<guid>-`, with as few characters as can be.
    Compact,
    /// `x-<session>-`, and then, as ours but not as ZooKeeper's own recipe has it, `<guid>-`.
    Session,
}

impl Scheme {
    /// The exclusive lock of Apache Curator (`InterProcessMutex`): `_c_<guid>-lock-<sequence>`.
    pub const CURATOR_MUTEX: Self = Self::new(Style::Curator { dashes: true }, "lock-", None);

    /// The read/write lock of Apache Curator (`InterProcessReadWriteLock`):
    /// `_c_<guid>-__READ__<sequence>` and `_c_<guid>-__WRIT__<sequence>`.
    pub const CURATOR_READ_WRITE: Self =
        Self::new(Style::Curator { dashes: true }, "__WRIT__", Some("__READ__"));

    /// The leader election of Apache Curator (`LeaderLatch`): `_c_<guid>-latch-<sequence>`.
    pub const CURATOR_LEADER: Self = Self::new(Style::Curator { dashes: true }, "latch-", None);

    /// The leases of Apache Curator's semaphore (`InterProcessSemaphoreV2`):
    /// `_c_<guid>-lease-<sequence>`.
    pub const CURATOR_LEASE: Self = Self::new(Style::Curator { dashes: true }, "lease-", None);

    /// The lock of go-zk: as Curator's, with a guid without dashes. Both read each other's.
    pub const GO_ZK: Self = Self::new(Style::Curator { dashes: false }, "lock-", None);

    /// The exclusive lock of kazoo: `<guid>__lock__<sequence>`.
    pub const KAZOO_MUTEX: Self = Self::new(Style::Kazoo, "__lock__", None);

    /// The read/write lock of kazoo: `<guid>__rlock__<sequence>` and `<guid>__lock__<sequence>`.
    pub const KAZOO_READ_WRITE: Self = Self::new(Style::Kazoo, "__lock__", Some("__rlock__"));

    /// The lock recipe that comes with ZooKeeper (`WriteLock`): `x-<session>-<sequence>`.
    ///
    /// Ours have a guid behind the session, which that recipe reads as well: without one, two
    /// contenders of one session could not be told apart, nor could a node from an older one of
    /// the same name.
    pub const ZOOKEEPER_RECIPE: Self = Self::new(Style::Session, "", None);

    /// A lock of your own, for contenders of this library only: `<guid>-<marker><sequence>`, with
    /// one marker for exclusive nodes and, for a read/write lock, one for shared nodes. Neither may
    /// be the beginning of the other.
    ///
    /// Names are short, since whoever enters a queue and whoever leaves it reads all of them. And
    /// contenders agree who is first even when the numbers of the lock path are used up, where
    /// others go astray.
    pub const fn private(exclusive: &'static str, shared: Option<&'static str>) -> Self {
        Self { private: true, ..Self::new(Style::Compact, exclusive, shared) }
    }

    const fn new(style: Style, exclusive: &'static str, shared: Option<&'static str>) -> Self {
        Self { style, exclusive, shared, private: false }
    }

    /// Whether there are shared nodes beside the exclusive ones.
    pub const fn has_readers(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether only contenders of this library take part.
    pub const fn is_private(&self) -> bool {
        self.private
    }

    /// The beginning of the name of a node of ours; the server appends the sequence number.
    /// Where there are no readers, every mode is exclusive.
    pub fn prefix(&self, mode: LockMode, guid: Uuid, session: SessionId) -> String {
        self.name(mode, guid, session, "")
    }

    /// The name of a node of ours.
    fn name(&self, mode: LockMode, guid: Uuid, session: SessionId, sequence: &str) -> String {
        let marker = match (mode, self.shared) {
            (LockMode::Shared, Some(shared)) => shared,
            _ => self.exclusive,
        };
        let mut text = [0; 36];
        match self.style {
            Style::Curator { dashes } => {
                let guid = match dashes {
                    true => guid.as_hyphenated().encode_lower(&mut text),
                    false => guid.as_simple().encode_lower(&mut text),
                };
                ["_c_", guid, "-", marker, sequence].concat()
            }
            Style::Kazoo => [guid.as_simple().encode_lower(&mut text), marker, sequence].concat(),
            Style::Compact => [&*compact(guid), "-", marker, sequence].concat(),
            Style::Session => format!("x-{}-{}-{sequence}", session.0, guid.as_simple()),
        }
    }

    /// Reads the name of a child of the lock path. `None` if it is not a contender's.
    pub fn parse<'a>(&self, child: &'a str) -> Option<Name<'a>> {
        let (guid, rest) = match self.style {
            Style::Curator { .. } => curator_guid(child)?,
            Style::Kazoo => guid_of(child, 32)?,
            Style::Compact => compact_guid(child)?,
            Style::Session => return session_name(child),
        };
        let (mode, suffix) = match (rest.strip_prefix(self.exclusive), self.shared) {
            (Some(suffix), _) => (LockMode::Exclusive, suffix),
            (None, Some(shared)) => (LockMode::Shared, rest.strip_prefix(shared)?),
            (None, None) => return None,
        };
        Some(Name { child, guid: Some(guid), mode, sequence: SequenceNumber::parse(suffix)? })
    }
}

/// # Schemes of others
impl Scheme {
    /// One for each kind of name that is in use: none of them reads the names of another.
    const KNOWN: [Self; 6] = [
        Self::CURATOR_MUTEX,
        Self::CURATOR_READ_WRITE,
        Self::CURATOR_LEADER,
        Self::CURATOR_LEASE,
        Self::KAZOO_READ_WRITE,
        Self::ZOOKEEPER_RECIPE,
    ];

    /// The scheme of a node's name, if it is a contender's of any known kind of lock. Private
    /// schemes are recognised whatever their markers are.
    pub fn recognize(child: &str) -> Option<Self> {
        let is_private = || {
            let (_, rest) = compact_guid(child)?;
            let sequence = |length| {
                let (_, suffix) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
                SequenceNumber::parse(suffix)
            };
            sequence(10).or_else(|| sequence(11)).map(|_| Self::private("", None))
        };
        let known = Self::KNOWN.into_iter().find(|scheme| scheme.parse(child).is_some());
        known.or_else(is_private)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.style, self.exclusive, self.shared) {
            (Style::Curator { .. }, "lock-", None) => {
                "a mutex of this crate, Apache Curator or go-zk"
            }
            (Style::Curator { .. }, "latch-", None) => {
                "a leader election of this crate or Apache Curator"
            }
            (Style::Curator { .. }, "lease-", None) => {
                "a semaphore of this crate or Apache Curator"
            }
            (Style::Curator { .. }, ..) => "a read/write lock of this crate or Apache Curator",
            (Style::Kazoo, ..) => "a kazoo lock",
            (Style::Compact, ..) => "a lock with private names",
            (Style::Session, ..) => "ZooKeeper's WriteLock",
        })
    }
}

/// What a name tells at a glance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance {
    pub(super) mode: LockMode,
    /// The ten digits of the sequence number, as [`head_of`] has them.
    pub(super) number: u128,
    /// Differs from that of another GUID, mostly.
    pub(super) mark: u64,
}

/// The first bytes of a name and the last are checked, this many each. They may overlap.
const HALF: usize = 32;
/// In shorter lists, making the shapes costs more than they save.
const FEW: usize = 8;

/// The bytes that may stand at each place of half a name: those of two ranges, each given by its
/// lowest byte and how many others there are.
#[derive(Debug)]
struct Half {
    low: [u8; HALF],
    others: [u8; HALF],
    letters_low: [u8; HALF],
    other_letters: [u8; HALF],
}

impl Half {
    /// Between the lowest name of a kind and the highest: they differ where digits stand.
    fn new(lowest: &[u8; HALF], highest: &[u8; HALF]) -> Self {
        let (low, none) = (*lowest, [0; HALF]);
        let mut half = Self { low, others: none, letters_low: low, other_letters: none };
        for at in 0..HALF {
            let (low, high) = (lowest[at], highest[at]);
            let has_letters = low == b'0' && high.is_ascii_lowercase();
            let (last, letter) = if has_letters { (b'9', b'a') } else { (high, low) };
            half.others[at] = last.wrapping_sub(low);
            half.letters_low[at] = letter;
            half.other_letters[at] = high.wrapping_sub(letter);
        }
        half
    }

    /// Looking at every byte takes fewer instructions than stopping at the first that is wrong.
    #[inline(always)]
    fn fits(&self, bytes: &[u8; HALF]) -> bool {
        (0..HALF).fold(true, |all, at| {
            let is_low = bytes[at].wrapping_sub(self.low[at]) <= self.others[at];
            let is_letter = bytes[at].wrapping_sub(self.letters_low[at]) <= self.other_letters[at];
            all & (is_low | is_letter)
        })
    }
}

/// The names of one kind, which are all of one length.
#[derive(Debug)]
struct Shape {
    mode: LockMode,
    length: usize,
    head: Half,
    tail: Half,
}

impl Shape {
    /// `None` if the names are too long or too short.
    fn new(scheme: &Scheme, mode: LockMode) -> Option<Self> {
        let name = |guid, sequence| scheme.name(mode, guid, SessionId(0), sequence);
        let (lowest, highest) = (name(Uuid::nil(), "0000000000"), name(Uuid::max(), "9999999999"));
        let (lowest, highest) = (lowest.as_bytes(), highest.as_bytes());
        let shape = Self {
            mode,
            length: lowest.len(),
            head: Half::new(lowest.first_chunk()?, highest.first_chunk()?),
            tail: Half::new(lowest.last_chunk()?, highest.last_chunk()?),
        };
        (shape.length <= 2 * HALF).then_some(shape)
    }

    #[inline(always)]
    fn read(&self, child: &[u8]) -> Option<Glance> {
        if child.len() != self.length {
            return None;
        }
        let (head, tail) = (child.first_chunk()?, child.last_chunk()?);
        let number = head_of(*tail.last_chunk()?);
        let fits = self.head.fits(head) & self.tail.fits(tail) & (number <= LAST_SAFE_HEAD);
        fits.then_some(Glance { mode: self.mode, number, mark: mark_of(head)? })
    }
}

/// Reads the names of the contenders of one scheme without decoding their GUIDs and numbers, for a
/// fraction of what [`Scheme::parse`] costs.
#[derive(Debug)]
pub(super) struct Glancer {
    shapes: [Option<Shape>; 4],
}

impl Glancer {
    /// For a list of `names`, or more.
    pub(super) fn new(scheme: &Scheme, names: usize) -> Self {
        let styles = match scheme.style {
            _ if names < FEW => [None; 2],
            Style::Curator { .. } => [true, false].map(|dashes| Some(Style::Curator { dashes })),
            Style::Kazoo | Style::Compact => [Some(scheme.style), None],
            // They have a session of any length.
            Style::Session => [None; 2],
        };
        // Where one marker begins with the other, `parse` reads the names of readers as of none.
        let has_readers = scheme.shared.is_some_and(|shared| {
            !shared.starts_with(scheme.exclusive) && !scheme.exclusive.starts_with(shared)
        });
        let shape = |at: usize| {
            let style = styles[at / 2]?;
            let mode = [LockMode::Exclusive, LockMode::Shared][at % 2];
            let is_in_use = mode == LockMode::Exclusive || has_readers;
            is_in_use.then(|| Shape::new(&Scheme { style, ..*scheme }, mode))?
        };
        Self { shapes: from_fn(shape) }
    }

    /// Where it fails only `parse` can tell what the name is. Where it succeeds so does `parse`,
    /// and the number [tells the order](Name::tells_order).
    #[inline(always)]
    pub(super) fn glance(&self, child: &str) -> Option<Glance> {
        self.shapes.iter().flatten().find_map(|shape| shape.read(child.as_bytes()))
    }
}

impl Scheme {
    /// The mark of a GUID in the names of this scheme; `None` where nothing is read at a glance.
    pub(super) fn mark(&self, guid: Uuid) -> Option<u64> {
        match self.style {
            Style::Session => None,
            _ => mark_of(self.prefix(LockMode::Exclusive, guid, SessionId(0)).as_bytes()),
        }
    }
}

/// Eight digits of the GUID, wherever it begins.
fn mark_of(name: &[u8]) -> Option<u64> {
    name.get(3..)?.first_chunk().copied().map(u64::from_be_bytes)
}

/// The digits of a sequence number, to be compared.
pub(super) const fn head_of(digits: [u8; 10]) -> u128 {
    let [a, b, c, d, e, f, g, h, i, j] = digits;
    u128::from_be_bytes([a, b, c, d, e, f, g, h, i, j, 0, 0, 0, 0, 0, 0])
}

/// The head of [`LAST_SAFE`](super::queue::LAST_SAFE).
pub(super) const LAST_SAFE_HEAD: u128 = head_of(*b"2146435071");

fn guid_of(text: &str, length: usize) -> Option<(Uuid, &str)> {
    let (guid, rest) = text.split_at_checked(length)?;
    Some((Uuid::try_parse(guid).ok()?, rest))
}

/// Five bits to a digit.
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

/// Curator and we write a guid with dashes, go-zk without.
fn curator_guid(child: &str) -> Option<(Uuid, &str)> {
    let rest = child.strip_prefix("_c_")?;
    [36, 32].into_iter().find_map(|length| {
        let (guid, rest) = guid_of(rest, length)?;
        Some((guid, rest.strip_prefix('-')?))
    })
}

/// The session is a signed decimal number in Java, hexadecimal in C.
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

/// The name of a contender's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The whole name.
    pub child: &'a str,
    /// What makes it this contender's. Nodes of ZooKeeper's own recipe have none.
    pub guid: Option<Uuid>,
    /// What its owner wants.
    pub mode: LockMode,
    /// Its place in the queue.
    pub sequence: SequenceNumber,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const DASHED: &str = "1f0e8c1a-7a53-4c0f-9d9e-0a1b2c3d4e5f";
    const PLAIN: &str = "1f0e8c1a7a534c0f9d9e0a1b2c3d4e5f";

    const ALL: [Scheme; 9] = [
        Scheme::CURATOR_MUTEX,
        Scheme::CURATOR_READ_WRITE,
        Scheme::CURATOR_LEADER,
        Scheme::CURATOR_LEASE,
        Scheme::GO_ZK,
        Scheme::KAZOO_MUTEX,
        Scheme::KAZOO_READ_WRITE,
        Scheme::ZOOKEEPER_RECIPE,
        Scheme::private("mine-", Some("ours-")),
    ];

    fn guid() -> Uuid {
        Uuid::try_parse(DASHED).expect("a guid")
    }

    fn read(scheme: Scheme, child: &str) -> Option<(LockMode, i32)> {
        scheme.parse(child).map(|name| (name.mode, name.sequence.0))
    }

    #[test]
    fn contenders_of_all_implementations_are_read() {
        for (suffix, number) in [
            ("0000000007", 7),
            ("2147483647", i32::MAX),
            ("-2147483648", i32::MIN),
            ("-000000001", -1),
        ] {
            for (scheme, before, mode) in [
                (Scheme::CURATOR_MUTEX, format!("_c_{DASHED}-lock-"), LockMode::Exclusive),
                (Scheme::CURATOR_MUTEX, format!("_c_{PLAIN}-lock-"), LockMode::Exclusive),
                (Scheme::GO_ZK, format!("_c_{DASHED}-lock-"), LockMode::Exclusive),
                (Scheme::CURATOR_READ_WRITE, format!("_c_{DASHED}-__READ__"), LockMode::Shared),
                (Scheme::CURATOR_READ_WRITE, format!("_c_{DASHED}-__WRIT__"), LockMode::Exclusive),
                (Scheme::KAZOO_READ_WRITE, format!("{PLAIN}__rlock__"), LockMode::Shared),
                (Scheme::KAZOO_READ_WRITE, format!("{PLAIN}__lock__"), LockMode::Exclusive),
                (Scheme::ZOOKEEPER_RECIPE, "x-72057654740451328-".to_string(), LockMode::Exclusive),
                (
                    Scheme::ZOOKEEPER_RECIPE,
                    "x--98566387950223723-".to_string(),
                    LockMode::Exclusive,
                ),
                (Scheme::ZOOKEEPER_RECIPE, "x-00ff00000a1b2c3d-".to_string(), LockMode::Exclusive),
            ] {
                let child = before + suffix;
                assert_eq!(read(scheme, &child), Some((mode, number)), "{child}");
            }
        }
    }

    #[test]
    fn everything_else_is_foreign() {
        for child in [
            "lease_holder",
            "lock-abc",
            "_c_short",
            "foo-12",
            "_c_-lock-0000000001",
            "x-",
            "x--0000000001",
            "x-y-0000000001",
            "",
        ] {
            for scheme in ALL {
                assert_eq!(read(scheme, child), None, "{child} by {scheme:?}");
            }
        }
        for suffix in
            ["latch-0000000001", "lock-12", "lock-00000000070", "lock-", "__WRIT__0000000005"]
        {
            assert_eq!(read(Scheme::CURATOR_MUTEX, &format!("_c_{DASHED}-{suffix}")), None);
        }
        assert_eq!(read(Scheme::KAZOO_MUTEX, &format!("{PLAIN}__rlock__0000000003")), None);
        // Not a guid, though as long as one, and cut within a character.
        let not_hex = "_c_gggggggg-7a53-4c0f-9d9e-0a1b2c3d4e5f-lock-0000000001";
        assert_eq!(read(Scheme::CURATOR_MUTEX, not_hex), None);
        assert_eq!(read(Scheme::CURATOR_MUTEX, "_c_üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü"), None);
    }

    #[test]
    fn the_scheme_of_every_known_name_is_recognized() {
        for scheme in ALL {
            for mode in [LockMode::Shared, LockMode::Exclusive] {
                for number in [0, i32::MAX, i32::MIN] {
                    let prefix = scheme.prefix(mode, guid(), SessionId(-7));
                    let child = format!("{prefix}{}", SequenceNumber(number));
                    let recognized = Scheme::recognize(&child).expect("known");
                    let is_readable = recognized.parse(&child).is_some();
                    assert!(is_readable || recognized.is_private(), "{child}: {recognized:?}");
                    assert_eq!(recognized.style, scheme.style_read(), "{child}");
                }
            }
        }
        // What is beside a semaphore's queue, and what anybody may have put there.
        for child in ["locks", "leases", "max", "ready", "lease_holder", "0000000001", "x-", ""] {
            assert_eq!(Scheme::recognize(child), None, "{child}");
        }
    }

    #[test]
    fn no_known_scheme_reads_the_names_of_another() {
        for writer in Scheme::KNOWN {
            for mode in [LockMode::Shared, LockMode::Exclusive] {
                let child = writer.prefix(mode, guid(), SessionId(7)) + "0000000007";
                let readers = Scheme::KNOWN.iter().filter(|scheme| scheme.parse(&child).is_some());
                assert_eq!(readers.collect::<alloc::vec::Vec<_>>(), [&writer], "{child}");
            }
        }
    }

    impl Scheme {
        /// Both styles of Curator are read as one.
        fn style_read(&self) -> Style {
            match self.style {
                Style::Curator { .. } => Style::Curator { dashes: true },
                style => style,
            }
        }
    }

    #[test]
    fn what_we_write_is_read_back() {
        for scheme in ALL {
            for mode in [LockMode::Shared, LockMode::Exclusive] {
                for session in [7, -7, i64::MIN] {
                    let prefix = scheme.prefix(mode, guid(), SessionId(session));
                    for number in [0, 42, i32::MAX, -1, i32::MIN] {
                        let child = format!("{prefix}{}", SequenceNumber(number));
                        let name = scheme.parse(&child).expect("ours");
                        assert_eq!(name.guid, Some(guid()), "{child}");
                        assert_eq!(name.sequence, SequenceNumber(number), "{child}");
                        assert_eq!(
                            name.mode == mode,
                            mode == LockMode::Exclusive || scheme.has_readers()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn names_are_those_of_the_others() {
        let prefix = |scheme: Scheme, mode| scheme.prefix(mode, guid(), SessionId(-5));
        let exclusive = |scheme| prefix(scheme, LockMode::Exclusive);
        assert_eq!(exclusive(Scheme::CURATOR_MUTEX), format!("_c_{DASHED}-lock-"));
        assert_eq!(exclusive(Scheme::GO_ZK), format!("_c_{PLAIN}-lock-"));
        assert_eq!(exclusive(Scheme::KAZOO_MUTEX), format!("{PLAIN}__lock__"));
        assert_eq!(exclusive(Scheme::ZOOKEEPER_RECIPE), format!("x--5-{PLAIN}-"));
        assert_eq!(exclusive(Scheme::CURATOR_READ_WRITE), format!("_c_{DASHED}-__WRIT__"));
        let shared = |scheme| prefix(scheme, LockMode::Shared);
        assert_eq!(shared(Scheme::CURATOR_READ_WRITE), format!("_c_{DASHED}-__READ__"));
        assert_eq!(shared(Scheme::KAZOO_READ_WRITE), format!("{PLAIN}__rlock__"));
        assert_eq!(shared(Scheme::private("w", Some("r"))), "0v1q61kuij9g7pr7ga3cm3qjiv-r");
    }

    #[test]
    fn a_compact_guid_that_nobody_wrote_is_foreign() {
        let scheme = Scheme::private("w", None);
        let highest = scheme.prefix(LockMode::Exclusive, Uuid::max(), SessionId(1)) + "0000000001";
        assert!(highest.starts_with("7vvv") && scheme.parse(&highest).is_some());
        assert_eq!(scheme.parse(&highest.replacen('7', "8", 1)), None, "too great");
        assert_eq!(scheme.parse(&highest.replacen('v', "w", 1)), None, "no digit");
        assert_eq!(scheme.parse("üüüüüüüüüüüüü-w0000000001"), None);
    }
}
