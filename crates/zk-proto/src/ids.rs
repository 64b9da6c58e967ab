//! Identities that servers hand out.

use core::fmt;

/// The id of a transaction: the order of all changes of an ensemble.
///
/// The upper half is the epoch of the leader that proposed it, the lower half counts within it.
/// Zxids compare as signed numbers, as servers compare them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(
    /// The number as it goes on the wire.
    pub i64,
);

impl Zxid {
    /// What a client that has seen nothing yet reports.
    pub const ZERO: Self = Self(0);

    /// The epoch of the leader.
    pub fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The number within the epoch.
    pub fn counter(self) -> u32 {
        self.0 as u32
    }
}

/// The id of a session. Zero is none.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(
    /// The number as it goes on the wire.
    pub i64,
);

impl SessionId {
    /// No session: asks for a new one, or says that there is none.
    pub const NONE: Self = Self(0);
}

/// The secret with which a session is resumed. It means nothing to clients, and is not for logs:
/// whoever knows it can take the session over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password(
    /// Its bytes.
    pub [u8; 16],
);

impl Password {
    /// What stands in its place where there is no session.
    pub const NONE: Self = Self([0; 16]);

    /// The password in a handshake, if it is one: the wire lets it be of any length.
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

        newtype_on_the_wire!($name(i64), &[$name(0)]);
    )*};
}

hexadecimal!(Zxid, SessionId);

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn a_zxid_is_an_epoch_and_a_counter() {
        let zxid = Zxid(0x0000_0005_8000_0002);
        assert_eq!((zxid.epoch(), zxid.counter()), (5, 0x8000_0002));
        assert_eq!(format!("{zxid} {:?}", Zxid(-1)), "0x580000002 Zxid(0xffffffffffffffff)");
    }

    #[test]
    fn a_password_is_sixteen_bytes_and_not_shown() {
        let password = Password::from_wire(Some(b"sixteen  secrets"));
        assert_eq!(password, Some(Password(*b"sixteen  secrets")));
        assert_eq!(format!("{password:?}"), "Some(Password(16 bytes))");
        for other in [None, Some(&b"fifteen secrets"[..]), Some(b"seventeen secrets")] {
            assert_eq!(Password::from_wire(other), None);
        }
    }
}
