//! What `zk-explain --proxy` shows and records of a lock that three clients take in turns.

use zk_recipes::Mutex;
use zk_session::Client;
use zk_testkit::explained::{Proxy, Row, draw, has_latency, read, wakes};

use super::{LOCK, SESSION_TIMEOUT, eventually, start, watches};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_taken_in_turns_is_shown_and_recorded() {
    let embedded = start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let proxy = Proxy::start(&embedded.address(0).to_string(), 3, folder.path());
    let mut clients = Vec::new();
    for _ in 0..3 {
        let builder = Client::builder(proxy.address()).session_timeout(SESSION_TIMEOUT);
        clients.push(builder.connect().await.expect("connected"));
    }
    let acquire = |place: usize| Mutex::new(&clients[place], LOCK).expect("valid").acquire();
    let watched = |count| eventually(&embedded, "watches", move |it| watches(it) == count);

    // A lock held for a moment watches its own node. The second in line watches its own and the one
    // before it, the third only the latter.
    let first = acquire(0).await.expect("free");
    watched(1).await;
    let second = tokio::spawn(acquire(1));
    watched(3).await;
    let third = tokio::spawn(acquire(2));
    watched(4).await;
    first.release().await.expect("held");
    let second = second.await.expect("no panic").expect("acquired");
    second.release().await.expect("held");
    let third = third.await.expect("no panic").expect("acquired");
    third.release().await.expect("held");
    for client in clients {
        client.close().await;
    }

    let picture = proxy.end();
    let (names, rows) = read(&picture);
    assert_eq!(names.len(), 3, "{picture}");
    let wakes = wakes(&rows);
    assert_eq!(wakes.len(), 2, "{picture}");
    for (place, Row { from, to, text, .. }) in wakes.into_iter().enumerate() {
        assert_eq!((*from, *to), (place, Some(place + 1)), "{picture}");
        assert!(text.starts_with("NODE_DELETED /locks/test/_c_"), "{picture}");
    }
    for lane in 0..3 {
        for operation in ["CREATE2 ", "GET_CHILDREN ", "DELETE ", "CLOSE_SESSION"] {
            let is_it = |row: &&Row| row.from == lane && row.text.starts_with(operation);
            let row = rows.iter().find(is_it);
            assert!(row.is_some_and(has_latency), "{operation} of {lane}:\n{picture}");
        }
    }

    // The recording has the same rows. Only the names of the clients differ.
    assert_eq!(read(&draw(folder.path(), &["--format", "lanes"])).1, rows);
}
