//! The blocking client over a custom transport: encrypted, with small reads and writes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use zk_session::blocking::{Client, Connect, TcpConnect, TcpTransport, Transport};
use zk_session::proto::NodeKind;
use zk_session::{ConnectError, ServerAddress, State};

use super::{Ensemble, SESSION_TIMEOUT, assert_moves_from};

/// The key of the cipher, which makes plain bytes invalid in both directions.
const SEAL: u8 = 0x5a;
/// The maximum number of bytes per read or write.
const MOST: usize = 7;

fn seal(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= SEAL);
}

struct SealedConnect;

impl Connect for SealedConnect {
    type Transport = Sealed;

    fn connect(&self, server: &ServerAddress, timeout: Duration) -> io::Result<Sealed> {
        let tcp = TcpConnect::default().connect(server, timeout)?;
        Ok(Sealed { tcp, outgoing: Mutex::default() })
    }
}

/// A transport that buffers what it took, like TLS, and may be unable to send it.
struct Sealed {
    tcp: TcpTransport,
    outgoing: Mutex<Outgoing>,
}

#[derive(Default)]
struct Outgoing {
    held: Vec<u8>,
    is_refused: bool,
}

impl Transport for Sealed {
    fn read(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let room = buffer.len().min(MOST);
        let count = self.tcp.read(&mut buffer[..room], timeout)?;
        seal(&mut buffer[..count]);
        Ok(count)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let taken = &bytes[..bytes.len().min(MOST)];
        let mut outgoing = self.outgoing.lock().expect("not poisoned");
        outgoing.held.extend_from_slice(taken);
        seal(&mut outgoing.held);
        Ok(taken.len())
    }

    fn flush(&self) -> io::Result<()> {
        let mut outgoing = self.outgoing.lock().expect("not poisoned");
        while !outgoing.held.is_empty() {
            outgoing.is_refused = !outgoing.is_refused;
            if outgoing.is_refused {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = self.tcp.write(&outgoing.held)?;
            outgoing.held.drain(..count);
        }
        Ok(())
    }

    fn shutdown(&self) {
        self.tcp.shutdown();
    }
}

/// Starts a proxy for sealed connections to a server. Returns its address.
fn sealed(server: SocketAddr) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("a bound port").to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            // If the server is down, the connection ends.
            let Ok(server) = TcpStream::connect(server) else { continue };
            let client = client.expect("a connection");
            for (from, to) in [(&client, &server), (&server, &client)] {
                let copy = |stream: &TcpStream| stream.try_clone().expect("a handle");
                let (from, to) = (copy(from), copy(to));
                thread::spawn(move || pass_on(&from, &to));
            }
        }
    });
    at
}

fn pass_on(mut from: &TcpStream, mut to: &TcpStream) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        seal(&mut chunk[..count]);
        if to.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_session_works_over_a_custom_transport() {
    let ensemble = Ensemble::start(3);
    let servers = [0, 1, 2].map(|server| sealed(ensemble.embedded.address(server)));
    let builder = Client::builder(&servers.join(",")).session_timeout(SESSION_TIMEOUT);
    let client = builder.connect_with(SealedConnect).expect("connected");
    client.create("/a", &[1; 100], NodeKind::Ephemeral).wait().expect("a new node");
    let (_, _, watch) = client.get_data_and_watch("/a").wait().expect("the node exists");
    let State::Connected { server, session } = client.state() else { panic!("not connected") };
    ensemble.embedded.kill(server);
    assert_moves_from(&client, server);
    assert_eq!(client.session_id(), session);
    client.set_data("/a", &[2; 100], None).wait().expect("the node exists");
    assert_eq!(&*watch.wait().expect("a watch event").path, "/a");
    thread::scope(|scope| {
        for _ in 0..4 {
            let read = || {
                assert_eq!(client.get_data("/a").wait().expect("the node exists").0, [2; 100][..]);
            };
            scope.spawn(read);
        }
    });
    client.close();
}

#[test]
fn the_error_of_a_connect_is_reported_if_no_server_is_reachable() {
    struct Refused;
    impl Connect for Refused {
        type Transport = TcpTransport;

        fn connect(&self, server: &ServerAddress, _: Duration) -> io::Result<TcpTransport> {
            Err(io::Error::other(format!("{} is not trusted", server.host)))
        }
    }
    let builder = Client::builder("somebody").connect_timeout(Duration::from_millis(100));
    let Err(ConnectError::Unreachable { last: Some((_, error)), .. }) =
        builder.connect_with(Refused)
    else {
        panic!("connected")
    };
    assert_eq!(error, "somebody is not trusted");
}
