use std::io::{Error, ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::{Interest, Registry, Token, net::TcpStream};
use zk_session::event_loop::{Link, LinkState};
use zk_session::time::Instant;

/// A link over mio. Take a turn for each event of its token.
pub(crate) struct MioLink {
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) registry: Registry,
    pub(crate) token: Token,
    pub(crate) stream: Option<TcpStream>,
}

impl Link for MioLink {
    fn connect(&mut self, server: usize) {
        let both = Interest::READABLE | Interest::WRITABLE;
        let stream = TcpStream::connect(self.servers[server]).and_then(|mut stream| {
            self.registry.register(&mut stream, self.token, both)?;
            Ok(stream)
        });
        self.stream = stream.ok();
    }

    fn hang_up(&mut self) {
        self.stream = None;
    }

    fn state(&self) -> LinkState {
        match self.stream.as_ref().map(TcpStream::peer_addr) {
            Some(Ok(_)) => LinkState::Up,
            Some(Err(_)) => LinkState::Connecting,
            None => LinkState::Down,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let sent = self.stream.as_mut().map(|stream| stream.write(bytes));
        self.count(sent)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let received = self.stream.as_mut().map(|stream| stream.read(buffer));
        self.count(received)
    }

    fn poll(&mut self, _: Instant) {
        self.stream.take_if(|stream| !matches!(stream.take_error(), Ok(None)));
    }
}

impl MioLink {
    fn count(&mut self, transferred: Option<Result<usize, Error>>) -> usize {
        match transferred {
            Some(Ok(count @ 1..)) => return count,
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.stream = None,
        }
        0
    }
}
