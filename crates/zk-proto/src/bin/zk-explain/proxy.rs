//! A proxy that copies bytes and shows them, with two threads for each connection.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zk_proto::conversation::Direction;

use crate::Failure;
use crate::output::{LIMIT, Output};

/// The most chunks that wait to be shown. At this limit, connections wait for the output.
const WAITING: usize = 1024;

enum Event {
    Opened(SocketAddr),
    Bytes(usize, Direction, Vec<u8>, Duration),
    /// A direction has ended.
    Ended(usize),
    Failed(io::Error),
}

/// Where the connections report what happens to them, with times that never decrease.
struct Events {
    sender: Mutex<SyncSender<Event>>,
    started: Instant,
    /// The time since 1970 at which it started, in whole microseconds, as recordings have it.
    since_1970: Duration,
}

impl Events {
    fn new(sender: SyncSender<Event>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { sender: Mutex::new(sender), started: Instant::now(), since_1970: micros(now) }
    }

    /// Sends an event with the current time. Returns whether anybody receives it.
    fn send(&self, event: impl FnOnce(Duration) -> Event) -> bool {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send(event(self.since_1970 + micros(self.started.elapsed()))).is_ok()
    }
}

fn micros(time: Duration) -> Duration {
    Duration::new(time.as_secs(), time.subsec_micros() * 1000)
}

/// Passes connections on until `connections` of them have ended, or for ever.
pub(crate) fn run(
    listen: &str,
    server: &str,
    connections: Option<usize>,
    output: &mut Output,
) -> Result<(), Failure> {
    let addresses = server.to_socket_addrs().map_err(|error| format!("{server}: {error}"))?;
    // They are tried in this order.
    let (server, addresses) = (server.to_owned(), addresses.collect::<Vec<_>>());
    let listener = TcpListener::bind(listen).map_err(|error| format!("{listen}: {error}"))?;
    let _ = writeln!(io::stderr(), "listening on {}", listener.local_addr()?);
    let (sender, events) = sync_channel(WAITING);
    let sender = Arc::new(Events::new(sender));
    thread::spawn(move || accept(&listener, &server, &addresses, connections, &sender));
    show(&events, output)
}

fn show(events: &Receiver<Event>, output: &mut Output) -> Result<(), Failure> {
    // The end of each direction, for all connections.
    let mut ended = Vec::new();
    for event in events {
        match event {
            Event::Opened(peer) => {
                ended.push(0);
                output.open(&format!("client {} ({})", ended.len(), peer.port()), "", LIMIT)?;
            }
            Event::Bytes(connection, direction, bytes, time) => {
                output.bytes(connection, direction, &bytes, Some(time))?;
            }
            Event::Ended(connection) => {
                ended[connection - 1] += 1;
                if ended[connection - 1] == 2 {
                    output.close(connection)?;
                }
            }
            Event::Failed(error) => {
                let _ = writeln!(io::stderr(), "error: {error}");
            }
        }
    }
    Ok(())
}

/// Accepts connections. When it returns, and all copies have ended, there are no senders left.
fn accept(
    listener: &TcpListener,
    server: &str,
    addresses: &[SocketAddr],
    connections: Option<usize>,
    events: &Arc<Events>,
) {
    let mut connection = 0;
    while connections.is_none_or(|limit| connection < limit) {
        let opened = listener.accept().and_then(|(client, peer)| {
            let upstream = TcpStream::connect(addresses).map_err(|error| {
                let why = format!("{server} did not accept a connection: {error}");
                io::Error::new(error.kind(), why)
            })?;
            client.set_nodelay(true)?;
            upstream.set_nodelay(true)?;
            Ok((peer, [(client.try_clone()?, upstream.try_clone()?), (upstream, client)]))
        });
        let (peer, ways) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                if !events.send(|_| Event::Failed(error)) {
                    return;
                }
                // A limit of open files would fail again at once.
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        connection += 1;
        if !events.send(|_| Event::Opened(peer)) {
            return;
        }
        for (direction, (from, to)) in
            [Direction::ToServer, Direction::ToClient].into_iter().zip(ways)
        {
            let events = Arc::clone(events);
            thread::spawn(move || {
                // Either end may fail at any time, which ends the connection.
                let _ = copy(from, to, &events, connection, direction);
                events.send(|_| Event::Ended(connection));
            });
        }
    }
}

fn copy(
    mut from: TcpStream,
    mut to: TcpStream,
    events: &Events,
    connection: usize,
    direction: Direction,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let result = loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => break Err(error),
        };
        // Before it is passed on, so that no reply overtakes its request.
        events.send(|now| Event::Bytes(connection, direction, buffer[..count].to_vec(), now));
        if let Err(error) = to.write_all(&buffer[..count]) {
            break Err(error);
        }
    };
    if result.is_ok() {
        to.shutdown(Shutdown::Write)
    } else {
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
        result
    }
}
