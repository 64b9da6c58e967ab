//! Reads most names of a scheme in a fraction of the time that [`Scheme::parse`] takes.

use alloc::string::String;
use core::array::from_fn;

use uuid::Uuid;
use zk_session::proto::SessionId;

use super::{LockMode, NAME_CAPACITY, PrefixFormat, Scheme};

/// Parses the names of one scheme without decoding their GUIDs and sequence numbers. It costs a
/// fraction of [`Scheme::parse`].
#[derive(Debug)]
pub(crate) struct FastParser {
    patterns: [Option<NamePattern>; PATTERNS],
}

impl FastParser {
    /// Creates a parser for a list of at least this many names.
    pub(crate) fn new(scheme: &Scheme, names: usize) -> Self {
        let formats = match scheme.format {
            _ if names < MIN_NAMES => [None; 2],
            PrefixFormat::Curator { .. } => {
                [true, false].map(|dashes| Some(PrefixFormat::Curator { dashes }))
            }
            // Session ids have no fixed length.
            PrefixFormat::Session(_) => [None; 2],
            _ => [Some(scheme.format), None],
        };
        // If one marker is a prefix of the other, `Scheme::parse` reads shared nodes as malformed.
        let has_readers = scheme.shared.is_some_and(|shared| {
            !shared.starts_with(scheme.exclusive) && !scheme.exclusive.starts_with(shared)
        });
        let mut names = String::new();
        let pattern = |at: usize| {
            let format = formats[at / 2]?;
            let mode = [LockMode::Exclusive, LockMode::Shared][at % 2];
            let is_in_use = mode == LockMode::Exclusive || has_readers;
            names.reserve(2 * NAME_CAPACITY);
            is_in_use.then(|| NamePattern::new(&Scheme { format, ..*scheme }, mode, &mut names))?
        };
        Self { patterns: from_fn(pattern) }
    }

    /// Reads a name. If it returns `None`, only [`Scheme::parse`] can classify the name. Otherwise
    /// `Scheme::parse` succeeds as well, and the sequence number is [safe to
    /// compare](super::Name::has_safe_sequence).
    #[inline(always)]
    pub(crate) fn parse(&self, child: &str) -> Option<FastName> {
        self.patterns.iter().flatten().find_map(|pattern| pattern.read(child.as_bytes()))
    }
}

/// The shortest list for which building the patterns costs less than it saves.
const MIN_NAMES: usize = 8;
/// One for each format and mode. Without the feature there is none, and no name is read.
const PATTERNS: usize = if cfg!(feature = "full") { 4 } else { 0 };

/// The parts of a name that [`FastParser`] reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastName {
    pub(crate) mode: LockMode,
    /// The ten digits of the sequence number, as a [`digits_key`].
    pub(crate) digits: u128,
    /// A part of the GUID. It differs between most GUIDs.
    pub(crate) guid_tag: u64,
}

/// The pattern of names of one kind, which have one length.
#[derive(Debug)]
struct NamePattern {
    mode: LockMode,
    length: usize,
    head: BytePattern,
    tail: BytePattern,
}

impl NamePattern {
    /// Returns `None` if the names are too long or too short for the pattern. `names` is a buffer for
    /// the lowest and the highest name.
    fn new(scheme: &Scheme, mode: LockMode, names: &mut String) -> Option<Self> {
        names.clear();
        for (guid, sequence) in [(Uuid::nil(), "0000000000"), (Uuid::max(), "9999999999")] {
            scheme.push_prefix(names, mode, guid, SessionId(0));
            names.push_str(sequence);
        }
        let (lowest, highest) = names.as_bytes().split_at(names.len() / 2);
        let pattern = Self {
            mode,
            length: lowest.len(),
            head: BytePattern::new(lowest.first_chunk()?, highest.first_chunk()?),
            tail: BytePattern::new(lowest.last_chunk()?, highest.last_chunk()?),
        };
        (pattern.length <= 2 * PATTERN_LEN).then_some(pattern)
    }

    #[inline(always)]
    fn read(&self, child: &[u8]) -> Option<FastName> {
        if child.len() != self.length {
            return None;
        }
        let (head, tail) = (child.first_chunk()?, child.last_chunk()?);
        let digits = digits_key(*tail.last_chunk()?);
        let matches = self.head.matches(head) & self.tail.matches(tail) & (digits <= LAST_SAFE_KEY);
        matches.then_some(FastName { mode: self.mode, digits, guid_tag: guid_tag_of(head)? })
    }
}

/// The number of bytes checked at each end of a name. The two ranges may overlap.
const PATTERN_LEN: usize = 32;

/// The bytes allowed at each position of one end of a name. There are two ranges for each position,
/// each given by its lowest byte and the number of further bytes.
#[derive(Debug)]
struct BytePattern {
    low: [u8; PATTERN_LEN],
    span: [u8; PATTERN_LEN],
    letters_low: [u8; PATTERN_LEN],
    letters_span: [u8; PATTERN_LEN],
}

impl BytePattern {
    /// Creates the pattern from the lowest and the highest name of a kind. They differ where digits
    /// are.
    fn new(lowest: &[u8; PATTERN_LEN], highest: &[u8; PATTERN_LEN]) -> Self {
        let (low, none) = (*lowest, [0; PATTERN_LEN]);
        let mut pattern = Self { low, span: none, letters_low: low, letters_span: none };
        for at in 0..PATTERN_LEN {
            let (low, high) = (lowest[at], highest[at]);
            let has_letters = low == b'0' && high.is_ascii_lowercase();
            let (last, letter) = if has_letters { (b'9', b'a') } else { (high, low) };
            pattern.span[at] = last.wrapping_sub(low);
            pattern.letters_low[at] = letter;
            pattern.letters_span[at] = high.wrapping_sub(letter);
        }
        pattern
    }

    /// Returns whether all bytes are allowed. Checking every byte takes fewer instructions than
    /// stopping at the first mismatch.
    #[inline(always)]
    fn matches(&self, bytes: &[u8; PATTERN_LEN]) -> bool {
        (0..PATTERN_LEN).fold(true, |all, at| {
            let is_low = bytes[at].wrapping_sub(self.low[at]) <= self.span[at];
            let is_letter = bytes[at].wrapping_sub(self.letters_low[at]) <= self.letters_span[at];
            all & (is_low | is_letter)
        })
    }
}

/// Returns eight of the GUID's digits, in lower case. Every format that [`FastParser`] reads has digits
/// at this offset.
pub(crate) fn guid_tag_of(name: &[u8]) -> Option<u64> {
    let digits = name.get(3..)?.first_chunk().copied();
    digits.map(|digits| u64::from_be_bytes(digits) | u64::from_be_bytes([b' '; 8]))
}

/// Returns the digits of a sequence number as an integer that sorts like the text.
pub(crate) const fn digits_key(digits: [u8; 10]) -> u128 {
    let [a, b, c, d, e, f, g, h, i, j] = digits;
    u128::from_be_bytes([a, b, c, d, e, f, g, h, i, j, 0, 0, 0, 0, 0, 0])
}

/// The key of [`LAST_SAFE_SEQUENCE`](crate::attempt::queue::LAST_SAFE_SEQUENCE).
pub(crate) const LAST_SAFE_KEY: u128 = digits_key(*b"2146435071");

#[cfg(test)]
mod tests;
