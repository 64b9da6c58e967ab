//! The line: one connection at a time to one of the servers, by a modem on the UART.
//!
//! In each direction, bytes come in blocks. A block begins with its length, from 1 to 255. A length
//! of 0 begins a block of control of two more bytes: the number of the connection, and
//!
//! * to the modem, the server to connect to, or [`HANG_UP`];
//! * from the modem, 1 when that connection is up, 0 when it is down.

#[cfg(feature = "lock")]
use zk_session::{
    event_loop::{Link, LinkState},
    time::Instant,
};

use crate::board;

/// Ends the connection.
pub const HANG_UP: u8 = 0xff;

/// The state of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There is none.
    #[default]
    Down,
    /// The modem connects.
    Connecting,
    /// Bytes can be sent and received.
    Up,
}

/// What comes next from the modem.
#[derive(Debug, Default)]
enum Expected {
    #[default]
    Length,
    Data(u8),
    Connection,
    Report(u8),
}

impl Expected {
    /// Returns what follows a byte of a block with so many left.
    fn after(left: u8) -> Self {
        match left {
            1 => Self::Length,
            left => Self::Data(left - 1),
        }
    }
}

/// The line to the servers.
#[derive(Debug, Default)]
pub struct Line {
    connection: u8,
    state: State,
    expected: Expected,
}

impl Line {
    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Begins to connect to a server.
    pub fn connect(&mut self, server: u8) {
        self.connection = self.connection.wrapping_add(1);
        self.state = State::Connecting;
        self.control(server);
    }

    /// Ends the connection.
    pub fn hang_up(&mut self) {
        self.state = State::Down;
        self.control(HANG_UP);
    }

    fn control(&self, what: u8) {
        while !board::can_send() {}
        for byte in [0, self.connection, what] {
            board::send(byte);
        }
    }

    /// Sends as many bytes as the UART takes at once. Returns how many.
    pub fn send(&mut self, bytes: &[u8]) -> usize {
        let block = bytes.get(..board::FIFO - 1).unwrap_or(bytes);
        if self.state != State::Up || block.is_empty() || !board::can_send() {
            return 0;
        }
        board::send(block.len() as u8);
        block.iter().for_each(|byte| board::send(*byte));
        block.len()
    }

    /// Takes what has arrived, up to the next byte of the connection.
    pub fn poll(&mut self) {
        while !self.has_data()
            && let Some(byte) = board::receive()
        {
            self.expected = match self.expected {
                Expected::Length if byte == 0 => Expected::Connection,
                Expected::Length => Expected::Data(byte),
                // What is left of an earlier connection is dropped.
                Expected::Data(left) => Expected::after(left),
                Expected::Connection => Expected::Report(byte),
                Expected::Report(connection) => {
                    if connection == self.connection && self.state != State::Down {
                        self.state = if byte == 1 { State::Up } else { State::Down };
                    }
                    Expected::Length
                }
            };
        }
    }

    /// Returns whether the next byte is one of the connection.
    fn has_data(&self) -> bool {
        self.state == State::Up && matches!(self.expected, Expected::Data(_))
    }

    /// Returns the next byte that has arrived.
    pub fn receive(&mut self) -> Option<u8> {
        self.poll();
        match self.expected {
            Expected::Data(left) if self.has_data() => {
                let byte = board::receive()?;
                self.expected = Expected::after(left);
                Some(byte)
            }
            _ => None,
        }
    }
}

#[cfg(feature = "lock")]
impl Link for Line {
    fn connect(&mut self, server: usize) {
        Self::connect(self, server as u8);
    }

    fn hang_up(&mut self) {
        Self::hang_up(self);
    }

    fn state(&self) -> LinkState {
        match self.state {
            State::Down => LinkState::Down,
            State::Connecting => LinkState::Connecting,
            State::Up => LinkState::Up,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        Self::send(self, bytes)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let mut count = 0;
        while let Some(place) = buffer.get_mut(count)
            && let Some(byte) = Self::receive(self)
        {
            *place = byte;
            count += 1;
        }
        count
    }

    fn poll(&mut self, _: Instant) {
        Self::poll(self);
    }
}
