//! A driver for `embedded-io-async`, so for the stacks of embassy and RTIC.

use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use bytes::{Buf as _, BytesMut};
use embassy_futures::select::{Either, select};
use embedded_io_async::{Read, Write};
use zk_session::dispatch::Dispatcher;
use zk_session::event_loop::{ConfigError, Link, LinkState, Loop};
use zk_session::session::{Config, Event, State};
use zk_session::time::Instant;

/// The most bytes that wait in each direction.
const BUFFER: usize = 256;

/// A network with one connection at a time.
#[allow(async_fn_in_trait, reason = "one task drives a session")]
pub trait Network {
    /// Connects to a server, by its index. Returns whether it is connected.
    async fn connect(&mut self, server: usize) -> bool;

    /// Ends the connection, and waits until its reset has left.
    async fn hang_up(&mut self);

    /// Returns both directions. What is written must leave without a flush.
    fn split(&mut self) -> (impl Read, impl Write);
}

/// The bytes between the loop and the network.
#[derive(Default)]
struct Buffers {
    received: RefCell<BytesMut>,
    unsent: RefCell<BytesMut>,
}

impl Buffers {
    /// Reads until the connection ends. Waits until the loop has taken what came before.
    async fn read(&self, mut reader: impl Read) {
        let mut chunk = [0; BUFFER];
        while let Ok(count @ 1..) = reader.read(&mut chunk).await {
            self.received.borrow_mut().extend_from_slice(chunk.get(..count).unwrap_or_default());
            until(|| self.received.borrow().is_empty()).await;
        }
    }

    /// Writes until the connection ends.
    async fn write(&self, mut writer: impl Write) {
        loop {
            until(|| !self.unsent.borrow().is_empty()).await;
            let unsent = self.unsent.take();
            if writer.write_all(&unsent).await.is_err() {
                return;
            }
        }
    }
}

/// Waits for a condition, for a future that is polled whenever it may have come.
async fn until(condition: impl Fn() -> bool) {
    poll_fn(|_| if condition() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// The link between a [`Loop`] and [`run`].
struct Pipe<'a> {
    state: LinkState,
    server: usize,
    buffers: &'a Buffers,
}

impl Link for Pipe<'_> {
    fn connect(&mut self, server: usize) {
        (self.state, self.server) = (LinkState::Connecting, server);
        self.buffers.received.take();
        self.buffers.unsent.take();
    }

    fn hang_up(&mut self) {
        self.state = LinkState::Closing;
    }

    fn state(&self) -> LinkState {
        self.state
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let mut unsent = self.buffers.unsent.borrow_mut();
        let room = BUFFER.saturating_sub(unsent.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        unsent.extend_from_slice(taken);
        taken.len()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let mut received = self.buffers.received.borrow_mut();
        let count = buffer.len().min(received.len());
        received.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        count
    }
}

/// Drives a session until it has ended.
///
/// `wait` returns at a time, or earlier if the program signals that it has something to do. `work`
/// does that: it receives each event, and `None` before each turn. There, the program attaches
/// machines, submits requests and gives commands.
///
/// # Errors
///
/// If no session could work with these settings.
pub async fn run<T>(
    config: Config,
    network: &mut impl Network,
    now: impl Fn() -> Instant,
    wait: impl AsyncFn(Option<Instant>),
    mut work: impl FnMut(&mut Dispatcher<T>, Option<Event<T>>),
) -> Result<(), ConfigError> {
    let buffers = Buffers::default();
    let link = Pipe { state: LinkState::Down, server: 0, buffers: &buffers };
    let session = &mut Loop::new(now(), config, link)?;
    let mut turn = |session: &mut Loop<T, Pipe<'_>>| {
        work(&mut session.dispatcher, None);
        session.turn(now(), |dispatcher, event| work(dispatcher, Some(event)))
    };
    loop {
        let mut due = turn(session);
        match session.link.state {
            LinkState::Down => match session.dispatcher.session().state() {
                State::Ended(_) => return Ok(()),
                _ => wait(due).await,
            },
            state @ (LinkState::Connecting | LinkState::Closing) => {
                let server = session.link.server;
                let mut change = pin!(async {
                    if state == LinkState::Connecting {
                        return network.connect(server).await;
                    }
                    network.hang_up().await;
                    false
                });
                while session.link.state == state {
                    match select(&mut change, wait(due)).await {
                        Either::First(true) => session.link.state = LinkState::Up,
                        Either::First(false) => session.link.state = LinkState::Down,
                        Either::Second(()) => due = turn(session),
                    }
                }
            }
            LinkState::Up => {
                let (reader, writer) = network.split();
                // Never dropped while the connection lasts: that may lose bytes, with TLS for example.
                let mut reading = pin!(buffers.read(reader));
                let mut writing = pin!(buffers.write(writer));
                while session.link.state == LinkState::Up {
                    let mut waiting = pin!(wait(due));
                    let is_lost = poll_fn(|cx| {
                        if reading.as_mut().poll(cx).is_ready()
                            || writing.as_mut().poll(cx).is_ready()
                        {
                            return Poll::Ready(true);
                        }
                        if !buffers.received.borrow().is_empty() {
                            return Poll::Ready(false);
                        }
                        waiting.as_mut().poll(cx).map(|()| false)
                    });
                    if is_lost.await {
                        session.link.state = LinkState::Down;
                    }
                    due = turn(session);
                }
            }
        }
    }
}
