//! Contenders of one lock. The zxids of what they write while they hold it prove their order.

use core::fmt;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zk_recipes::{Held, Mutex};
use zk_session::proto::NodeKind;
use zk_session::{Client, State};
use zk_testkit::turns::{Kind, Turn};

use super::HANG_TIMEOUT;
use super::access::Access;

const HOLDERS: usize = 8;
const LOCK: &str = "/chaos-lock";

pub(super) struct Holders(Vec<JoinHandle<Account>>);

/// What one contender has done.
#[derive(Default)]
struct Account {
    acquisitions: u64,
    connections: u64,
    sessions: u64,
    turns: Vec<Turn>,
}

/// What all contenders have done.
pub(super) struct Summary {
    pub(super) acquisitions: u64,
    /// Turns of which one began before the other ended.
    pub(super) double_holders: Vec<(Turn, Turn)>,
    turns: usize,
    connections: u64,
    sessions: u64,
}

impl Holders {
    pub(super) fn start(access: &Access, stopped: &watch::Receiver<bool>) -> Self {
        let contend = |number| {
            let (access, stopped) = (access.clone(), stopped.clone());
            tokio::spawn(async move { contend(number, &access, &stopped).await })
        };
        Self((0..HOLDERS).map(contend).collect())
    }

    /// Waits until the contenders have stopped.
    pub(super) async fn finish(self) -> Summary {
        let mut all = Account::default();
        for contender in self.0 {
            let ended = tokio::time::timeout(HANG_TIMEOUT, contender).await;
            let account = ended.expect("it does not hang").expect("no panic");
            all.acquisitions += account.acquisitions;
            all.connections += account.connections;
            all.sessions += account.sessions;
            all.turns.extend(account.turns);
        }
        all.turns.sort_unstable_by_key(|turn| turn.enter);
        let overlaps = all.turns.windows(2).filter(|two| two[1].enter <= two[0].leave);
        Summary {
            acquisitions: all.acquisitions,
            double_holders: overlaps.map(|two| (two[0], two[1])).collect(),
            turns: all.turns.len(),
            connections: all.connections,
            sessions: all.sessions,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acquisitions, turns, connections, sessions, double_holders } = self;
        write!(
            f,
            "{acquisitions} acquisitions of one lock, {turns} of them proved by zxids, on \
             {sessions} sessions with {connections} connections; {} double holders",
            double_holders.len()
        )
    }
}

async fn contend(number: usize, access: &Access, stopped: &watch::Receiver<bool>) -> Account {
    let mut account = Account::default();
    let marker = format!("/chaos-holder-{number}");
    while !*stopped.borrow() {
        let client = access.connect().await;
        // It exists already, except for the first session.
        let _ = client.create(&marker, b"", NodeKind::Persistent).await;
        let mutex = Mutex::new(&client, LOCK).expect("a valid path");
        while !*stopped.borrow() && !matches!(client.state(), State::Ended(_)) {
            // What fails is the session, and a new one follows.
            let Ok(guard) = mutex.acquire_timeout(HANG_TIMEOUT).await else { continue };
            account.acquisitions += 1;
            account.turns.extend(take_turn(&client, &guard, &marker).await);
            let _ = guard.release().await;
        }
        account.connections += client.statistics().connections;
        account.sessions += 1;
        client.close().await;
    }
    account
}

/// Writes twice with the session that holds the lock. Returns what that proves: a session that has
/// lost the lock by expiry cannot write.
async fn take_turn(client: &Client, held: &Held, marker: &str) -> Option<Turn> {
    let stamp = async || client.set_data(marker, b"", None).await.map(|stat| stat.mzxid.0);
    let enter = stamp().await.ok()?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let leave = stamp().await.unwrap_or(enter);
    Some(Turn { kind: Kind::Exclusive, place: held.fencing_token().0, enter, leave })
}
