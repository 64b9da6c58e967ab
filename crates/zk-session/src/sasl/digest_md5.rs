//! DIGEST-MD5 (RFC 2831), as ZooKeeper's servers speak it.
//!
//! The servers take it from the JDK: quality of protection `auth`, algorithm `md5-sess`, and no fast
//! re-authentication (JDK-6682540), so the client's first token is empty. Recordings of the exchange
//! are in `crates/zk-proto/tests/golden/*-sasl.*`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use md5::{Digest, Md5};
use zeroize::Zeroizing;

use super::{BegunExchange, Exchange, Mechanism, SaslError};
use crate::connect_string::ServerAddress;

/// The service and the name under which all servers of an ensemble prove themselves
/// (`SaslServerCallbackHandler`, `ZooKeeperSaslServer`).
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";

/// Challenges are shorter than this number of bytes (RFC 2831, section 2.1.1).
const MAX_CHALLENGE: usize = 2048;

/// DIGEST-MD5: a user and a password that the servers know from their JAAS file.
///
/// The servers store such an identity as `Id { scheme: "sasl", id: user }`. The password never
/// crosses the wire, but MD5 is weak: use TLS beside it.
///
/// ```
/// use zk_session::sasl::{DigestMd5, Mechanism};
///
/// let mechanism = DigestMd5::new("alice", "secret");
/// assert_eq!(mechanism.name(), "DIGEST-MD5");
/// assert_eq!(format!("{mechanism:?}"), r#"DigestMd5 { user: "alice", .. }"#);
/// ```
#[derive(Clone)]
pub struct DigestMd5 {
    user: String,
    /// Overwritten with zeros when dropped.
    password: Zeroizing<String>,
    nonce: NonceSource,
}

/// Returns random bytes, other ones each time.
///
/// # Errors
///
/// [`SaslError::Mechanism`], if there are none.
pub type NonceSource = fn() -> Result<[u8; 16], SaslError>;

impl DigestMd5 {
    /// Makes the mechanism for a user and a password. Its nonces are from the operating system.
    #[cfg(not(any(target_os = "none", target_os = "unknown")))]
    pub fn new(user: &str, password: &str) -> Self {
        Self::with_nonces(user, password, random_nonce)
    }

    /// Makes the mechanism for a user and a password, with nonces of the program: those of a board's
    /// hardware.
    pub fn with_nonces(user: &str, password: &str, nonce: NonceSource) -> Self {
        Self { user: user.to_string(), password: Zeroizing::new(password.to_string()), nonce }
    }
}

impl fmt::Debug for DigestMd5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestMd5").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Mechanism for DigestMd5 {
    fn name(&self) -> &'static str {
        "DIGEST-MD5"
    }

    fn begin(&self, _: &ServerAddress) -> Result<BegunExchange, SaslError> {
        let nonce = hex(&(self.nonce)()?);
        Ok((Box::new(ChallengeState::Begun { credentials: self.clone(), nonce }), Vec::new()))
    }
}

#[cfg(not(any(target_os = "none", target_os = "unknown")))]
fn random_nonce() -> Result<[u8; 16], SaslError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| SaslError::Mechanism(error.to_string()))?;
    Ok(random)
}

#[derive(Debug)]
enum ChallengeState {
    Begun {
        credentials: DigestMd5,
        nonce: String,
    },
    /// The server has to prove that it knows the password, too.
    Answered {
        expected: String,
    },
    Over,
}

impl Exchange for ChallengeState {
    fn respond(&mut self, challenge: Option<&[u8]>) -> Result<Option<Vec<u8>>, SaslError> {
        match core::mem::replace(self, Self::Over) {
            Self::Begun { credentials, nonce } => {
                let challenge = challenge.ok_or(SaslError::Unsupported)?;
                let challenge = Challenge::parse(challenge)?;
                let proof = Proof::new(&credentials, &challenge, &nonce);
                *self = Self::Answered { expected: proof.of("") };
                Ok(Some(answer(&credentials, &challenge, &nonce, &proof).into_bytes()))
            }
            Self::Answered { expected } => {
                let proof = directives(challenge.unwrap_or_default())?;
                let is_proven = proof.iter().any(|(name, v)| name == "rspauth" && *v == expected);
                if is_proven { Ok(None) } else { Err(SaslError::ServerUnproven) }
            }
            Self::Over => Err(SaslError::Challenge("the exchange is over")),
        }
    }
}

/// The server's challenge.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    realm: String,
    nonce: String,
    is_utf8: bool,
}

impl Challenge {
    fn parse(text: &[u8]) -> Result<Self, SaslError> {
        let directives = directives(text)?;
        let find = |wanted| directives.iter().find(|(name, _)| name == wanted).map(|(_, v)| v);
        if find("algorithm").is_none_or(|algorithm| algorithm != "md5-sess") {
            return Err(SaslError::Challenge("its algorithm is not md5-sess"));
        }
        // Without the directive, `auth` is meant.
        if find("qop").is_some_and(|qop| qop.split(',').all(|qop| qop.trim() != "auth")) {
            return Err(SaslError::Challenge("it demands encryption by SASL"));
        }
        Ok(Self {
            realm: find("realm").cloned().unwrap_or_default(),
            nonce: find("nonce").cloned().ok_or(SaslError::Challenge("it has no nonce"))?,
            is_utf8: find("charset").is_some_and(|charset| charset == "utf-8"),
        })
    }
}

/// Parses `name=value,name="quoted \" value"`.
fn directives(text: &[u8]) -> Result<Vec<(String, String)>, SaslError> {
    const MALFORMED: SaslError = SaslError::Challenge("it is malformed");
    if text.len() >= MAX_CHALLENGE {
        return Err(SaslError::Challenge("it is too long"));
    }
    let mut rest = core::str::from_utf8(text).map_err(|_| MALFORMED)?;
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t', '\r', '\n']);
        if rest.is_empty() {
            return Ok(found);
        }
        let (name, behind) = rest.split_once('=').ok_or(MALFORMED)?;
        let (value, behind) = match behind.trim_start().strip_prefix('"') {
            Some(quoted) => unquote(quoted).ok_or(MALFORMED)?,
            None => {
                let end = behind.find(',').unwrap_or(behind.len());
                (behind[..end].trim_end().to_string(), &behind[end..])
            }
        };
        found.push((name.trim_end().to_ascii_lowercase(), value));
        rest = behind;
    }
}

/// Reads up to the closing quotation mark. Returns the text, and what is behind the mark.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some((text, chars.as_str())),
            '\\' => text.push(chars.next()?),
            char => text.push(char),
        }
    }
}

fn quote(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn answer(credentials: &DigestMd5, challenge: &Challenge, nonce: &str, proof: &Proof) -> String {
    let charset = if challenge.is_utf8 { "charset=utf-8," } else { "" };
    format!(
        "{charset}username=\"{}\",realm=\"{}\",nonce=\"{}\",nc=00000001,cnonce=\"{nonce}\",\
         digest-uri=\"{DIGEST_URI}\",maxbuf=65536,response={},qop=auth",
        quote(&credentials.user),
        quote(&challenge.realm),
        quote(&challenge.nonce),
        proof.of("AUTHENTICATE"),
    )
}

/// What both sides can compute that know the password.
struct Proof {
    /// `HEX(H(A1))` of RFC 2831, section 2.1.2.1.
    secret: Zeroizing<String>,
    /// Nonce, count, client nonce and quality of protection.
    exchange: String,
}

impl Proof {
    fn new(credentials: &DigestMd5, challenge: &Challenge, nonce: &str) -> Self {
        let mut first = Md5::new();
        for (index, part) in
            [&*credentials.user, &challenge.realm, &credentials.password].into_iter().enumerate()
        {
            if index > 0 {
                first.update(b":");
            }
            first.update(&*hashed_form(part, challenge.is_utf8));
        }
        let mut whole = Md5::new();
        whole.update(first.finalize());
        whole.update(format!(":{}:{nonce}", challenge.nonce));
        Self {
            secret: Zeroizing::new(hex(&whole.finalize())),
            exchange: format!("{}:00000001:{nonce}:auth", challenge.nonce),
        }
    }

    /// Returns the client's proof for the method `AUTHENTICATE`, and the server's for the empty one.
    fn of(&self, method: &str) -> String {
        let uri = hex(&Md5::digest(format!("{method}:{DIGEST_URI}")));
        hex(&Md5::digest(format!("{}:{}:{uri}", *self.secret, self.exchange)))
    }
}

/// Returns the bytes of a text that are hashed: those of ISO 8859-1 if it has no other characters
/// (RFC 2831, section 2.1.2.1; `DigestMD5Base.stringToByte_8859_1` of the JDK).
fn hashed_form(text: &str, is_utf8: bool) -> Zeroizing<Vec<u8>> {
    let latin = |char| u8::try_from(char).ok();
    // Never moved, so that no copy of a password stays behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    if is_utf8 && text.chars().any(|char| latin(char).is_none()) {
        bytes.extend_from_slice(text.as_bytes());
    } else {
        // The JDK has no other byte for other characters.
        bytes.extend(text.chars().map(|char| latin(char).unwrap_or(b'?')));
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("four bits are one digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests;
