//! The blocking client over a transport of one's own: sealed, and no better than it has to be.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use zk_session::blocking::{Client, Connect, TcpConnect, TcpTransport, Transport};
use zk_session::proto::NodeKind;
use zk_session::{ConnectError, ServerAddress, State};

use super::{Ensemble, SESSION_TIMEOUT, assert_moves_from};

/// What is sent plain arrives as nonsense, and the other way round.
const SEAL: u8 = 0x5a;
/// The most that a read yields, or a write takes.
const MOST: usize = 7;

fn seal(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= SEAL);
}

struct SealedConnect;

impl Connect for SealedConnect {
    type Transport = Sealed;

    fn connect(&self, server: &ServerAddress, timeout: Duration) -> io::Result<Sealed> {
        let tcp = TcpConnect.connect(server, timeout)?;
        Ok(Sealed { tcp, outgoing: Mutex::default() })
    }
}

/// As TLS does, it holds back what it took, and may be unable to get rid of it.
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
        let mut outgoing = self.outgoing.lock().expect("nothing panics");
        outgoing.held.extend_from_slice(taken);
        seal(&mut outgoing.held);
        Ok(taken.len())
    }

    fn flush(&self) -> io::Result<()> {
        let mut outgoing = self.outgoing.lock().expect("nothing panics");
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

/// Where sealed connections to a server arrive.
fn sealed(server: SocketAddr) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            // A server that is down hangs up.
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
fn a_session_lives_on_a_transport_of_ones_own() {
    let ensemble = Ensemble::start(3);
    let servers = [0, 1, 2].map(|server| sealed(ensemble.embedded.address(server)));
    let builder = Client::builder(&servers.join(",")).session_timeout(SESSION_TIMEOUT);
    let client = builder.connect_with(SealedConnect).expect("it answers");
    client.create("/a", &[1; 100], NodeKind::Ephemeral).expect("it is new");
    let (_, _, watch) = client.get_data_and_watch("/a").expect("it is there");
    let State::Connected { server, session } = client.state() else { panic!("not connected") };
    ensemble.embedded.kill(server);
    assert_moves_from(&client, server);
    assert_eq!(client.session_id(), session);
    client.set_data("/a", &[2; 100], None).expect("it is there");
    assert_eq!(&*watch.wait().expect("it fires").path, "/a");
    thread::scope(|scope| {
        for _ in 0..4 {
            let read = || assert_eq!(client.get_data("/a").expect("it is there").0, [2; 100][..]);
            scope.spawn(read);
        }
    });
    client.close();
}

#[test]
fn what_a_connect_says_is_told_when_nobody_can_be_reached() {
    struct Refused;
    impl Connect for Refused {
        type Transport = TcpTransport;

        fn connect(&self, server: &ServerAddress, _: Duration) -> io::Result<TcpTransport> {
            Err(io::Error::other(format!("{} is not to be trusted", server.host)))
        }
    }
    let builder = Client::builder("somebody").connect_timeout(Duration::from_millis(100));
    let Err(ConnectError::Unreachable { last: Some((_, error)), .. }) =
        builder.connect_with(Refused)
    else {
        panic!("it is reached")
    };
    assert_eq!(error, "somebody is not to be trusted");
}
