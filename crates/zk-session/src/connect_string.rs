//! Where an ensemble is: `host:port,host:port/chroot`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use zk_proto::path::PathError;

use crate::chroot::Chroot;

/// The port that servers listen on unless told otherwise.
pub const DEFAULT_PORT: u16 = 2181;

/// The members of an ensemble, and the directory to take for the root.
///
/// ```
/// use zk_session::ConnectString;
///
/// let at: ConnectString = "zk1:2181,zk2,[::1]:2182/app".parse()?;
/// let members: Vec<String> = at.members.iter().map(ToString::to_string).collect();
/// assert_eq!(members, ["zk1:2181", "zk2:2181", "[::1]:2182"]);
/// assert_eq!(at.chroot.apply("/locks"), "/app/locks");
/// # Ok::<(), zk_session::ConnectStringError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectString {
    /// The members, in the order given.
    pub members: Vec<Member>,
    /// The directory to take for the root. It is not created.
    pub chroot: Chroot,
}

/// Where a member listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// A name or an address; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What is wrong with a connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectStringError {
    /// A member has no host name.
    NoHost,
    /// A member's port is not a number from 1 to 65535.
    Port(String),
    /// An IPv6 address lacks its brackets, or one of them.
    Brackets(String),
    /// The chroot is no valid path.
    Chroot(PathError),
}

impl fmt::Display for ConnectStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => f.write_str("a member has no host name"),
            Self::Port(member) => write!(f, "'{member}' has no port from 1 to 65535"),
            Self::Brackets(member) => {
                write!(f, "'{member}': an IPv6 address is written as [address]:port")
            }
            Self::Chroot(error) => write!(f, "the chroot is invalid: {error}"),
        }
    }
}

impl core::error::Error for ConnectStringError {}

impl FromStr for ConnectString {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<Self, ConnectStringError> {
        let (members, chroot) = match text.find('/') {
            Some(at) => {
                let chroot = Chroot::new(&text[at..]).map_err(ConnectStringError::Chroot)?;
                (&text[..at], chroot)
            }
            None => (text, Chroot::default()),
        };
        let members =
            members.split(',').map(str::trim).map(parse_member).collect::<Result<_, _>>()?;
        Ok(Self { members, chroot })
    }
}

fn parse_member(text: &str) -> Result<Member, ConnectStringError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or_default())),
            None => return Err(ConnectStringError::Brackets(text.to_string())),
        },
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(ConnectStringError::Brackets(text.to_string()));
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(ConnectStringError::NoHost);
    }
    let port = match port.map(str::parse) {
        None => DEFAULT_PORT,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return Err(ConnectStringError::Port(text.to_string())),
    };
    Ok(Member { host: host.to_string(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        for (text, error) in [
            ("", ConnectStringError::NoHost),
            (":2181", ConnectStringError::NoHost),
            ("a,", ConnectStringError::NoHost),
            ("/chroot", ConnectStringError::NoHost),
            ("a:", ConnectStringError::Port("a:".to_string())),
            ("a:0", ConnectStringError::Port("a:0".to_string())),
            ("a:65536", ConnectStringError::Port("a:65536".to_string())),
            ("a,b:port", ConnectStringError::Port("b:port".to_string())),
            ("[::1]2181", ConnectStringError::Port("[::1]2181".to_string())),
            ("::1:2181", ConnectStringError::Brackets("::1:2181".to_string())),
            ("[::1", ConnectStringError::Brackets("[::1".to_string())),
            ("a//b", ConnectStringError::Chroot(PathError::EmptyComponent(1))),
            ("a/b/", ConnectStringError::Chroot(PathError::TrailingSlash)),
        ] {
            assert_eq!(text.parse::<ConnectString>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_slash_alone_is_no_chroot() {
        let at: ConnectString = "a/".parse().expect("valid");
        assert_eq!(at.chroot, Chroot::default());
    }
}
