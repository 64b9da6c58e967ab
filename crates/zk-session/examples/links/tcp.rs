use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{JoinHandle, spawn};

use zk_session::event_loop::{Link, LinkState};
use zk_session::time::Instant;

/// A link over the sockets of the standard library, which connects in a thread: that blocks.
#[derive(Default)]
pub(crate) struct TcpLink {
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) stream: Option<TcpStream>,
    pub(crate) attempt: Option<JoinHandle<Result<TcpStream, Error>>>,
}

impl Link for TcpLink {
    fn connect(&mut self, server: usize) {
        let server = self.servers[server];
        self.attempt = Some(spawn(move || {
            let stream = TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        }));
    }

    fn hang_up(&mut self) {
        (self.attempt, self.stream) = (None, None);
    }

    fn state(&self) -> LinkState {
        match (&self.attempt, &self.stream) {
            (Some(_), _) => LinkState::Connecting,
            (None, Some(_)) => LinkState::Up,
            (None, None) => LinkState::Down,
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
        if let Some(attempt) = self.attempt.take_if(|attempt| attempt.is_finished()) {
            self.stream = attempt.join().ok().and_then(Result::ok);
        }
    }
}

impl TcpLink {
    fn count(&mut self, transferred: Option<Result<usize, Error>>) -> usize {
        match transferred {
            Some(Ok(count @ 1..)) => return count,
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.stream = None,
        }
        0
    }
}
