//! Methods that try: they wait for the servers' answer, and for nothing else.

use core::pin::Pin;

use tokio::time::timeout;
use zk_recipes::{
    LockError, Mutex, Owner, RecipeError, ReentrantMutex, RwLock, Semaphore, SemaphoreError,
};
use zk_session::{Client, End, State};
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;
use zk_testkit::suite::nothing_is_left;

use super::{HANG_TIMEOUT, SESSION_TIMEOUT, client, eventually, start};

/// The number of methods that try; each has its own lock here.
const TRIES: usize = 6;

type Trying = Pin<Box<dyn Future<Output = Result<(), RecipeError<SemaphoreError>>> + Send>>;

struct Locks {
    mutex: Mutex,
    read: RwLock,
    write: RwLock,
    one: Semaphore,
    many: Semaphore,
    reentrant: ReentrantMutex,
}

impl Locks {
    fn new(client: &Client) -> Self {
        Self::of([client; TRIES])
    }

    fn of(clients: [&Client; TRIES]) -> Self {
        let [a, b, c, d, e, f] = clients;
        let path = "a valid path";
        Self {
            mutex: Mutex::new(a, "/mutex").expect(path),
            read: RwLock::new(b, "/read").expect(path),
            write: RwLock::new(c, "/write").expect(path),
            one: Semaphore::new(d, "/one", 2).expect(path),
            many: Semaphore::new(e, "/many", 2).expect(path),
            reentrant: ReentrantMutex::new(f, "/reentrant").expect(path),
        }
    }

    /// Starts all tries. A lock that is acquired is released at once.
    fn try_all(&self) -> [(&'static str, Trying); TRIES] {
        fn done<G: Send>(
            trying: impl Future<Output = Result<G, impl Into<RecipeError<SemaphoreError>>>>
            + Send
            + 'static,
        ) -> Trying {
            Box::pin(async { trying.await.map(drop).map_err(Into::into) })
        }
        [
            ("try_acquire", done(self.mutex.try_acquire())),
            ("try_read", done(self.read.try_read())),
            ("try_write", done(self.write.try_write())),
            ("try_acquire", done(self.one.try_acquire())),
            ("try_acquire_many", done(self.many.try_acquire_many(2))),
            ("try_acquire_as", done(self.reentrant.try_acquire_as(Owner::unique()))),
        ]
    }

    /// Returns the number of attempts that may have nodes.
    fn pending_cleanups(&self) -> usize {
        self.mutex.pending_cleanups()
            + self.read.pending_cleanups()
            + self.write.pending_cleanups()
            + self.one.pending_cleanups()
            + self.many.pending_cleanups()
            + self.reentrant.pending_cleanups()
    }
}

async fn fail_without_a_connection(tries: [(&'static str, Trying); TRIES]) {
    for (operation, trying) in tries {
        let tried = timeout(HANG_TIMEOUT, trying).await;
        let error = tried.expect("the try does not wait").expect_err("no server answered");
        assert_eq!((error.operation, error.reason), (operation, LockError::NoConnection.into()));
    }
}

async fn succeed(embedded: &Embedded, locks: &Locks) {
    for (operation, trying) in locks.try_all() {
        let tried = timeout(HANG_TIMEOUT, trying).await.expect("the try does not wait");
        assert_eq!(tried, Ok(()), "{operation}");
    }
    eventually(embedded, "all are released", |_| locks.pending_cleanups() == 0).await;
    nothing_is_left(embedded).await;
}

async fn becomes(client: &Client, is_awaited: impl FnMut(&State) -> bool) {
    let mut states = client.states();
    let state = timeout(HANG_TIMEOUT, states.wait_for(is_awaited)).await;
    state.expect("in time").expect("the driver runs");
}

const fn is_connected(state: &State) -> bool {
    matches!(state, State::Connected { .. })
}

#[tokio::test]
async fn without_a_connection_every_try_fails_at_once() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let locks = Locks::new(&client);
    succeed(&embedded, &locks).await;
    // Their release is not confirmed while the connection is lost.
    let released = locks.reentrant.acquire_as(Owner::unique()).await.expect("free");
    embedded.kill(0);
    becomes(&client, |state| *state == State::Suspended).await;
    drop(released);

    fail_without_a_connection(locks.try_all()).await;
    eventually(&embedded, "nothing was requested", |_| locks.pending_cleanups() == 1).await;
    embedded.restart(0).await.expect("the port is still free");
    nothing_is_left(&embedded).await;
    becomes(&client, is_connected).await;
    succeed(&embedded, &locks).await;

    client.close().await;
    for (_, trying) in locks.try_all() {
        let error = trying.await.expect_err("the session has ended");
        assert_eq!(error.reason, LockError::Ended(End::Closed).into());
    }
}

#[tokio::test]
async fn an_unnoticed_loss_of_the_connection_ends_every_try() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let locks = Locks::new(&client);
    embedded.kill(0);
    fail_without_a_connection(locks.try_all()).await;
    embedded.restart(0).await.expect("the port is still free");
    nothing_is_left(&embedded).await;
    becomes(&client, is_connected).await;
    succeed(&embedded, &locks).await;
}

#[tokio::test]
async fn a_try_that_loses_the_quorum_leaves_no_node_behind() {
    let embedded = Embedded::start(3).await.expect("loopback");
    let leader = embedded.with(|ensemble| ensemble.leader()).expect("one exists");
    let follower = (leader + 1) % 3;
    let at = embedded.address(follower).to_string();
    let builder = Client::builder(&at).session_timeout(SESSION_TIMEOUT);
    let mut clients = Vec::new();
    for _ in 0..TRIES {
        clients.push(builder.clone().connect().await.expect("connected"));
    }
    let locks = Locks::of(core::array::from_fn(|place| &clients[place]));
    // This creates the parents, too.
    succeed(&embedded, &locks).await;

    // Nodes are created, but no reply arrives. Another session waits for each of them.
    embedded.command(|ensemble, _| ensemble.hold(follower));
    let tries = locks.try_all().map(|(operation, trying)| (operation, tokio::spawn(trying)));
    eventually(&embedded, "every try has a node", |embedded| {
        let nodes =
            embedded.with(|ensemble| ensemble.paths().filter(|path| path.contains("/_c_")).count());
        nodes == TRIES
    })
    .await;
    assert!(tries.iter().all(|(_, trying)| !trying.is_finished()));
    embedded.kill(leader);
    embedded.kill((leader + 2) % 3);
    let tries = tries.map(|(operation, trying)| {
        let trying: Trying = Box::pin(async { trying.await.expect("no panic") });
        (operation, trying)
    });
    fail_without_a_connection(tries).await;
    assert_eq!(locks.pending_cleanups(), TRIES);

    embedded.command(|ensemble, now| ensemble.release(now, follower));
    embedded.restart(leader).await.expect("the port is still free");
    nothing_is_left(&embedded).await;
    eventually(&embedded, "all nodes are deleted", |_| locks.pending_cleanups() == 0).await;
}

#[tokio::test]
async fn a_read_only_server_is_no_connection_for_a_try() {
    let config = Config { read_only_mode: true, local_sessions: true, ..Config::servers(3) };
    let embedded = Embedded::with_config(config).await.expect("loopback");
    embedded.kill(0);
    embedded.kill(1);
    let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
    let client = builder.read_only(true).connect().await.expect("connected");
    assert!(matches!(client.state(), State::ReadOnly { .. }));
    let locks = Locks::new(&client);
    fail_without_a_connection(locks.try_all()).await;
    embedded.restart(0).await.expect("the port is still free");
    nothing_is_left(&embedded).await;
    becomes(&client, is_connected).await;
    succeed(&embedded, &locks).await;
}
