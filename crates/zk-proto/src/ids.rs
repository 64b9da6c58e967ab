//! Identities that servers assign.

use core::fmt;

/// The id of a transaction, in the order of all changes of an ensemble.
///
/// The upper half is the epoch of the leader that proposed the transaction. The lower half counts
/// the transactions of that epoch. Zxids compare as signed numbers, as on servers.
///
/// ```
/// use zk_proto::Zxid;
///
/// let zxid = Zxid(0x5_0000_0002);
/// assert_eq!((zxid.epoch(), zxid.counter()), (5, 2));
/// assert_eq!(zxid.to_string(), "0x500000002");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(
    /// The number on the wire.
    pub i64,
);

impl Zxid {
    /// The zxid that a client reports before it has seen any transaction.
    pub const ZERO: Self = Self(0);

    /// Returns the epoch of the leader.
    pub fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the number of the transaction within its epoch.
    pub fn counter(self) -> u32 {
        self.0 as u32
    }
}

/// The id of a session. Zero stands for no session.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(
    /// The number on the wire.
    pub i64,
);

impl SessionId {
    /// No session. In a request, it asks for a new one.
    pub const NONE: Self = Self(0);
}

/// The secret that resumes a session.
///
/// Keep it out of logs: everybody who knows it can take over the session. `Debug` hides it.
///
/// ```
/// use zk_proto::Password;
///
/// let password = Password::from_wire(Some(&[7; 16])).expect("16 bytes");
/// assert_eq!(format!("{password:?}"), "Password(16 bytes)");
/// assert_eq!(Password::from_wire(Some(b"too short")), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password(
    /// The bytes of the password.
    pub [u8; 16],
);

impl Password {
    /// The placeholder where there is no session: 16 zeros.
    pub const NONE: Self = Self([0; 16]);

    /// Returns the password from a handshake, or `None` if it does not have 16 bytes.
    ///
    /// The protocol permits any length.
    pub fn from_wire(bytes: Option<&[u8]>) -> Option<Self> {
        bytes?.try_into().ok().map(Self)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("Password(none)"),
            Self(bytes) => write!(f, "Password({} bytes)", bytes.len()),
        }
    }
}

macro_rules! hexadecimal {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        #[cfg(all(feature = "defmt", target_os = "none"))]
        impl defmt::Format for $name {
            fn format(&self, f: defmt::Formatter<'_>) {
                defmt::write!(f, "{=i64:#x}", self.0);
            }
        }

        newtype_on_the_wire!($name(i64), &[$name(0)], &[]);
    )*};
}

hexadecimal!(Zxid, SessionId);

#[cfg(test)]
mod tests;
