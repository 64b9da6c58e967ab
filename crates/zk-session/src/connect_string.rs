//! The connection string of an ensemble: `host:port,host:port/chroot`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use zk_proto::path::PathError;

use crate::chroot::Chroot;

/// The default client port of a server.
pub const DEFAULT_PORT: u16 = 2181;

/// The servers of an ensemble and the chroot, parsed from `host:port,host:port/chroot`.
///
/// ```
/// use zk_session::ConnectString;
///
/// let parsed: ConnectString = "zk1:2181,zk2,[::1]:2182/app".parse()?;
/// let servers: Vec<String> = parsed.servers.iter().map(ToString::to_string).collect();
/// assert_eq!(servers, ["zk1:2181", "zk2:2181", "[::1]:2182"]);
/// assert_eq!(parsed.chroot.apply("/locks"), "/app/locks");
/// # Ok::<(), zk_session::ConnectStringError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectString {
    /// The servers, in the order given.
    pub servers: Vec<ServerAddress>,
    /// The chroot. Nothing creates its node.
    pub chroot: Chroot,
}

/// The host and port of a server.
///
/// ```
/// use zk_session::{ConnectString, DEFAULT_PORT};
///
/// let parsed: ConnectString = "[::1]".parse()?;
/// assert_eq!(parsed.servers[0].host, "::1");
/// assert_eq!(parsed.servers[0].port, DEFAULT_PORT);
/// # Ok::<(), zk_session::ConnectStringError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// A host name or an IP address. An IPv6 address has no brackets here.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if contains(&self.host, b':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

zk_proto::named! {
    /// The reason why a connection string is invalid.
    ///
    /// ```
    /// use zk_session::{ConnectString, ConnectStringError};
    ///
    /// let error = "zk1:2181,zk2:http".parse::<ConnectString>().unwrap_err();
    /// assert_eq!(error, ConnectStringError::Port("zk2:http".to_string()));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ConnectStringError {
        /// A server has no host name, or the string names no server.
        NoHost,
        /// The port of this server is not a number from 1 to 65535.
        Port(String),
        /// The brackets around an IPv6 address are missing or unbalanced, or they enclose something
        /// else.
        Brackets(String),
        /// A character that is invalid in a host name: a space within it, a control character, `@`,
        /// or another character with a meaning in URLs.
        Character {
            /// The character.
            character: char,
            /// The offset of the character in the string, in bytes.
            position: usize,
        },
        /// The chroot is not a valid path.
        Chroot(PathError),
    }
}

impl fmt::Display for ConnectStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => f.write_str("a host name is missing"),
            Self::Port(server) => write!(f, "{server:?}: the port is not a number from 1 to 65535"),
            Self::Brackets(server) => {
                write!(f, "{server:?}: an IPv6 address is written as [address]:port")
            }
            Self::Character { character, position } => {
                write!(f, "invalid character {character:?} in a host name, at byte {position}")
            }
            Self::Chroot(error) => write!(f, "the chroot is invalid: {error}"),
        }
    }
}

impl core::error::Error for ConnectStringError {}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.servers.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{server}")?;
        }
        match &*self.chroot.apply("/") {
            "/" => Ok(()),
            chroot => f.write_str(chroot),
        }
    }
}

impl FromStr for ConnectString {
    type Err = ConnectStringError;

    /// Parses a connection string. As the Java client does, it ignores spaces around servers, and
    /// empty servers such as the one behind a trailing comma.
    fn from_str(text: &str) -> Result<Self, ConnectStringError> {
        let (list, chroot) = match text.find('/') {
            Some(at) => {
                let chroot = Chroot::new(&text[at..]).map_err(ConnectStringError::Chroot)?;
                (&text[..at], chroot)
            }
            None => (text, Chroot::default()),
        };
        let mut servers = Vec::new();
        let mut start = 0;
        for part in list.split(',') {
            let server = part.trim_matches([' ', '\t']);
            if !server.is_empty() {
                let blanks = part.len() - part.trim_start_matches([' ', '\t']).len();
                servers.push(parse_server(server, start + blanks)?);
            }
            start += part.len() + 1;
        }
        if servers.is_empty() {
            return Err(ConnectStringError::NoHost);
        }
        Ok(Self { servers, chroot })
    }
}

/// Parses one server, which begins at byte `start` of the connection string.
pub(crate) fn parse_server(text: &str, start: usize) -> Result<ServerAddress, ConnectStringError> {
    let brackets = || ConnectStringError::Brackets(text.to_string());
    if let Some((at, character)) = text.char_indices().find(|(_, c)| is_stray(*c)) {
        return Err(ConnectStringError::Character { character, position: start + at });
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(brackets)?;
            if !contains(host, b':') {
                return Err(brackets());
            }
            let port = rest.strip_prefix(':').unwrap_or_default();
            (host, (!rest.is_empty()).then_some(port))
        }
        None => match text.split_once(':') {
            Some((_, port)) if contains(port, b':') => return Err(brackets()),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(ConnectStringError::NoHost);
    }
    if contains(host, b'[') || contains(host, b']') {
        return Err(brackets());
    }
    // `parse` accepts a leading `+`.
    let number = |port: &str| port.parse().ok().filter(|_| !port.starts_with('+'));
    let port = match port.map(number) {
        None => DEFAULT_PORT,
        Some(Some(port)) if port > 0 => port,
        Some(_) => return Err(ConnectStringError::Port(text.to_string())),
    };
    Ok(ServerAddress { host: host.to_string(), port })
}

/// Returns whether a character is invalid in a host name.
fn is_stray(c: char) -> bool {
    let means_something =
        matches!(c, '@' | '?' | '#' | '"' | '\'' | '\\' | '<' | '>' | '{' | '}' | '|' | '^' | '`');
    means_something || c.is_whitespace() || c.is_control()
}

// Once: `str::contains` takes 500 bytes in each place.
#[inline(never)]
fn contains(text: &str, ascii: u8) -> bool {
    text.as_bytes().contains(&ascii)
}

#[cfg(test)]
mod tests;
