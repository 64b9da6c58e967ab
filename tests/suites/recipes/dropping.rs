//! Every future of every recipe, dropped at every point: neither a node nor a watch is left.
//!
//! A round is one poll of the future and one turn of the runtime, on which everything else runs,
//! the servers included. Each future is dropped after no round, after one, and so on, until it is
//! complete. What others do, such as letting go of the lock that is waited for, they do in a round
//! of their own; before that round, what the future had is gone while they still have theirs.

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
/// The round in which others do what they are to do: what has to wait waits by then.
const PATIENCE: usize = 30;
/// No future takes so long.
const TOO_LONG: usize = 500;

/// A future, with all that it needs.
type Attempt = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What others have meanwhile, and what they are to do in the end.
struct Others {
    nodes: usize,
    act: Box<dyn FnOnce() + Send>,
}

impl Others {
    fn idle() -> Self {
        Self { nodes: 0, act: Box::new(|| {}) }
    }

    /// They hold a lock until they act.
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

/// What must succeed.
fn success<T, E: core::fmt::Debug>(
    future: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Attempt {
    Box::pin(async { drop(future.await.expect("it works")) })
}

/// How the member that we are connected to follows its leader.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// At once.
    Free,
    /// By one transaction in each round, so that what a transaction does is dropped before the next.
    Stepped,
}

/// Drops what `make` makes, after each number of rounds.
async fn dropped_anywhere(what: &str, make: impl AsyncFn(&Client, &Client) -> (Attempt, Others)) {
    for pace in [Pace::Free, Pace::Stepped] {
        let stage = Stage::new(pace).await;
        let complete = stage.drop_after_each_round(what, &make).await;
        println!("{what}, {pace:?}: dropped after each of 0 to {complete} rounds");
    }
}

struct Stage {
    embedded: Embedded,
    ours: Client,
    other: Client,
    pace: Pace,
}

/// A follower: the last member leads.
const OUR_MEMBER: usize = 0;

impl Stage {
    async fn new(pace: Pace) -> Self {
        let embedded = Embedded::start(3).await.expect("loopback");
        assert_ne!(embedded.with(|ensemble| ensemble.leader()), Some(OUR_MEMBER));
        let at = embedded.address(OUR_MEMBER).to_string();
        let ours = Client::builder(&at).session_timeout(super::SESSION_TIMEOUT).connect().await;
        let (ours, other) = (ours.expect("it answers"), client(&embedded).await);
        Self { embedded, ours, other, pace }
    }

    /// How many rounds it took to complete.
    async fn drop_after_each_round(
        &self,
        what: &str,
        make: impl AsyncFn(&Client, &Client) -> (Attempt, Others),
    ) -> usize {
        for rounds in 0..TOO_LONG {
            let (mut attempt, others) = make(&self.ours, &self.other).await;
            let mut others = Some(others);
            if matches!(self.pace, Pace::Stepped) {
                self.embedded.command(|ensemble, _| ensemble.hold(OUR_MEMBER));
            }
            let complete = self.drive(&mut attempt, &mut others, rounds).await;
            drop(attempt);
            self.embedded.command(|ensemble, now| ensemble.release(now, OUR_MEMBER));
            if let Some(others) = others {
                let what = format!("nothing of {what} after {rounds} rounds");
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
        panic!("{what} is not complete after {TOO_LONG} rounds");
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
                self.embedded.command(|ensemble, now| ensemble.step(now, OUR_MEMBER));
            }
            if round == PATIENCE
                && let Some(others) = others.take()
            {
                (others.act)();
            }
        }
        false
    }
}

/// Late enough for whoever waits for anything here.
fn later() -> Instant {
    Instant::now() + super::SESSION_TIMEOUT
}

fn mutex(client: &Client) -> Mutex {
    Mutex::with(client, PATH, Options::new().revocable()).expect("a valid path")
}

fn rw_lock(client: &Client) -> RwLock {
    RwLock::new(client, PATH).expect("a valid path")
}
