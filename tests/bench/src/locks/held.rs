//! Many locks held by one session: `bench held`.

use core::time::Duration;
use std::io;
use std::thread;

use clap::Args;
use cpu_time::ThreadTime;
use tokio::runtime::{self, Runtime};
use zk_recipes::{Guard, Holding, Mutex};
use zk_session::{Client, State};
use zk_testkit::serve::Embedded;
use zk_testkit::suite::begun;

/// The number of concurrent acquisitions, below the request limit of a session.
const AT_ONCE: usize = 250;
/// The time after which a held lock watches its node.
const REST: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of locks.
    #[arg(long, default_value_t = 10_000)]
    locks: usize,
}

/// The in-memory server on its own thread, excluded from the time and memory measured.
struct Server {
    runtime: runtime::Handle,
    embedded: Embedded,
}

impl Server {
    fn start() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let embedded = runtime.block_on(Embedded::start(1))?;
        let server = Self { runtime: runtime.handle().clone(), embedded };
        thread::spawn(move || runtime.block_on(core::future::pending::<()>()));
        Ok(server)
    }

    fn kill(&self) {
        self.embedded.kill(0);
    }

    fn restart(&self) -> io::Result<()> {
        self.runtime.block_on(self.embedded.restart(0))
    }
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let locks = arguments.locks;
    let server = Server::start()?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let at = server.embedded.connect_string();
    let client = runtime.block_on(Client::connect(&at)).map_err(io::Error::other)?;
    // Memory that a client needs once.
    drop(runtime.block_on(acquire(&client, "warm-up", AT_ONCE))?);
    runtime.block_on(tokio::time::sleep(REST));

    let mut guards = Ok(Vec::new());
    let began = ThreadTime::now();
    let allocations = allocation_counter::measure(|| {
        guards = runtime.block_on(acquire(&client, "held", locks));
        runtime.block_on(tokio::time::sleep(REST));
    });
    let guards = guards?;
    println!("acquired    {:>9.1} ms of processor time", millis(began.elapsed()));
    let guard = size_of::<Guard>();
    let heap = allocations.bytes_current as usize - guards.capacity() * guard;
    println!("heap        {:>9} bytes for each lock, and {guard} for its guard", heap / locks);

    let is_suspended = |state: &State| matches!(state, State::Suspended);
    let suspended = cost(&runtime, || server.kill(), until(&client, is_suspended));
    println!("suspended   {:>9.1} ms of processor time", millis(suspended));
    server.restart()?;
    let is_connected = |state: &State| matches!(state, State::Connected { .. });
    let connected = cost(&runtime, || {}, until(&client, is_connected));
    println!("connected   {:>9.1} ms of processor time", millis(connected));
    let resumed = cost(&runtime, || {}, async {
        while guards.iter().any(|guard| guard.state() != Holding::Held) {
            tokio::time::sleep(REST).await;
        }
    });
    println!("resumed     {:>9.1} ms of processor time behind that", millis(resumed));
    let dropped = cost(&runtime, || drop_all(guards), async {});
    println!("dropped     {:>9.1} ms of processor time", millis(dropped));
    let released = cost(&runtime, || {}, tokio::time::sleep(REST));
    println!("released    {:>9.1} ms of processor time behind that", millis(released));
    Ok(())
}

/// Kept separate for profilers.
#[inline(never)]
fn drop_all(guards: Vec<Guard>) {
    drop(guards);
}

async fn acquire(client: &Client, name: &str, locks: usize) -> io::Result<Vec<Guard>> {
    let mut guards = Vec::with_capacity(locks);
    for first in (0..locks).step_by(AT_ONCE) {
        let mut acquiring = Vec::with_capacity(AT_ONCE);
        for number in first..locks.min(first + AT_ONCE) {
            let path = format!("/bench/{name}-{number:05}");
            let mutex = Mutex::new(client, &path).map_err(io::Error::other)?;
            acquiring.push(begun(mutex.acquire()));
        }
        for acquired in acquiring {
            guards.push(acquired.await.map_err(io::Error::other)?);
        }
    }
    Ok(guards)
}

async fn until(client: &Client, is_so: impl FnMut(&State) -> bool) {
    // Fails if the client has ended; later requests then fail, too.
    let _ = client.states().wait_for(is_so).await;
}

/// Returns the CPU time of this thread from `begin` until `finished` returns.
fn cost(runtime: &Runtime, begin: impl FnOnce(), finished: impl Future) -> Duration {
    let began = ThreadTime::now();
    begin();
    runtime.block_on(finished);
    began.elapsed()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
