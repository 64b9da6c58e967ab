//! A driver for `embedded-io-async`, so for the stacks of embassy and RTIC.

use core::future::pending;
use core::pin::pin;

use bytes::{Buf as _, BytesMut};
use embassy_futures::select::{Either, Either3, select, select3};
use embedded_io_async::{Read, Write};
use zk_session::dispatch::Dispatcher;
use zk_session::event_loop::{Link, LinkState, Loop};
use zk_session::session::{Event, State};
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

    /// Returns both directions. Dropping a future of them must lose no bytes, and what is written must
    /// leave without a flush.
    fn split(&mut self) -> (impl Read, impl Write);
}

/// The link between a [`Loop`] and [`run`].
#[derive(Debug, Default)]
pub struct Pipe {
    state: LinkState,
    server: usize,
    received: BytesMut,
    unsent: BytesMut,
}

impl Link for Pipe {
    fn connect(&mut self, server: usize) {
        *self = Self { state: LinkState::Connecting, server, ..Self::default() };
    }

    fn hang_up(&mut self) {
        self.state = LinkState::Closing;
    }

    fn state(&self) -> LinkState {
        self.state
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let room = BUFFER.saturating_sub(self.unsent.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.unsent.extend_from_slice(taken);
        taken.len()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.received.len());
        self.received.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        count
    }
}

/// Drives a session until it has ended.
///
/// `wait` returns at a time, or earlier if the program signals that it has something to do. `work`
/// does that: it receives each event, and `None` before each turn. There, the program attaches
/// machines, submits requests and gives commands.
pub async fn run<T>(
    session: &mut Loop<T, Pipe>,
    network: &mut impl Network,
    now: impl Fn() -> Instant,
    wait: impl AsyncFn(Option<Instant>),
    mut work: impl FnMut(&mut Dispatcher<T>, Option<Event<T>>),
) {
    let mut turn = |session: &mut Loop<T, Pipe>| {
        work(&mut session.dispatcher, None);
        session.turn(now(), |dispatcher, event| work(dispatcher, Some(event)))
    };
    loop {
        let mut due = turn(session);
        match session.link.state {
            LinkState::Down => match session.dispatcher.session().state() {
                State::Ended(_) => return,
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
                let (mut reader, mut writer) = network.split();
                while session.link.state == LinkState::Up {
                    let Pipe { received, unsent, .. } = &session.link;
                    let mut chunk = [0; BUFFER];
                    let read = async {
                        match received[..] {
                            [] => reader.read(&mut chunk).await,
                            _ => pending().await,
                        }
                    };
                    let write = async {
                        match &unsent[..] {
                            [] => pending().await,
                            unsent => writer.write(unsent).await,
                        }
                    };
                    let done = select3(read, write, wait(due)).await;
                    let link = &mut session.link;
                    match done {
                        Either3::First(Ok(count @ 1..)) => {
                            link.received.extend_from_slice(chunk.get(..count).unwrap_or_default());
                        }
                        Either3::Second(Ok(count @ 1..)) => link.unsent.advance(count),
                        Either3::First(_) | Either3::Second(_) => link.state = LinkState::Down,
                        Either3::Third(()) => {}
                    }
                    due = turn(session);
                }
            }
        }
    }
}
