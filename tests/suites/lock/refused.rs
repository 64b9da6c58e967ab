//! Servers that close the connection at a request: one that is too long, or whose operation they
//! lack.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use zk_proto::OpCode;
use zk_recipes::{
    Cache, Ephemeral, LockError, Mutex, Options, Reason, RecipeError, Semaphore, SemaphoreError,
    SimpleLock,
};
use zk_session::{Client, Error};
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Ensemble};

use super::{HANG_TIMEOUT, LOCK, client};

/// Connections that one attempt may cost, and a few for those that the machine may break.
const CONNECTIONS: u64 = 6;

async fn servers(config: Config) -> (Embedded, Client) {
    let embedded = Embedded::with_config(config).await.expect("loopback");
    let client = client(&embedded).await;
    client.ensure_path("/locks/held").await.expect("created");
    (embedded, client)
}

/// Returns how many connections the servers have accepted.
fn accepted(embedded: &Embedded) -> u64 {
    embedded.with(Ensemble::accepted)
}

fn is_refusal(error: &impl Reason, of: OpCode) -> bool {
    matches!(error.lock_error(), Ok(LockError::Request(Error::Undeliverable { opcode, .. })) if *opcode == of)
}

#[tokio::test]
async fn an_attempt_fails_whose_create_is_too_long_for_the_servers() {
    let (embedded, client) = servers(Config { frame_limit: 64 << 10, ..Config::servers(3) }).await;
    for recipe in ["mutex", "simple", "semaphore", "ephemeral"] {
        let client = self::client(&embedded).await;
        let other = Mutex::new(&client, "/locks/held").expect("a valid path");
        let other = other.acquire().await.expect("free");
        let before = accepted(&embedded);
        let options = Options::new().data(vec![0; 100_000]);
        let attempt = async {
            match recipe {
                "mutex" => drop(Mutex::with(&client, LOCK, options)?.acquire().await?),
                "simple" => drop(SimpleLock::with(&client, LOCK, options)?.acquire().await?),
                "semaphore" => {
                    drop(Semaphore::with(&client, LOCK, Some(2), options)?.acquire().await?);
                }
                _ => drop(Ephemeral::with(&client, LOCK, options)?.created().await?),
            }
            Ok::<_, RecipeError<SemaphoreError>>(())
        };
        let error = timeout(HANG_TIMEOUT, attempt).await.expect(recipe).expect_err(recipe);
        assert!(is_refusal(&error.reason, OpCode::CREATE2), "{recipe}: {error}");
        let connections = accepted(&embedded) - before;
        assert!(connections <= CONNECTIONS, "{recipe}: {connections}");
        other.release().await.expect("it was not lost");
    }
    let lock = Mutex::new(&client, LOCK).expect("a valid path");
    lock.acquire().await.expect("its data is short").release().await.expect("released");
}

/// As ClickHouse Keeper does.
#[tokio::test]
async fn an_operation_that_the_servers_lack_fails_and_a_lock_needs_no_container() {
    let closes_at = vec![OpCode::CREATE_CONTAINER, OpCode::ADD_WATCH];
    let (embedded, client) = servers(Config { closes_at, ..Config::servers(3) }).await;
    let before = accepted(&embedded);
    let lock = Mutex::new(&client, LOCK).expect("a valid path");
    let guard = timeout(HANG_TIMEOUT, lock.acquire()).await.expect("no hang").expect("free");
    let connections = accepted(&embedded) - before;
    assert!(connections <= CONNECTIONS, "{connections}");
    let cache = Cache::new(&client, "/locks").expect("a valid path");
    let error = timeout(HANG_TIMEOUT, cache.ready()).await.expect("no hang").expect_err("lacks it");
    assert!(is_refusal(&error.reason, OpCode::ADD_WATCH), "{error}");
    let connections = accepted(&embedded) - before;
    assert!(connections <= 2 * CONNECTIONS, "{connections}");
    guard.release().await.expect("released");
}

/// A caller of the session repeats a request itself.
#[tokio::test]
async fn a_caller_that_repeats_a_request_slows_down() {
    let (embedded, client) = servers(Config { frame_limit: 1 << 10, ..Config::servers(3) }).await;
    let before = accepted(&embedded);
    let end = Instant::now() + Duration::from_secs(2);
    let (mut lost, mut refused) = (0, 0);
    while Instant::now() < end {
        match client.set_data("/locks", &[0; 2_000], None).await.map_err(Error::from) {
            Err(Error::ConnectionLost) => lost += 1,
            Err(Error::Undeliverable { opcode: OpCode::SET_DATA, length }) => {
                assert!(length > 2_000, "{length}");
                refused += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            other => panic!("{other:?}"),
        }
    }
    let connections = accepted(&embedded) - before;
    println!("{lost} lost, {refused} refused, {connections} connections");
    assert!(lost == 3 && refused > 1 && connections <= CONNECTIONS, "{lost}, {connections}");
}
