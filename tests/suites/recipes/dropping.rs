//! Drops every future of every recipe at every point: no node and no watch may remain.
//!
//! A round is one poll of the future and one turn of the runtime, which also runs the servers. Each
//! future is dropped after no round, after one, and so on, until it completes. Other contenders act
//! (for example, release the lock) in a round of their own. Before that round, only their nodes may
//! remain after a drop.

mod composed;
mod locks;

use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;

use tokio::task::yield_now;
use tokio::time::Instant;
use zk_recipes::{Mutex, Options, RwLock};
use zk_session::Client;
use zk_testkit::serve::Embedded;

use super::{client, ephemerals, eventually, nothing_is_left, watches};

const PATH: &str = "/locks/dropped";
/// The round in which the other contenders act. Every attempt that must wait is waiting by then.
const ACTION_ROUND: usize = 30;
/// More rounds than any future takes.
const MAX_ROUNDS: usize = 500;

/// A future without borrowed data.
type Attempt = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The nodes of the other contenders, and what these do in the end.
struct Others {
    nodes: usize,
    act: Box<dyn FnOnce() + Send>,
}

impl Others {
    fn idle() -> Self {
        Self { nodes: 0, act: Box::new(|| {}) }
    }

    /// Others that hold a lock until they act.
    fn hold(guard: impl Send + 'static) -> Self {
        Self { nodes: 1, act: Box::new(move || drop(guard)) }
    }

    fn run(nodes: usize, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { nodes, act: Box::new(move || drop(tokio::spawn(task))) }
    }
}

fn attempt<T>(future: impl Future<Output = T> + Send + 'static) -> Attempt {
    Box::pin(async { drop(future.await) })
}

/// Returns an attempt that must succeed.
fn success<T, E: core::fmt::Debug>(
    future: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Attempt {
    Box::pin(async { drop(future.await.expect("success")) })
}

/// How our server follows its leader.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// At once.
    Free,
    /// By one transaction per round, so that drops happen between any two transactions.
    Stepped,
}

/// Drops the future that `make` returns after each number of rounds.
async fn dropped_anywhere(what: &str, make: impl AsyncFn(&Client, &Client) -> (Attempt, Others)) {
    for pace in [Pace::Free, Pace::Stepped] {
        let fixture = Fixture::new(pace).await;
        let complete = fixture.drop_after_each_round(what, &make).await;
        println!("{what}, {pace:?}: dropped after each of 0 to {complete} rounds");
    }
}

struct Fixture {
    embedded: Embedded,
    ours: Client,
    other: Client,
    pace: Pace,
}

/// A follower: the last server leads.
const OUR_SERVER: usize = 0;

impl Fixture {
    async fn new(pace: Pace) -> Self {
        let embedded = Embedded::start(3).await.expect("loopback");
        assert_ne!(embedded.with(|ensemble| ensemble.leader()), Some(OUR_SERVER));
        let at = embedded.address(OUR_SERVER).to_string();
        let ours = Client::builder(&at).session_timeout(super::SESSION_TIMEOUT).connect().await;
        let (ours, other) = (ours.expect("connected"), client(&embedded).await);
        Self { embedded, ours, other, pace }
    }

    /// Returns the number of rounds until completion.
    async fn drop_after_each_round(
        &self,
        what: &str,
        make: impl AsyncFn(&Client, &Client) -> (Attempt, Others),
    ) -> usize {
        for rounds in 0..MAX_ROUNDS {
            let (mut attempt, others) = make(&self.ours, &self.other).await;
            let mut others = Some(others);
            if matches!(self.pace, Pace::Stepped) {
                self.embedded.command(|ensemble, _| ensemble.hold(OUR_SERVER));
            }
            let complete = self.drive(&mut attempt, &mut others, rounds).await;
            drop(attempt);
            self.embedded.command(|ensemble, now| ensemble.release(now, OUR_SERVER));
            if let Some(others) = others {
                let what = format!("no node of {what} after {rounds} rounds");
                let theirs = |embedded: &Embedded| {
                    ephemerals(embedded).len() == others.nodes && watches(embedded) <= others.nodes
                };
                eventually(&self.embedded, &what, theirs).await;
            }
            nothing_is_left(&self.embedded).await;
            if complete {
                return rounds;
            }
        }
        panic!("{what} is not complete after {MAX_ROUNDS} rounds");
    }

    async fn drive(
        &self,
        attempt: &mut Attempt,
        others: &mut Option<Others>,
        rounds: usize,
    ) -> bool {
        for round in 0..rounds {
            if poll_fn(|cx| Poll::Ready(attempt.as_mut().poll(cx).is_ready())).await {
                return true;
            }
            yield_now().await;
            if matches!(self.pace, Pace::Stepped) {
                self.embedded.command(|ensemble, now| ensemble.step(now, OUR_SERVER));
            }
            if round == ACTION_ROUND
                && let Some(others) = others.take()
            {
                (others.act)();
            }
        }
        false
    }
}

/// Returns a deadline that no attempt here reaches.
fn later() -> Instant {
    Instant::now() + super::SESSION_TIMEOUT
}

fn mutex(client: &Client) -> Mutex {
    Mutex::with(client, PATH, Options::new().revocable()).expect("a valid path")
}

fn rw_lock(client: &Client) -> RwLock {
    RwLock::new(client, PATH).expect("a valid path")
}
