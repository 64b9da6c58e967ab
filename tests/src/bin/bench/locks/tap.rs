//! A proxy between clients and a server, which counts messages and bytes for all clients alike.

use core::ops::Sub;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use zk_proto::{Decode, OpCode, Reader, ReplyHeader, RequestHeader, Xid, frame};

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
    let (up, down) = ((client.try_clone()?, server.try_clone()?), (server, client));
    let counting = counters.clone();
    thread::spawn(move || copy(up.0, up.1, |frame| counting.request(frame)));
    let counting = counters.clone();
    thread::spawn(move || copy(down.0, down.1, |frame| counting.reply(frame)));
    Ok(())
}

/// Copies until either side ends. Calls `show` with each frame except the first, which is the
/// handshake.
fn copy(mut from: TcpStream, mut to: TcpStream, mut show: impl FnMut(&[u8])) {
    let (mut buffer, mut pending) = (vec![0; 1 << 16], Vec::new());
    let mut is_first = true;
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
    {
        pending.extend_from_slice(&buffer[..count]);
        let mut rest = pending.as_slice();
        while let Ok(Some((payload, behind))) = frame::split(rest, frame::DEFAULT_LIMIT) {
            rest = behind;
            if !core::mem::take(&mut is_first) {
                show(payload);
            }
        }
        pending.drain(..pending.len() - rest.len());
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // It may be closed already.
    let _ = to.shutdown(Shutdown::Both);
}

impl Counters {
    fn request(&self, payload: &[u8]) {
        match RequestHeader::decode(&mut Reader::new(payload)) {
            Ok(header) if header.opcode != OpCode::PING => {
                self.requests.fetch_add(1, Ordering::Relaxed);
                add_frame(&self.bytes_up, payload);
            }
            _ => {}
        }
    }

    fn reply(&self, payload: &[u8]) {
        match ReplyHeader::decode(&mut Reader::new(payload)) {
            Ok(header) if header.xid != Xid::PING => {
                let is_event = header.xid == Xid::NOTIFICATION;
                self.notifications.fetch_add(is_event.into(), Ordering::Relaxed);
                add_frame(&self.bytes_down, payload);
            }
            _ => {}
        }
    }
}

fn add_frame(bytes: &AtomicU64, payload: &[u8]) {
    bytes.fetch_add((frame::PREFIX_LEN + payload.len()) as u64, Ordering::Relaxed);
}
