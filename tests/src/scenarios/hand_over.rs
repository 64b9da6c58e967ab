//! Attempts of one client that share a node.

use core::time::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};

use tokio::task::JoinSet;
use zk_recipes::{FencingToken, HandOver, Holding, Mutex, Options};

use crate::suite::{Fixture, client, nothing_is_left};

/// The turns of one node.
const TURNS: u32 = 4;
/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// Tasks of three clients take turns, some give up, and some lose the lock. Two of them keep it while
/// it is idle. A fourth client has a node for each attempt.
///
/// # Panics
///
/// If two hold the lock at once, if a token does not rise, or if something is left.
pub async fn attempts_of_one_client_take_turns_with_one_node<S: Fixture>(fixture: &S) {
    let inside = Arc::new(AtomicUsize::new(0));
    let last = Arc::new(StdMutex::new(FencingToken(0, 0)));
    let mut tasks = JoinSet::new();
    for (shares, keeps) in [(true, false), (true, true), (false, true), (false, false)] {
        let (client, options) = (client(fixture).await, Options::new());
        let bound = HandOver::default().turns(TURNS);
        let options = if shares { options.local_hand_over(bound) } else { options };
        let options = if keeps { options.keep_idle(LONG) } else { options };
        let mutex = Mutex::with(&client, "/locks/turns", options).expect("valid");
        for task in 0..if shares { 16 } else { 2 } {
            let (mutex, client) = (mutex.clone(), client.clone());
            let (inside, last) = (inside.clone(), last.clone());
            tasks.spawn(async move {
                for round in 0..12 {
                    let limit = if (task + round) % 3 == 0 { 2 } else { 60_000 };
                    let acquiring = mutex.acquire().timeout(Duration::from_millis(limit));
                    let Ok(guard) = acquiring.await else { continue };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    let token = guard.fencing_token();
                    let before = core::mem::replace(&mut *last.lock().expect("no panic"), token);
                    assert!(before < token, "{before} before {token}");
                    assert!(keeps || token.turn() < TURNS);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    match (task, round % 3) {
                        (0, _) => {
                            client.delete(&guard.node_path(), None).await.expect("deleted");
                            guard.lost().await;
                            guard.release().await.expect_err("lost");
                        }
                        (_, 0) => drop(guard),
                        (_, 1) => {
                            guard.validate().await.expect("held");
                            guard.release().await.expect("released");
                        }
                        _ if guard.state() == Holding::Held => {
                            guard.release().await.expect("released");
                        }
                        _ => {}
                    }
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
    nothing_is_left(fixture).await;
}
