//! Clients that follow the configuration of an ensemble whose servers are replaced one by one.

use std::time::{Duration, Instant};

use zk_recipes::{Holding, Mutex};
use zk_session::proto::ReconfigRequest;
use zk_session::{Client, ServerAddress, State, blocking};
use zk_testkit::real::{RealEnsemble, Settings, ensemble_with_or_skip};
use zk_testkit::suite::{HANG_TIMEOUT, is_long, until};

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Joins a new server, and removes an old one, which is killed.
async fn replace(ensemble: &mut RealEnsemble, admin: &Client, old: usize) {
    let (new, line) = ensemble.start_another().expect("it serves");
    let leaving = (old + 1).to_string();
    for (joining, leaving) in [(Some(line.trim()), None), (None, Some(&*leaving))] {
        let change = ReconfigRequest {
            joining_servers: joining,
            leaving_servers: leaving,
            new_members: None,
            cur_config_id: -1,
        };
        let end = Instant::now() + HANG_TIMEOUT;
        // The new server may not be in sync yet, and a leader that leaves ends the connection.
        while let Err(error) = admin.reconfig(&change).await {
            println!("{change:?}: {error}");
            assert!(Instant::now() < end, "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    println!("server {new} has replaced server {old}");
    ensemble.kill(old).expect("it runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_locks_outlive_all_servers_of_their_connection_string() {
    let servers = if is_long() { 3 } else { 1 };
    let settings = Settings { servers, is_dynamic: true, ..Settings::default() };
    let Some(mut ensemble) = ensemble_with_or_skip(settings) else { return };
    let at = ensemble.connect_string();
    let builder = Client::builder(&at).session_timeout(SESSION_TIMEOUT);
    let stays = builder.clone().connect().await.expect("connected");
    let follows = builder.clone().follow_config(true).connect().await.expect("connected");
    let admin = builder.follow_config(true).connect().await.expect("connected");
    let blocking = blocking::Client::builder(&at).session_timeout(SESSION_TIMEOUT);
    let blocking = blocking.follow_config(true);
    let blocking = tokio::task::spawn_blocking(move || blocking.connect().expect("connected"));
    let blocking = blocking.await.expect("no panic");
    let lock = Mutex::new(&follows, "/lock").expect("valid");
    let guard = lock.acquire().await.expect("free");
    let sessions = (follows.session_id(), blocking.session_id());

    for old in 0..servers {
        replace(&mut ensemble, &admin, old).await;
    }
    let mut new: Vec<_> = (servers..2 * servers).map(|new| ensemble.address(new)).collect();
    new.sort_unstable();
    let names = |servers: &[ServerAddress]| {
        let mut names: Vec<_> = servers.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    };
    let is_connected = |state| matches!(state, State::Connected { .. });
    until("both clients use the new servers alone", || {
        is_connected(follows.state())
            && is_connected(blocking.state())
            && names(&follows.servers()) == new
            && names(&blocking.servers()) == new
            && guard.state() == Holding::Held
    })
    .await;
    assert_eq!((follows.session_id(), blocking.session_id()), sessions);
    follows.sync("/").await.expect("served");

    // The client that does not follow says why it is suspended, and does not get lost.
    until("it has lost its servers", || stays.state() == State::Suspended).await;
    let (server, reason) = stays.last_failure().expect("a failure");
    println!("{server}: {reason}");
    assert!(at.contains(&server), "{server}");
    guard.release().await.expect("released");
}
