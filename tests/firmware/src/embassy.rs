//! A loop for embassy: one task that drives a session over a socket of `embassy-net`.

use core::future::pending;
use core::pin::pin;

use bytes::BytesMut;
use embassy_futures::select::{Either, Either3, select, select3};
use embassy_net::IpEndpoint;
use embassy_net::tcp::TcpSocket;
use embassy_time::{Instant as Clock, Timer};
use zk_recipes::session::dispatch::Dispatcher;
use zk_recipes::session::proto::frame::{Piece, Splitter};
use zk_recipes::session::session::{Action, Event, State};
use zk_recipes::session::time::Instant;

/// Returns the time. The time driver must count while the processor sleeps.
pub fn now() -> Instant {
    Instant::after_start(core::time::Duration::from_micros(Clock::now().as_micros()))
}

/// A session, and the program that uses it.
#[derive(Debug)]
pub struct Driver<T, S> {
    /// The session with its machines.
    pub dispatcher: Dispatcher<T>,
    /// Gets each event, and `None` before each wait. Here the program attaches machines, submits
    /// requests and gives commands.
    pub step: S,
    /// The limit of the session's configuration.
    pub max_reply: usize,
}

impl<T, S: FnMut(&mut Dispatcher<T>, Option<Event<T>>)> Driver<T, S> {
    /// Drives the session until it ends. The servers have the order of the session's indices.
    pub async fn run(&mut self, mut socket: TcpSocket<'_>, servers: &[IpEndpoint]) {
        let mut action = None;
        while !matches!(self.dispatcher.session().state(), State::Ended(_)) {
            action = match action.or_else(|| self.drain()) {
                Some(Action::Connect(server)) => {
                    socket.abort();
                    match servers.get(server) {
                        Some(server) => self.connection(&mut socket, *server).await,
                        None => None,
                    }
                }
                Some(Action::Disconnect | Action::Probe(_)) => None,
                None => {
                    self.due().await;
                    self.handle_timeout();
                    None
                }
            };
        }
    }

    /// Connects, and uses the connection until the session wants another action.
    async fn connection(
        &mut self,
        socket: &mut TcpSocket<'_>,
        server: IpEndpoint,
    ) -> Option<Action> {
        {
            let mut connect = pin!(socket.connect(server));
            loop {
                match select(&mut connect, self.due()).await {
                    Either::First(Ok(())) => break,
                    Either::First(Err(_)) => {
                        self.dispatcher.session_mut().handle_disconnected(now());
                        return None;
                    }
                    Either::Second(()) => self.handle_timeout(),
                }
                if let Some(action) = self.drain() {
                    return Some(action);
                }
            }
        }
        self.dispatcher.session_mut().handle_connected(now());
        let (mut received, mut frames) = (BytesMut::new(), Splitter::new(self.max_reply));
        let (mut reader, mut writer) = socket.split();
        loop {
            if let Some(action) = self.drain() {
                return Some(action);
            }
            let mut chunk = [0; 256];
            // The lease counts from before the bytes are handed over.
            let before = now();
            let write = async {
                match self.dispatcher.session().output() {
                    [] => pending().await,
                    output => writer.write(output).await,
                }
            };
            // Reading comes first: machines that settle wait for what has arrived.
            match select3(reader.read(&mut chunk), write, self.due()).await {
                Either3::First(Ok(count @ 1..)) => {
                    received.extend_from_slice(chunk.get(..count).unwrap_or_default());
                    self.dispatcher.session_mut().handle_received(now(), count);
                    self.handle_frames(&mut frames, &mut received);
                }
                Either3::Second(Ok(count)) => {
                    self.dispatcher.session_mut().handle_sent(before, count);
                }
                Either3::First(_) | Either3::Second(Err(_)) => {
                    self.dispatcher.session_mut().handle_disconnected(now());
                    return None;
                }
                Either3::Third(()) => self.handle_timeout(),
            }
        }
    }

    /// Delivers all events, and returns the next action.
    fn drain(&mut self) -> Option<Action> {
        loop {
            (self.step)(&mut self.dispatcher, None);
            let mut is_quiet = true;
            while let Some(event) = self.dispatcher.poll_event(now()) {
                is_quiet = false;
                (self.step)(&mut self.dispatcher, Some(event));
            }
            self.dispatcher.take_effects().run();
            let action = self.dispatcher.session_mut().poll_action();
            if action.is_some() || is_quiet {
                return action;
            }
        }
    }

    /// Waits for the next deadline, or not at all if a machine is to settle.
    async fn due(&self) {
        match self.dispatcher.poll_timeout() {
            _ if self.dispatcher.is_unsettled() => {}
            Some(due) => Timer::at(Clock::from_micros(due.since_start().as_micros() as u64)).await,
            None => pending().await,
        }
    }

    fn handle_timeout(&mut self) {
        if self.dispatcher.is_unsettled() {
            self.dispatcher.settle(now());
        }
        self.dispatcher.handle_timeout(now());
    }

    fn handle_frames(&mut self, frames: &mut Splitter, received: &mut BytesMut) {
        let session = self.dispatcher.session_mut();
        loop {
            match frames.split(received) {
                Ok(Some(Piece::Frame(payload))) => session.handle_frame(now(), payload),
                Ok(Some(Piece::TooLong { start, length })) => {
                    session.handle_oversized(now(), &start, length);
                }
                Ok(Some(Piece::Rest(bytes))) => session.handle_rest(now(), bytes),
                Ok(None) => return,
                Err(error) => return session.handle_bad_frame(now(), error),
            }
        }
    }
}
