//! Ids of the scheme `digest`.

use core::fmt::{self, Write as _};

/// An [`Id`](crate::Id) of the scheme `digest`: a user and a hash of its password.
///
/// Use it in access control lists. To gain access, a client sends the credentials themselves in an
/// [`AuthPacket`](crate::AuthPacket).
///
/// ```
/// use zk_proto::{Acl, DigestId, Id, Perms};
///
/// let id = DigestId::from_credentials("u:p").to_string();
/// assert_eq!(id, "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=");
/// let acl = Acl { perms: Perms::ALL, id: Id { scheme: "digest", id: Some(&id) } };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestId<'a> {
    user: &'a str,
    hash: [u8; 20],
}

impl<'a> DigestId<'a> {
    /// Returns the id for the credentials `user:password`.
    ///
    /// The user ends at the first colon. The hash is SHA-1, which servers use unless they are
    /// configured otherwise (`DigestAuthenticationProvider.generateDigest`). SHA-1 is weak, but the
    /// protocol prescribes it.
    pub fn from_credentials(credentials: &'a str) -> Self {
        let user = credentials.split_once(':').map_or(credentials, |(user, _)| user);
        Self { user, hash: sha1(credentials.as_bytes()) }
    }
}

impl fmt::Display for DigestId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.user)?;
        for group in self.hash.chunks(3) {
            let bits =
                (0..3).fold(0, |bits, at| bits << 8 | usize::from(*group.get(at).unwrap_or(&0)));
            for digit in 0..4 {
                f.write_char(match digit <= group.len() {
                    true => char::from(BASE64[bits >> (18 - 6 * digit) & 63]),
                    false => '=',
                })?;
            }
        }
        Ok(())
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the SHA-1 hash (FIPS 180-4) of a message. It is short, so speed does not matter.
fn sha1(message: &[u8]) -> [u8; 20] {
    const BLOCK: usize = 64;
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    // A bit that ends the message, zeros, and the length of the message in bits.
    let padded = (message.len() + 9).next_multiple_of(BLOCK);
    let length = (message.len() as u64 * 8).to_be_bytes();
    let byte = |at: usize| match at {
        _ if at < message.len() => message[at],
        _ if at == message.len() => 0x80,
        _ if at >= padded - 8 => length[at + 8 - padded],
        _ => 0,
    };
    for start in (0..padded).step_by(BLOCK) {
        let mut words = [0u32; 80];
        for (at, word) in words[..16].iter_mut().enumerate() {
            *word = u32::from_be_bytes(core::array::from_fn(|of| byte(start + 4 * at + of)));
        }
        for at in 16..80 {
            let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
            words[at] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (round, word) in words.iter().enumerate() {
            let (mixed, constant) = match round {
                0..20 => (b & c | !b & d, 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = [a.rotate_left(5), mixed, e, constant, *word];
            let next = next.into_iter().fold(0, u32::wrapping_add);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (part, more) in state.iter_mut().zip([a, b, c, d, e]) {
            *part = part.wrapping_add(more);
        }
    }
    let mut hash = [0; 20];
    for (bytes, part) in hash.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&part.to_be_bytes());
    }
    hash
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    /// A real server made the second id from credentials that kazoo sent.
    #[test]
    fn the_id_is_the_one_that_servers_compute() {
        for (credentials, id) in [
            ("u:p", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),
            ("alice:wonder", "alice:8y0lhh/7xkdEiwhX7vo9i+/Nmzc="),
        ] {
            assert_eq!(DigestId::from_credentials(credentials).to_string(), id);
        }
    }

    /// The examples of FIPS 180, and messages around the end of a block.
    #[test]
    fn the_hash_is_sha_1() {
        for (message, hash) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
            (&"a".repeat(55), "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
            (&"a".repeat(56), "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
            (&"a".repeat(63), "03f09f5b158a7a8cdad920bddc29b81c18a551f5"),
            (&"a".repeat(64), "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
            (&"a".repeat(119), "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56"),
            (&"a".repeat(120), "f34c1488385346a55709ba056ddd08280dd4c6d6"),
        ] {
            let digits: alloc::string::String =
                sha1(message.as_bytes()).iter().map(|byte| alloc::format!("{byte:02x}")).collect();
            assert_eq!(digits, hash, "{message}");
        }
    }

    #[test]
    fn the_user_ends_at_the_first_colon() {
        assert!(DigestId::from_credentials("u:p:q").to_string().starts_with("u:"));
        assert_ne!(DigestId::from_credentials("u:p:q"), DigestId::from_credentials("u:p"));
        assert!(DigestId::from_credentials("u").to_string().starts_with("u:"));
    }
}
