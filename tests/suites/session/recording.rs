//! Clients that record themselves, and their recordings replayed.

use std::time::Duration;

use zk_proto::NodeKind;
use zk_proto::OpCode;
use zk_proto::recording::{Kind, Reader, Record, Writer};
use zk_recipes::recording::{Recording, ReplayError, replay};
use zk_recipes::{
    Cache, DoubleBarrier, Ephemeral, LeaderElection, Mutex, Options, RwLock, Semaphore, SimpleLock,
};
use zk_session::{Client, blocking};
use zk_testkit::proxy::{Proxy, When};
use zk_testkit::serve::Embedded;
use zk_testkit::suite::HANG_TIMEOUT;

const PASSWORD: &str = "correct horse battery staple";
const DATA: &[u8] = b"the data of a node";

/// Records a client that uses each recipe while servers stop and restart.
async fn record_recipes(recording: Recording) {
    let ensemble = Embedded::start(3).await.expect("servers");
    let builder = Client::builder(&ensemble.connect_string()).record(recording).retry_reads(true);
    let client = builder.connect().await.expect("a server");
    let options = || Options::new().data(DATA).revocable();
    let mutex = Mutex::with(&client, "/mutex", options()).expect("a path");
    // The last attempts skip the list, by the hints of earlier ones.
    for _ in 0..12 {
        mutex.acquire().await.expect("free").release().await.expect("released");
    }
    let guard = mutex.acquire().await.expect("free");
    let semaphore = Semaphore::new(&client, "/semaphore", 3).expect("a path");
    let permits = semaphore.acquire_many(2).await.expect("free");
    let candidate = LeaderElection::with(&client, "/leader", options()).expect("a path").stand();
    candidate.elected().await.expect("the only one");
    let cache = Cache::new(&client, "/mutex").expect("a path");
    cache.ready().await.expect("read");
    let shared = RwLock::with(&client, "/shared", options()).expect("a path");
    let writer = shared.write().await.expect("free");
    let here = Ephemeral::new(&client, "/here", DATA).expect("a path");
    here.created().await.expect("created");
    let simple = SimpleLock::new(&client, "/simple").expect("a path");
    let textbook = simple.acquire().await.expect("free");
    let barrier = DoubleBarrier::new(&client, "/meeting", 1).expect("a path");
    let inside = barrier.enter().await.expect("all are there");
    mutex.revoke(guard.node()).await.expect("asked");
    for server in 0..3 {
        ensemble.kill(server);
        while client.exists("/here").await.is_err() {}
        ensemble.restart(server).await.expect("restarted");
    }
    let late = mutex.acquire().timeout(Duration::from_millis(50)).await;
    late.expect_err("it is held");
    let reader = writer.downgrade().await.expect("still held");
    inside.leave().await.expect("alone");
    for guard in [guard, permits, textbook] {
        guard.release().await.expect("released");
    }
    reader.release().await.expect("released");
    drop((candidate, cache, here));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_machines_of_recipes_decide_again() {
    let (recording, ring) = Recording::ring(usize::MAX);
    tokio::time::timeout(HANG_TIMEOUT, record_recipes(recording)).await.expect("in time");
    let recording = ring.bytes();
    let replayed = replay(&recording).expect("the same decisions");
    let of = |kind| records(&recording).into_iter().filter(move |it| it.kind == kind);
    let [attach, sees, notes] = [Kind::ATTACH, Kind::MACHINE_SEES, Kind::MACHINE_NOTES]
        .map(|kind| of(kind).map(|it| it.bytes.len()).sum::<usize>());
    println!("{} bytes, {attach} + {sees} + {notes} of machines, {replayed:?}", recording.len());
    assert!(replayed.decided > 20 && replayed.repeated == 0, "{replayed:?}");
    assert!(!has(&recording, DATA));
    let names = ["contender", "semaphore", "election contender", "cache", "ephemeral", "simple"];
    for name in names.iter().chain(&["participant", "lookout"]) {
        assert!(has(&recording, name.as_bytes()), "{name}");
    }
    // The maximum of a semaphore is node data, which is left out, but the machine records it.
    let seen: Vec<_> =
        of(Kind::MACHINE_SEES).map(|record| record.fields().rest().to_vec()).collect();
    assert!(seen.contains(&vec![2, 3]), "the maximum: {seen:?}");
    assert!(seen.contains(&vec![3]), "the request to release: {seen:?}");
    // `zk-session` alone cannot make the machines, so it repeats their decisions.
    let repeated = zk_session::recording::replay(&recording).expect("the same decisions");
    assert_eq!((repeated.decided, repeated.repeated), (0, replayed.decided));
}

/// A client that holds a lock, loses connections before and after requests, and outlives servers.
async fn record_an_outage(recording: Recording) {
    let ensemble = Embedded::start(3).await.expect("servers");
    let proxy = Proxy::start(&ensemble.connect_string()).expect("a proxy");
    let builder = Client::builder(&proxy.connect_string()).record(recording).retry_reads(true);
    let client = builder.connect().await.expect("a server");
    client.add_auth("digest", format!("user:{PASSWORD}").as_bytes()).await.expect("accepted");
    let guard = Mutex::new(&client, "/lock").expect("a path").acquire().await.expect("free");
    client.create("/node", DATA, NodeKind::Persistent).await.expect("created");
    let watch = client.get_data_and_watch("/node").await.expect("read");
    for when in [When::Before, When::After] {
        proxy.cut(when, OpCode::SET_DATA, 1);
        // It may have been applied.
        let _ = client.set_data("/node", DATA, None).await;
        proxy.heal();
        assert_eq!(&client.get_data("/node").await.expect("read").0[..], DATA);
    }
    for server in 0..3 {
        ensemble.kill(server);
        while client.exists("/node").await.is_err() {}
        ensemble.restart(server).await.expect("restarted");
    }
    drop(watch);
    tokio::time::timeout(HANG_TIMEOUT, guard.release()).await.expect("in time").expect("released");
    client.close().await;
}

fn records(recording: &[u8]) -> Vec<Record<'_>> {
    let reader = Reader::new(recording).expect("a recording");
    reader.map(|record| record.expect("well-formed")).collect()
}

/// Returns the recording without one of its records.
fn without(recording: &[u8], place: usize) -> Vec<u8> {
    let mut altered = Writer::MAGIC.to_vec();
    for (number, record) in records(recording).iter().enumerate() {
        if number != place {
            altered.extend_from_slice(record.bytes);
        }
    }
    altered
}

fn has(recording: &[u8], text: &[u8]) -> bool {
    recording.windows(text.len()).any(|window| window == text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_recorded_without_secrets_and_replayed() {
    let (recording, ring) = Recording::ring(usize::MAX);
    record_an_outage(recording).await;
    let recording = ring.bytes();
    let replayed = replay(&recording).expect("the same decisions");
    let records = records(&recording);
    let count = |kind| records.iter().filter(|record| record.kind == kind).count();
    println!("{} bytes, {replayed:?}", recording.len());
    assert!(count(Kind::CONNECTED) >= 4 && count(Kind::DISCONNECTED) >= 3);
    assert!(count(Kind::CALL) > 3 && count(Kind::MACHINE_SUBMIT) > 1);
    assert!(has(&recording, b"/node") && has(&recording, b"digest"));
    assert!(!has(&recording, PASSWORD.as_bytes()) && !has(&recording, DATA));
}

/// Some inputs have no effect, such as the reply that arrives last. These have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_without_one_step_diverges_there_or_later() {
    let (recording, ring) = Recording::ring(usize::MAX);
    record_an_outage(recording).await;
    let recording = ring.bytes();
    let matters = [Kind::SUBMIT, Kind::ATTACH, Kind::EVENT, Kind::CALL, Kind::RETURN];
    let (mut tried, mut steps) = (0, 0);
    for (place, record) in records(&recording).iter().enumerate() {
        steps += usize::from(!matches!(record.kind, Kind::BEGIN | Kind::CLOCK | Kind::SERVERS));
        if !matters.contains(&record.kind) {
            continue;
        }
        let before = steps - 1;
        match replay(&without(&recording, place)) {
            // A machine cannot submit a request that is missing.
            Err(ReplayError::Diverged(divergence)) => assert!(divergence.step + 1 >= before),
            other => panic!("without {record}: {other:?}"),
        }
        tried += 1;
    }
    println!("{tried} of {steps} steps");
    assert!(tried > 50);
}

#[test]
fn the_blocking_client_is_recorded_with_node_data() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(Embedded::start(1)).expect("a server");
    let (recording, ring) = Recording::ring(usize::MAX);
    let recording = recording.node_data(true);
    let builder = blocking::Client::builder(&server.connect_string()).record(recording.clone());
    let client = builder.connect().expect("a server");
    client.create("/node", DATA, NodeKind::Ephemeral).wait().expect("created");
    let read = std::thread::scope(|scope| {
        let readers = [0; 4].map(|_| scope.spawn(|| client.get_data("/node").wait()));
        readers.map(|reader| reader.join().expect("no panic").expect("read").0)
    });
    assert!(read.iter().all(|data| &data[..] == DATA));
    client.close();
    let recorded = ring.bytes();
    assert!(has(&recorded, DATA));
    replay(&recorded).expect("the same decisions");

    // It is the recording of that client.
    let other = blocking::Client::builder(&server.connect_string()).record(recording);
    other.connect().expect("a server").close();
    let connected = |recording: &[u8]| {
        records(recording).iter().filter(|record| record.kind == Kind::CONNECTED).count()
    };
    assert_eq!((connected(&recorded), connected(&ring.bytes())), (1, 1));
}

/// A ring keeps the end, within its limit.
#[tokio::test]
async fn a_ring_is_bounded() {
    const LIMIT: usize = 64 << 10;
    let server = Embedded::start(1).await.expect("a server");
    let (recording, ring) = Recording::ring(LIMIT);
    let builder = Client::builder(&server.connect_string()).record(recording);
    let client = builder.connect().await.expect("a server");
    for _ in 0..1_000 {
        client.exists("/").await.expect("answered");
    }
    client.close().await;
    let recorded = ring.bytes();
    assert!(recorded.len() > LIMIT / 2 && recorded.len() < LIMIT + 1_000, "{}", recorded.len());
    assert_eq!(replay(&recorded), Err(ReplayError::Incomplete));
    let last = records(&recorded).last().map(|record| record.time);
    let first = records(&recorded).iter().find(|it| it.kind == Kind::CLOCK).map(|it| it.time);
    assert!(last > first && first > Some(Duration::ZERO));
}
