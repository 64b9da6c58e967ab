//! Connections to members.

use alloc::vec::Vec;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};

use crate::connect_string::Member;

/// How long a write may find no room before the rest is left for later. It is as good as none.
const WRITE_PATIENCE: Duration = Duration::from_millis(1);
/// The shortest time that a socket is asked to wait.
pub(super) const LEAST_PATIENCE: Duration = Duration::from_millis(1);
/// The longest time that a socket is asked to wait.
pub(super) const MOST_PATIENCE: Duration = Duration::from_secs(3600);
/// How long a member may take to say whether it can write.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// Connects to whichever address of a member answers first, one after the other.
pub(super) fn connect(member: &Member, patience: Duration) -> io::Result<TcpStream> {
    let start = std::time::Instant::now();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (member.host.as_str(), member.port).to_socket_addrs()? {
        let left = patience.saturating_sub(start.elapsed()).max(LEAST_PATIENCE);
        match TcpStream::connect_timeout(&address, left) {
            Ok(link) => {
                link.set_nodelay(true)?;
                link.set_write_timeout(Some(WRITE_PATIENCE))?;
                return Ok(link);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether a member can write, as it says itself.
pub(super) fn can_write(member: &Member) -> io::Result<bool> {
    let mut link = connect(member, PROBE_PATIENCE)?;
    link.set_read_timeout(Some(PROBE_PATIENCE))?;
    link.write_all(b"isro")?;
    // One byte more than the answer, to know it from a longer one.
    let mut answer = Vec::new();
    link.take(3).read_to_end(&mut answer)?;
    Ok(answer == b"rw")
}

/// Whether a socket has only waited as long as it was asked to.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
