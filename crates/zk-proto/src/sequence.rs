//! The number that a server appends to the name of a sequential node.

use core::fmt;

/// A sequence number: ten digits, zero-padded; the sign counts as one of the ten.
///
/// It counts the creations below one parent and is a signed 32-bit number on the server, so a
/// directory that has seen 2^31 of them yields negative numbers or repeats the last one
/// (`PrepRequestProcessor.java`, ZOOKEEPER-3249).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(
    /// The number.
    pub i32,
);

impl Sequence {
    /// Reads all of `suffix` as a sequence number.
    ///
    /// Only what a server could have written is one: `0000000007` and `-000000001` are,
    /// `7`, `+000000007` and `-2147483649` are not.
    ///
    /// ```
    /// use zk_proto::Sequence;
    ///
    /// assert_eq!(Sequence::parse("0000000042"), Some(Sequence(42)));
    /// assert_eq!(Sequence::parse("42"), None);
    /// assert_eq!(Sequence(42).to_string(), "0000000042");
    /// ```
    pub fn parse(suffix: &str) -> Option<Self> {
        let (sign, digits) = match suffix.as_bytes() {
            [b'-', digits @ ..] => (-1, digits),
            digits => (1, digits),
        };
        // Ten places, or more where the number needs them and so does not start with a zero.
        let is_padded = suffix.len() == 10;
        let is_full = suffix.len() == 11 && digits.len() == 10 && digits[0] != b'0';
        if !is_padded && !is_full {
            return None;
        }
        let number = digits.iter().try_fold(0, |number: i64, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then_some(number * 10 + i64::from(digit))
        })?;
        let is_negative_zero = number == 0 && sign < 0;
        if is_negative_zero {
            return None;
        }
        i32::try_from(sign * number).ok().map(Self)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:010}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn only_what_a_server_writes_is_a_sequence() {
        for number in [0, 1, 7, 70, 2_147_483_647, -1, -10, -999_999_999, i32::MIN] {
            let suffix = format!("{number:010}");
            assert_eq!(Sequence::parse(&suffix), Some(Sequence(number)), "{suffix}");
            assert_eq!(Sequence(number).to_string(), suffix);
        }
        for suffix in [
            "",
            "7",
            "12",
            "+000000007",
            "00000000070",
            "-00000000001",
            "2147483648",
            "-2147483649",
            "000000000x",
            "-000000000",
            "0000000 07",
            "１０００００００００",
        ] {
            assert_eq!(Sequence::parse(suffix), None, "{suffix}");
        }
    }
}
