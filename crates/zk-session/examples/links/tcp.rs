use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{JoinHandle, spawn};

use zk_session::event_loop::{Link, LinkState};
use zk_session::time::Instant;

/// A link over the sockets of the standard library.
#[derive(Default)]
pub struct TcpLink {
    pub servers: Vec<SocketAddr>,
    /// A thread, since the standard library blocks while it connects.
    attempt: Option<JoinHandle<Result<TcpStream, Error>>>,
    stream: Option<TcpStream>,
}

impl TcpLink {
    fn transfer(&mut self, run: impl FnOnce(&mut TcpStream) -> Result<usize, Error>) -> usize {
        match self.stream.as_mut().map(run) {
            Some(Ok(count @ 1..)) => return count,
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.stream = None,
        }
        0
    }
}

impl Link for TcpLink {
    fn connect(&mut self, server: usize) {
        let address = self.servers[server];
        self.attempt = Some(spawn(move || {
            let stream = TcpStream::connect(address)?;
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
        self.transfer(|stream| stream.write(bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> usize {
        self.transfer(|stream| stream.read(buffer))
    }

    fn poll(&mut self, _: Instant) {
        if let Some(attempt) = self.attempt.take_if(|attempt| attempt.is_finished()) {
            self.stream = attempt.join().ok().and_then(Result::ok);
        }
    }
}
