//! The number that a server appends to the name of a sequential node.

use core::fmt;

/// A sequence number, which prints as ten digits with leading zeros.
///
/// It counts the creations below one parent. Servers store it as a signed 32-bit number, so it ends
/// after 2^31 creations. Servers then repeat the last number or go on with negative ones
/// (`PrepRequestProcessor.pRequest2TxnCreate`, ZOOKEEPER-3249). A minus sign takes the place of one
/// digit.
#[doc(alias = "sequential")]
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(
    /// The number.
    pub i32,
);

impl SequenceNumber {
    /// Parses all of `suffix` as a sequence number.
    ///
    /// It accepts only strings that a server writes: `0000000007` and `-000000001`, but not `7`,
    /// `+000000007` or `-2147483649`.
    ///
    /// ```
    /// use zk_proto::SequenceNumber;
    ///
    /// assert_eq!(SequenceNumber::parse("0000000042"), Some(SequenceNumber(42)));
    /// assert_eq!(SequenceNumber::parse("42"), None);
    /// assert_eq!(SequenceNumber(42).to_string(), "0000000042");
    /// ```
    pub fn parse(suffix: &str) -> Option<Self> {
        let (is_negative, digits) = match suffix.as_bytes() {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        // Ten characters; or eleven if the number needs them, and so does not start with a zero.
        let is_padded = suffix.len() == 10;
        let is_full = suffix.len() == 11 && !digits.starts_with(b"0");
        if !is_padded && !is_full {
            return None;
        }
        let number = digits.iter().try_fold(0, |number: i64, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then_some(number * 10 + i64::from(digit))
        })?;
        if is_negative && number == 0 {
            return None;
        }
        i32::try_from(if is_negative { -number } else { number }).ok().map(Self)
    }
}

impl SequenceNumber {
    /// Writes the number to the buffer, as it [prints](Self), and returns the text.
    ///
    /// ```
    /// use zk_proto::SequenceNumber;
    ///
    /// assert_eq!(SequenceNumber(-42).encode(&mut [0; 11]), "-000000042");
    /// ```
    pub fn encode(self, buffer: &mut [u8; 11]) -> &str {
        let mut left = self.0.unsigned_abs();
        for byte in buffer.iter_mut().rev() {
            *byte = b'0' + (left % 10) as u8;
            left /= 10;
        }
        // Eleven characters only if the number needs them.
        let is_negative = self.0 < 0;
        let is_full = is_negative && buffer[1] != b'0';
        let text = &mut buffer[usize::from(!is_full)..];
        if is_negative {
            text[0] = b'-';
        }
        core::str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.encode(&mut [0; 11]))
    }
}

#[cfg(test)]
mod tests;
