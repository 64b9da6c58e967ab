//! The line: one connection at a time to one of the servers, by a modem on the UART.
//!
//! In each direction, bytes come in blocks. A block begins with its length, from 1 to 255. A length
//! of 0 begins a block of control of two more bytes: the number of the connection, and
//!
//! * to the modem, the server to connect to, or [`HANG_UP`];
//! * from the modem, 1 when that connection is up, 0 when it is down.

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

    /// Returns the next byte that has arrived. `None` if there is none, or if the
    /// [state](Self::state) has changed.
    pub fn receive(&mut self) -> Option<u8> {
        loop {
            let byte = board::receive()?;
            self.expected = match self.expected {
                Expected::Length if byte == 0 => Expected::Connection,
                Expected::Length => Expected::Data(byte),
                Expected::Data(left) => {
                    self.expected = match left {
                        1 => Expected::Length,
                        left => Expected::Data(left - 1),
                    };
                    // What is left of an earlier connection is dropped.
                    if self.state == State::Up {
                        return Some(byte);
                    }
                    continue;
                }
                Expected::Connection => Expected::Report(byte),
                Expected::Report(connection) => {
                    self.expected = Expected::Length;
                    if connection == self.connection && self.state != State::Down {
                        self.state = if byte == 1 { State::Up } else { State::Down };
                        return None;
                    }
                    continue;
                }
            };
        }
    }
}
