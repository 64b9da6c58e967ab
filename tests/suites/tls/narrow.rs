//! TLS over transports that have little room.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use zk_session::blocking::{TcpTransport, Transport};
use zk_session::{Connect, ServerAddress, TcpConnect};

use super::*;

/// The maximum number of bytes per read or write, or on their way.
const ROOM: usize = 16;

struct NarrowConnect;

impl Connect for NarrowConnect {
    type Transport = DuplexStream;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> {
        let connecting = TcpConnect::default().connect(server);
        Box::pin(async move {
            let mut tcp = connecting.await?;
            let (near, mut far) = duplex(ROOM);
            tokio::spawn(async move { copy_bidirectional(&mut far, &mut tcp).await });
            Ok(near)
        })
    }
}

impl blocking::Connect for NarrowConnect {
    type Transport = Narrow;

    fn connect(&self, server: &ServerAddress, timeout: Duration) -> io::Result<Narrow> {
        let tcp = blocking::TcpConnect::default().connect(server, timeout)?;
        Ok(Narrow { tcp, has_room: AtomicBool::new(false) })
    }
}

/// Has room for every other write.
struct Narrow {
    tcp: TcpTransport,
    has_room: AtomicBool,
}

impl Transport for Narrow {
    fn read(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let room = buffer.len().min(ROOM);
        self.tcp.read(&mut buffer[..room], timeout)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.has_room.fetch_xor(true, Ordering::Relaxed) {
            true => self.tcp.write(&bytes[..bytes.len().min(ROOM)]),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn shutdown(&self) {
        self.tcp.shutdown();
    }
}

/// In one thread, a task that does not yield while there is no room waits for ever.
#[tokio::test]
async fn both_clients_work_over_a_transport_that_has_little_room() {
    for version in [&TLS12, &TLS13] {
        let ensemble = Ensemble::start(|authority| {
            vec![server_config(&authority.issue(&["127.0.0.1"]), None, &[version])]
        });
        let ensemble = ensemble.await;
        let at = ensemble.connect_string();
        let builder = Client::builder(&at).session_timeout(SESSION_TIMEOUT).tls(ensemble.tls());
        let client = builder.connect_with(NarrowConnect).await.expect("it answers");
        client.create("/a", &[7; 1000], NodeKind::Persistent).await.expect("it is new");
        assert_eq!(client.get_data("/a").await.expect("it is there").0, [7; 1000][..]);
        client.close().await;

        let builder = blocking::Client::builder(&at).session_timeout(SESSION_TIMEOUT);
        let builder = builder.tls(ensemble.tls());
        let works = move || {
            let client = builder.connect_with(NarrowConnect).expect("it answers");
            client.set_data("/a", &[8; 1000], None).wait().expect("it is there");
            assert_eq!(client.get_data("/a").wait().expect("it is there").0, [8; 1000][..]);
            client.close();
        };
        spawn_blocking(works).await.expect("it works");
    }
}
