//! A proxy between clients and a server, which counts messages and bytes for all clients alike.

use core::ops::Sub;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use zk_proto::conversation::{Conversation, Direction, Kind, Message};
use zk_proto::{OpCode, frame};

/// The traffic so far, without pings and handshakes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) notifications: u64,
    /// Bytes to clients.
    pub(crate) bytes_down: u64,
    /// Bytes to the server.
    pub(crate) bytes_up: u64,
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            notifications: self.notifications - before.notifications,
            bytes_down: self.bytes_down - before.bytes_down,
            bytes_up: self.bytes_up - before.bytes_up,
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    notifications: AtomicU64,
    bytes_down: AtomicU64,
    bytes_up: AtomicU64,
}

/// A listener that passes connections on to a server, until the process ends.
#[derive(Debug)]
pub(crate) struct Tap {
    address: String,
    counters: Arc<Counters>,
}

impl Tap {
    pub(crate) fn start(server: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?.to_string();
        let counters = Arc::<Counters>::default();
        let (server, counting) = (server.to_owned(), counters.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client whose server fails sees its connection end.
                let _ = pass_on(client, &server, &counting);
            }
        });
        Ok(Self { address, counters })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn tally(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            requests: read(&self.counters.requests),
            notifications: read(&self.counters.notifications),
            bytes_down: read(&self.counters.bytes_down),
            bytes_up: read(&self.counters.bytes_up),
        }
    }
}

fn pass_on(client: TcpStream, server: &str, counters: &Arc<Counters>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let up = (Direction::ToServer, client.try_clone()?, server.try_clone()?);
    let conversation = Arc::new(Mutex::new(Conversation::new(frame::DEFAULT_LIMIT)));
    for (direction, from, to) in [up, (Direction::ToClient, server, client)] {
        let (conversation, counters) = (Arc::clone(&conversation), Arc::clone(counters));
        thread::spawn(move || copy(from, to, direction, &conversation, &counters));
    }
    Ok(())
}

/// Copies until either side ends, and counts each message before it is passed on.
fn copy(
    mut from: TcpStream,
    mut to: TcpStream,
    direction: Direction,
    conversation: &Mutex<Conversation>,
    counters: &Counters,
) {
    let (mut buffer, mut pending) = (vec![0; 1 << 16], Vec::new());
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
    {
        pending.extend_from_slice(&buffer[..count]);
        let mut rest = pending.as_slice();
        let mut conversation = conversation.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(Some((message, behind))) = conversation.read(direction, rest) {
            rest = behind;
            counters.add(&message);
        }
        drop(conversation);
        pending.drain(..pending.len() - rest.len());
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // It may be closed already.
    let _ = to.shutdown(Shutdown::Both);
}

impl Counters {
    fn add(&self, message: &Message<'_>) {
        let bytes = match message.kind {
            _ if message.opcode() == Some(OpCode::PING) => return,
            Kind::Request(_) => {
                self.requests.fetch_add(1, Ordering::Relaxed);
                &self.bytes_up
            }
            Kind::Notification(_) => {
                self.notifications.fetch_add(1, Ordering::Relaxed);
                &self.bytes_down
            }
            Kind::Reply { .. } | Kind::UnmatchedReply(_) => &self.bytes_down,
            // Handshakes.
            _ => return,
        };
        bytes.fetch_add(message.bytes.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_recorded_connection_is_counted_without_its_handshake_and_its_ping() {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/zk-proto/tests/golden");
        let read = |ending| fs::read(folder.join(["3.8.0-raw-ops.", ending].concat()));
        let [sent, received] = ["c2s", "s2c"].map(|ending| read(ending).expect("a recording"));
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let at = server.local_addr().expect("an address").to_string();
        let tap = Tap::start(&at).expect("loopback");
        let mut client = TcpStream::connect(tap.address()).expect("the tap listens");
        let (mut accepted, _) = server.accept().expect("the tap connects");
        client.write_all(&sent).expect("sent");
        accepted.read_exact(&mut vec![0; sent.len()]).expect("passed on");
        accepted.write_all(&received).expect("sent");
        client.read_exact(&mut vec![0; received.len()]).expect("passed on");
        let tally = tap.tally();
        assert_eq!((tally.requests, tally.notifications), (8, 3));
        // Less the frames of the handshake and of the ping.
        assert_eq!(tally.bytes_up, sent.len() as u64 - (49 + 12));
        assert_eq!(tally.bytes_down, received.len() as u64 - (41 + 20));
    }
}
