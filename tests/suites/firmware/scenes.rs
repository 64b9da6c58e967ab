//! A board beside other contenders.

use std::net::SocketAddr;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;
use zk_proto::{NodeKind, SessionId};
use zk_recipes::machine::{LockMode, Scheme};
use zk_recipes::{Mutex, Options};
use zk_session::Client;
use zk_testkit::peers::{Peer, Process};
use zk_testkit::real;
use zk_testkit::serve::Embedded;
use zk_testkit::suite::{HANG_TIMEOUT, client};
use zk_testkit::turns::{Kind, Turn, overtaken, together};

use super::board::Board;
use super::image::{
    CODEC, LOCK, LOCK_IN_NODE, LOCK_ON_RISC_V, LOCK_ON_RISC_V_WITHOUT_ATOMICS,
    LOCK_WITHOUT_ATOMICS, Program, READ_WRITE_LOCK,
};

/// The lock and the node that the program names.
const LOCK_PATH: &str = "/locks/shared with firmware";
const NODE: &str = "/turns-of-firmware";
/// A board's turn takes 100 ms, and nearly every turn waits.
const MAX_TURNS: usize = 200;
/// What docs/embedding.md says of the stack, in bytes, and a tenth more.
const MAX_STACK: usize = 4_360;

fn servers(connect_string: &str) -> Vec<SocketAddr> {
    connect_string.split(',').map(|server| server.parse().expect("an address")).collect()
}

/// Adds exclusive turns with the lock to `turns`, as long as that has a receiver.
async fn contend(client: Client, scheme: Scheme, turns: UnboundedSender<Turn>) {
    let options = Options::new().scheme(scheme);
    let mutex = Mutex::with(&client, LOCK_PATH, options).expect("a valid path");
    let stamp = async || client.set_data("/ours", b"", None).await.expect("written").mzxid.0;
    loop {
        let guard = mutex.acquire().await.expect("acquired");
        let (place, enter) = (guard.fencing_token().0, stamp().await);
        let turn = Turn { kind: Kind::Exclusive, place, enter, leave: stamp().await };
        guard.release().await.expect("released");
        if turns.send(turn).is_err() {
            return;
        }
    }
}

/// Lets the board and the others take turns until each has waited for the other three times.
///
/// # Panics
///
/// If the others have ended, or if that takes far too many turns: they may not see each other.
async fn take_turns(board: &mut Board, mut others: UnboundedReceiver<Turn>) {
    let mut theirs: Vec<Turn> = Vec::new();
    let boards = loop {
        board.wait_for("released").await;
        theirs.extend(std::iter::from_fn(|| others.try_recv().ok()));
        let boards = board.turns();
        if waits(&boards, &theirs) >= 3 && waits(&theirs, &boards) >= 3 {
            break boards;
        }
        assert!(!others.is_closed(), "the others ended after {theirs:?}");
        assert!(boards.len() < MAX_TURNS, "no waiting in {boards:?} and {theirs:?}");
    };
    println!("{}\n{} turns of the others", board.log.join("\n"), theirs.len());
    let all = [boards, theirs].concat();
    assert_eq!((together(&all), overtaken(&all)), (vec![], vec![]));
}

/// Returns how many of these turns waited for one of the others.
fn waits(turns: &[Turn], others: &[Turn]) -> usize {
    let waited = |turn: &&Turn| {
        others.iter().any(|other| other.enter < turn.enter && turn.place < other.leave)
    };
    turns.iter().filter(waited).count()
}

/// Also: a server that dies while the board holds the lock costs it nothing. And if the power fails
/// then, the lock is free once the session has expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_takes_turns_with_a_client() {
    let Some(image) = LOCK.build_or_skip() else { return };
    let embedded = Embedded::start(3).await.expect("loopback");
    let client = client(&embedded).await;
    for path in [NODE, "/ours"] {
        client.create(path, b"", NodeKind::Persistent).await.expect("created");
    }
    let mut board = Board::start(LOCK, &image, servers(&embedded.connect_string())).await;
    let (sender, turns) = unbounded_channel();
    let contender = tokio::spawn(contend(client.clone(), Scheme::CURATOR_MUTEX, sender));
    let mut server = board.wait_for("connected to server ").await;
    loop {
        board.wait_for("acquired").await;
        let killed = server.parse().expect("a number");
        embedded.kill(killed);
        server = board.wait_for("connected to server ").await;
        embedded.restart(killed).await.expect("restarted");
        board.wait_for("released").await;
        // It may have been quicker than this test, and have released the lock before.
        if was_held_throughout(&board.log) {
            break;
        }
    }
    take_turns(&mut board, turns).await;
    board.wait_for("acquired").await;
    contender.abort();

    let is_board = |session: &SessionId| *session != client.session_id();
    let session = embedded.with(|ensemble| ensemble.sessions().find(is_board));
    drop(board);
    assert!(embedded.expire_session(session.expect("one of the board")));
    let mutex = Mutex::new(&client, LOCK_PATH).expect("a valid path");
    let next = tokio::time::timeout(HANG_TIMEOUT, mutex.acquire()).await;
    next.expect("nobody is ahead").expect("acquired").release().await.expect("released");
}

/// The servers have not heard of the board for too long. It goes on with another session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_goes_on_after_its_session_has_expired() {
    let Some(image) = LOCK.build_or_skip() else { return };
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    client.create(NODE, b"", NodeKind::Persistent).await.expect("created");
    let mut board = Board::start(LOCK, &image, servers(&embedded.connect_string())).await;
    for _ in 0..2 {
        board.wait_for("acquired").await;
        let is_board = |session: &SessionId| *session != client.session_id();
        let session = embedded.with(|ensemble| ensemble.sessions().find(is_board));
        assert!(embedded.expire_session(session.expect("one of the board")));
        board.wait_for("expired").await;
    }
    board.wait_for("released").await;
}

/// Whatever the length of the queue is, the board reads it in the same memory. It gets its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_waits_in_a_long_queue() {
    let Some(image) = LOCK.build_or_skip() else { return };
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    client.create(NODE, b"", NodeKind::Persistent).await.expect("created");
    client.ensure_path(LOCK_PATH).await.expect("made");
    // A list of 16 is the longest that comes whole.
    for ahead in [1, 16, 17, 60, 1_000] {
        let mut others = Vec::new();
        for number in 0..ahead {
            let name = Scheme::CURATOR_MUTEX.prefix(
                LockMode::Exclusive,
                Uuid::from_u128(number + 1),
                SessionId::NONE,
            );
            let path = format!("{LOCK_PATH}/{name}");
            let node = client.create(&path, b"", NodeKind::EphemeralSequential);
            others.push(node.await.expect("created").0);
        }
        let mut board = Board::start(LOCK, &image, servers(&embedded.connect_string())).await;
        assert_eq!(board.wait_for("waiting, ahead: ").await, ahead.to_string());
        // Its predecessor leaves, then all but one, and that one last.
        let predecessor = others.pop().expect("at least one");
        let first = others.first().cloned();
        client.delete(&predecessor, None).await.expect("deleted");
        if let Some(first) = first {
            assert_eq!(board.wait_for("waiting, ahead: ").await, (ahead - 1).to_string());
            for other in others.iter().skip(1) {
                client.delete(other, None).await.expect("deleted");
            }
            client.delete(&first, None).await.expect("deleted");
        }
        // The second turn shows what the first has left.
        board.wait_for("heap ").await;
        let heap = board.wait_for("heap ").await;
        let peak: usize = heap.rsplit(' ').next().and_then(|peak| peak.parse().ok()).expect(&heap);
        println!("{ahead} ahead: heap {heap}");
        assert!(peak < 2_000, "{ahead} ahead: {peak} bytes");
        let stack = board.stack(&image);
        println!("{ahead} ahead: stack {stack}");
        assert!(stack <= MAX_STACK, "{ahead} ahead: {stack} bytes");
        drop(board);
        let is_board = |session: &SessionId| *session != client.session_id();
        let session = embedded.with(|ensemble| ensemble.sessions().find(is_board));
        assert!(embedded.expire_session(session.expect("one of the board")));
    }
}

/// Returns whether the board held the lock while its server died.
fn was_held_throughout(log: &[String]) -> bool {
    let turn = log.rsplit(|line| line == "acquired").next().unwrap_or_default();
    let position = |event: &str| turn.iter().position(|line| line.starts_with(event));
    let (suspended, resumed) = (position("suspended"), position("resumed"));
    suspended.is_some() && suspended < resumed && resumed < position("exclusive ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_takes_turns_with_curator() {
    let Some(image) = LOCK.build_or_skip() else { return };
    let Some(curator) = Peer::Curator.find_or_skip() else { return };
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let at = ensemble.connect_string();
    let client = client(&ensemble).await;
    client.create(NODE, b"", NodeKind::Persistent).await.expect("created");
    let mut board = Board::start(LOCK, &image, servers(&at)).await;
    board.wait_for("acquired").await;
    // It runs until it is killed.
    let arguments = [&at, "mutex", LOCK_PATH, "1000000", "/turns-of-curator"].map(str::to_owned);
    let mut curator = Process::start_all(vec![(&curator, arguments.to_vec())]);
    let (sender, turns) = unbounded_channel();
    let mut theirs = curator[0].go().map_while(Result::ok);
    std::thread::spawn(move || theirs.all(|turn| sender.send(turn).is_ok()));
    take_turns(&mut board, turns).await;
}

/// Lets a board take turns with a client that never shares the lock.
async fn takes_turns(program: Program, scheme: Scheme) -> Vec<Turn> {
    let Some(image) = program.build_or_skip() else { return Vec::new() };
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    for path in [NODE, "/ours"] {
        client.create(path, b"", NodeKind::Persistent).await.expect("created");
    }
    let mut board = Board::start(program, &image, servers(&embedded.connect_string())).await;
    let (sender, turns) = unbounded_channel();
    let contender = tokio::spawn(contend(client, scheme, sender));
    take_turns(&mut board, turns).await;
    contender.abort();
    board.turns()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_reads_and_writes_in_turns() {
    let turns = takes_turns(READ_WRITE_LOCK, Scheme::CURATOR_READ_WRITE).await;
    let is_shared = |turn: &Turn| turn.kind == Kind::Shared;
    assert_eq!(turns.iter().any(is_shared), turns.iter().any(|turn| !is_shared(turn)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_without_atomic_operations_takes_turns() {
    takes_turns(LOCK_WITHOUT_ATOMICS, Scheme::CURATOR_MUTEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_risc_v_board_takes_turns() {
    takes_turns(LOCK_ON_RISC_V, Scheme::CURATOR_MUTEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_risc_v_board_without_atomic_operations_takes_turns() {
    takes_turns(LOCK_ON_RISC_V_WITHOUT_ATOMICS, Scheme::CURATOR_MUTEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn web_assembly_takes_turns() {
    takes_turns(LOCK_IN_NODE, Scheme::CURATOR_MUTEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_codec_needs_no_allocator() {
    let Some(image) = CODEC.build_or_skip() else { return };
    let embedded = Embedded::start(1).await.expect("loopback");
    let mut board = Board::start(CODEC, &image, servers(&embedded.connect_string())).await;
    board.wait_for("created /boards").await;
    assert_eq!(board.wait_for("read ").await, "made by a Cortex-M0");
    assert!(board.end().await.success());
}
