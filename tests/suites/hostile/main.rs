//! Hostile peers: memory stays bounded, and the client continues with the next connection.
//!
//! These tests have a process of their own, since they measure its memory.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;
use std::{fs, slice, thread};

use tokio::runtime::Builder;
use zk_session::proto::{EventType, KeeperState, WatcherEvent};
use zk_session::{Client, ConnectError, Error, Outcome, blocking};
use zk_testkit::scripted::{self, Peer};

const MAX_REPLY: usize = 1 << 20;
/// The memory that a client may take under attack: the expected frame, in a buffer that grows by
/// doubling, and a little more. `docs/session.md` has this bound.
const BOUND: usize = 3 * MAX_REPLY + (64 << 10);
/// Much more than [`BOUND`].
const FLOOD: usize = 64 << 20;
const TIMEOUT: i32 = 1_500;
const SESSION_TIMEOUT: Duration = Duration::from_millis(TIMEOUT as u64);

/// The attack of a peer on the first connections. Then it behaves.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// A length of 2 GiB, and bytes as if they followed.
    HugeLength,
    NegativeLength,
    /// Frames of the greatest allowed length, over and over.
    EndlessFrames,
    /// A reply of the greatest length that a frame can have.
    EndlessReply,
    /// Such a reply that continues by single bytes.
    SlowReply,
    /// Events of watches that do not exist.
    EndlessEvents,
    /// A frame that continues by single bytes.
    SlowDrip,
    /// A part of the fuzzing corpus, as bytes and as frames.
    Corpus(usize),
}

const ATTACKS: [Attack; 7] = [
    Attack::HugeLength,
    Attack::NegativeLength,
    Attack::EndlessFrames,
    Attack::EndlessReply,
    Attack::SlowReply,
    Attack::EndlessEvents,
    Attack::SlowDrip,
];
/// Together, since a client waits before each of many connections.
const PARTS: [Attack; 4] =
    [Attack::Corpus(0), Attack::Corpus(1), Attack::Corpus(2), Attack::Corpus(3)];

/// Runs all attacks, one after another, but the parts of the corpus together. `run` gets those that
/// run together.
fn each_round(run: impl Fn(&[Attack])) {
    ATTACKS.iter().map(slice::from_ref).chain([&PARTS[..]]).for_each(run);
}

/// Runs attacks together, each in a thread of its own.
fn together(attacks: &[Attack], run: impl Fn(Attack) + Sync) {
    thread::scope(|scope| {
        for attack in attacks {
            scope.spawn(|| run(*attack));
        }
    });
}

impl Attack {
    fn run(self, number: usize, peer: &mut Peer) -> io::Result<()> {
        match self {
            Self::HugeLength => {
                peer.stream.write_all(&i32::MAX.to_be_bytes())?;
                flood(&mut peer.stream, &[0; 64 << 10])
            }
            Self::NegativeLength => peer.stream.write_all(&[0xff; 8]),
            Self::EndlessFrames => {
                let mut frame = vec![0x55; 4 + MAX_REPLY];
                frame[..4].copy_from_slice(&(MAX_REPLY as u32).to_be_bytes());
                flood(&mut peer.stream, &frame)
            }
            Self::EndlessReply => {
                peer.begin_reply(i32::MAX)?;
                flood(&mut peer.stream, &[0x55; 64 << 10])
            }
            Self::SlowReply => {
                peer.begin_reply(i32::MAX)?;
                drip(&mut peer.stream)
            }
            Self::EndlessEvents => {
                let path = "/x".repeat(30_000);
                let event = WatcherEvent {
                    event_type: EventType::NODE_CREATED,
                    state: KeeperState::SYNC_CONNECTED,
                    path: &path,
                };
                for _ in 0..FLOOD / path.len() {
                    peer.notify(&event)?;
                }
                Ok(())
            }
            Self::SlowDrip => {
                peer.stream.write_all(&[0, 0, 0xff, 0xff])?;
                drip(&mut peer.stream)
            }
            Self::Corpus(part) => match inputs(part).nth(number) {
                Some(bytes) => {
                    // Answering once keeps the client from backing off.
                    peer.answer(drop)?;
                    peer.stream.write_all(bytes)
                }
                None => Ok(()),
            },
        }
    }

    /// Returns the number of connections that the attack takes.
    fn connections(self) -> usize {
        match self {
            Self::Corpus(part) => inputs(part).count(),
            _ => 2,
        }
    }

    /// Starts a peer that attacks behind the handshake, and finally behaves. Returns its address.
    fn listen(self) -> String {
        scripted::listen(move |number, mut peer| {
            peer.welcome(TIMEOUT)?;
            if number < self.connections() {
                return self.run(number, &mut peer);
            }
            peer.serve(|_| {})
        })
    }
}

fn flood(stream: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    (0..FLOOD.div_ceil(bytes.len())).try_for_each(|_| stream.write_all(bytes))
}

/// Sends single bytes until the client closes the connection.
fn drip(stream: &mut impl io::Write) -> io::Result<()> {
    loop {
        stream.write_all(&[0])?;
        thread::sleep(Duration::from_millis(50));
    }
}

fn inputs(part: usize) -> impl Iterator<Item = &'static Vec<u8>> {
    CORPUS.iter().skip(part).step_by(PARTS.len())
}

/// Inputs of the corpus, each bare and behind its length. Every input takes two connections.
static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let mut inputs = Vec::new();
    for target in ["frame", "response", "session"] {
        let files = fs::read_dir(corpus.join(target)).expect("a corpus");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.sort_unstable();
        for file in files.into_iter().take(110) {
            let bytes = fs::read(file).expect("a readable file");
            inputs.push([&(bytes.len() as u32).to_be_bytes()[..], &bytes].concat());
            inputs.push(bytes);
        }
    }
    assert!(inputs.len() > 400);
    inputs
});

#[test]
fn no_peer_makes_the_async_client_take_more_than_its_bound() {
    let attacked = |attack: Attack| {
        let at = attack.listen();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let allocations = allocation_counter::measure(|| runtime.block_on(survive(attack, &at)));
        println!("{attack:?}: at most {} bytes", allocations.bytes_max);
        assert!(allocations.bytes_max <= BOUND as u64, "{attack:?}: {}", allocations.bytes_max);
    };
    each_round(|attacks| together(attacks, attacked));
}

async fn survive(attack: Attack, at: &str) {
    let builder = Client::builder(at).session_timeout(SESSION_TIMEOUT).max_reply(MAX_REPLY);
    let client = builder.connect().await.expect("connected");
    while client.statistics().connections <= attack.connections() as u64 {
        // Fails with each lost connection, and waits for the next one.
        let _ = client.exists("/").await;
    }
    assert_eq!(client.exists("/").await, Ok(None), "{attack:?}");
    client.close().await;
}

#[test]
fn a_reply_of_any_length_is_skipped_and_its_request_fails_alone() {
    let at = scripted::listen(|_, mut peer| {
        peer.welcome(60_000)?;
        peer.begin_reply(FLOOD as i32 + 16)?;
        flood(&mut peer.stream, &[0x55; 64 << 10])?;
        peer.serve(|_| {})
    });
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let allocations = allocation_counter::measure(|| {
        runtime.block_on(async {
            let builder = Client::builder(&at).max_reply(MAX_REPLY);
            let client = builder.connect().await.expect("connected");
            let too_large = Error::ReplyTooLarge {
                length: FLOOD + 16,
                limit: MAX_REPLY,
                outcome: Outcome::NotApplied,
            };
            assert_eq!(client.exists("/").await.map_err(Error::from), Err(too_large));
            assert_eq!(client.exists("/").await, Ok(None));
            assert_eq!(client.statistics().connections, 1);
            client.close().await;
        });
    });
    let most = 64 << 10;
    assert!(allocations.bytes_max <= most, "{}", allocations.bytes_max);
}

#[test]
fn a_peer_that_never_answers_the_handshake_is_reported() {
    // Each takes seconds of waiting, and measures the memory of its own thread.
    thread::scope(|scope| {
        for (attack, reason) in [
            (Attack::HugeLength, "frame"),
            (Attack::NegativeLength, "frame"),
            (Attack::EndlessFrames, "malformed frame"),
            (Attack::SlowDrip, "no reply within the connect timeout"),
        ] {
            scope.spawn(move || never_answer(attack, reason));
        }
    });
}

fn never_answer(attack: Attack, reason: &str) {
    let at = scripted::listen(move |number, mut peer| attack.run(number, &mut peer));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut result = None;
    let allocations = allocation_counter::measure(|| {
        let builder = Client::builder(&at).session_timeout(SESSION_TIMEOUT);
        let builder = builder.connect_timeout(2 * SESSION_TIMEOUT);
        result = Some(runtime.block_on(builder.max_reply(MAX_REPLY).connect()));
        // The driver's task ends when the session is closed.
        runtime.block_on(tokio::task::yield_now());
    });
    let Some(Err(ConnectError::Unreachable { last: Some((server, error)), .. })) = result else {
        panic!("{attack:?}: {result:?}");
    };
    assert_eq!(server, at);
    assert!(error.contains(reason), "{attack:?}: {error}");
    assert!(allocations.bytes_max <= BOUND as u64, "{attack:?}: {}", allocations.bytes_max);
}

/// The client's memory is taken by other threads, so this measures the whole process.
#[cfg(target_os = "linux")]
#[test]
fn no_peer_makes_the_blocking_client_take_more_than_its_bound() {
    let attacked = |attack: Attack| {
        let at = attack.listen();
        let builder = blocking::Client::builder(&at);
        let builder = builder.session_timeout(SESSION_TIMEOUT).max_reply(MAX_REPLY);
        let client = builder.connect().expect("connected");
        while client.statistics().connections <= attack.connections() as u64 {
            let _ = client.exists("/").wait();
        }
        assert_eq!(client.exists("/").wait(), Ok(None), "{attack:?}");
        client.close();
    };
    each_round(|attacks| {
        fs::write("/proc/self/clear_refs", "5").expect("a new peak");
        let before = peak_memory();
        together(attacks, attacked);
        // The kernel counts per processor, so the peak can be a little lower afterwards.
        let taken = peak_memory().saturating_sub(before);
        println!("{attacks:?}: at most {taken} bytes, of the whole process");
        // This includes the bytes of the peer, and of the tests that run in parallel.
        assert!(taken <= FLOOD / 4, "{attacks:?}: {taken}");
    });
}

#[cfg(target_os = "linux")]
fn peak_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}
