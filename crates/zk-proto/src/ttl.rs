//! The time to live of a node.

/// A time to live: 1 to 2^40 - 1 milliseconds.
///
/// The server deletes the node once it has had no children and no change for that time.
///
/// ```
/// use zk_proto::Ttl;
///
/// assert_eq!(Ttl::from_millis(60_000).map(Ttl::as_millis), Some(60_000));
/// assert_eq!(Ttl::from_millis(0), None);
/// ```
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(i64);

impl Ttl {
    /// The longest time to live: almost 35 years.
    ///
    /// Servers store it in 40 bits (`EphemeralType`).
    pub const MAX: Self = Self(0xff_ffff_ffff);

    /// Creates a time to live from milliseconds, or returns `None` if servers would refuse it.
    pub const fn from_millis(milliseconds: i64) -> Option<Self> {
        match milliseconds {
            1..=0xff_ffff_ffff => Some(Self(milliseconds)),
            _ => None,
        }
    }

    /// Returns the time to live in milliseconds, as it is sent.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
