//! Contenders of one lock. The zxids of what they write while they hold it prove their order.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use zk_recipes::machine::Scheme;
use zk_recipes::{LockError, Options};
use zk_session::proto::{SessionId, Stat, Zxid};
use zk_session::{AnyClient, Client, blocking};
use zk_testkit::linearizable::OnLock;
use zk_testkit::peers::Peer;
use zk_testkit::turns::{Kind, Turn};

use super::access::Access;
use super::contender::Contender;
use super::histories::Histories;
use super::processes::{self, Starter};
use super::{HANG_TIMEOUT, ended};

/// A lock, and the register that it guards.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) lock: &'static str,
    pub(super) register: &'static str,
    pub(super) scheme: Scheme,
}

impl Place {
    pub(super) const CURATOR: Self =
        Self { lock: "/chaos-lock", register: "/chaos-register", scheme: Scheme::CURATOR_MUTEX };
    /// kazoo names its nodes otherwise, so it has a lock of its own.
    pub(super) const KAZOO: Self = Self {
        lock: "/chaos-kazoo",
        register: "/chaos-kazoo-register",
        scheme: Scheme::KAZOO_MUTEX,
    };
}

/// The tasks of all contenders.
pub(super) struct Holders(pub(super) Vec<JoinHandle<Account>>);

/// What one contender has done.
#[derive(Default)]
pub(super) struct Account {
    kind: &'static str,
    /// The token of each acquisition.
    pub(super) tokens: Vec<Zxid>,
    pub(super) connections: u64,
    pub(super) sessions: u64,
    pub(super) turns: Vec<Turn>,
}

impl Account {
    pub(super) fn of(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// What all contenders have done.
pub(super) struct Summary {
    /// By each kind of contender: its acquisitions, and how many of them writes prove.
    pub(super) acquisitions: BTreeMap<&'static str, [usize; 2]>,
    /// The token of each acquisition.
    pub(super) tokens: Vec<Zxid>,
    /// The tokens of the turns that writes prove.
    pub(super) proven: Vec<Zxid>,
    /// Turns of which one began before the other ended.
    pub(super) double_holders: Vec<(Turn, Turn)>,
    connections: u64,
    sessions: u64,
}

impl Holders {
    /// Starts contenders that open a new session when theirs has expired. Half of them use the async
    /// client. Of the others, which have a thread each, half use the blocking client, and the rest
    /// are processes of `zk-lock` and of Curator. Only the clients use TLS.
    pub(super) fn start(count: usize, access: &Access, contest: &Contest) -> Self {
        let is_open = access.tls.is_none();
        let launcher = (is_open && count > 3).then(Starter::launcher);
        let curator = (is_open && count > 7).then(|| Starter::peer(Peer::Curator)).flatten();
        let contend = |number| {
            let (access, contest) = (access.clone(), contest.clone());
            let starter = match number % 8 {
                0 | 2 | 4 | 6 => {
                    return tokio::spawn(async move {
                        contend::<Client>(number, &access, &contest).await
                    });
                }
                3 => launcher.clone(),
                7 => curator.clone(),
                _ => None,
            };
            on_a_thread(async move {
                match starter {
                    Some(starter) => processes::contend(&starter, &access, &contest).await,
                    None => contend::<blocking::Client>(number, &access, &contest).await,
                }
            })
        };
        Self((0..count).map(contend).collect())
    }

    /// Starts contenders for a lock of kazoo: processes of kazoo, and as many async clients.
    pub(super) fn start_with_kazoo(pairs: usize, access: &Access, contest: &Contest) -> Self {
        let kazoo = (access.tls.is_none() && pairs > 0).then(|| Starter::peer(Peer::Kazoo));
        let Some(kazoo) = kazoo.flatten() else { return Self(Vec::new()) };
        let pair = |number| {
            let (access, contest, kazoo) = (access.clone(), contest.clone(), kazoo.clone());
            let (same_access, same_contest) = (access.clone(), contest.clone());
            let ours = tokio::spawn(async move {
                contend::<Client>(number, &same_access, &same_contest).await
            });
            [ours, on_a_thread(async move { processes::contend(&kazoo, &access, &contest).await })]
        };
        Self((0..pairs).flat_map(pair).collect())
    }

    /// Waits until the contenders have stopped.
    pub(super) async fn finish(self) -> Summary {
        let mut all = Account::default();
        let mut acquisitions: BTreeMap<_, [usize; 2]> = BTreeMap::new();
        for contender in self.0 {
            let account = ended(contender).await;
            let [acquired, proven] = acquisitions.entry(account.kind).or_default();
            *acquired += account.tokens.len();
            *proven += account.turns.len();
            all.tokens.extend(account.tokens);
            all.connections += account.connections;
            all.sessions += account.sessions;
            all.turns.extend(account.turns);
        }
        Summary {
            acquisitions,
            tokens: all.tokens,
            proven: all.turns.iter().map(|turn| Zxid(turn.place)).collect(),
            double_holders: overlaps(all.turns),
            connections: all.connections,
            sessions: all.sessions,
        }
    }
}

/// Runs what blocks.
fn on_a_thread(contender: impl Future<Output = Account> + Send + 'static) -> JoinHandle<Account> {
    spawn_blocking(move || Handle::current().block_on(contender))
}

/// Returns the turns of which one began before another ended.
pub(super) fn overlaps(mut turns: Vec<Turn>) -> Vec<(Turn, Turn)> {
    turns.sort_unstable_by_key(|turn| turn.enter);
    let overlaps = turns.windows(2).filter(|two| two[1].enter <= two[0].leave);
    overlaps.map(|two| (two[0], two[1])).collect()
}

impl Summary {
    /// Returns what kinds of contenders have hardly proved anything. A lock that is lost right away
    /// proves nothing.
    pub(super) fn unproven(&self) -> Vec<String> {
        let is_unproven = |[acquired, proven]: [usize; 2]| {
            acquired == 0 || acquired >= 10 && proven < acquired.div_ceil(2)
        };
        let kinds = self.acquisitions.iter().filter(|(_, counts)| is_unproven(**counts));
        kinds
            .map(|(kind, [acquired, proven])| {
                format!("{kind} acquired the lock {acquired} times, and proved it {proven} times")
            })
            .collect()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acquisitions, connections, sessions, double_holders, .. } = self;
        write!(
            f,
            "acquisitions of one lock, and those that zxids prove: {acquisitions:?}, on {sessions} \
             sessions with {connections} connections; {} double holders",
            double_holders.len()
        )
    }
}

async fn contend<C: Contender>(number: usize, access: &Access, contest: &Contest) -> Account {
    let mut account = Account::of(C::NAME);
    while !contest.is_over() {
        let client = C::connect(access).await;
        let lock = contest.lock_of_one.filter(|_| number == 0).unwrap_or(contest.place.lock);
        let marker = format!("{}-holder-{number}", contest.place.lock);
        contest.contend(lock, &marker, &client, &mut account).await;
        client.close().await;
    }
    account
}

/// What all contenders share.
#[derive(Clone)]
pub(super) struct Contest {
    pub(super) place: Place,
    /// The lock of the first contender, if it is not that of the others.
    lock_of_one: Option<&'static str>,
    pub(super) histories: Arc<Histories>,
    pub(super) stopped: watch::Receiver<bool>,
}

impl Contest {
    pub(super) fn new(
        place: Place,
        lock_of_one: Option<&'static str>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let histories = Arc::new(Histories::new(place.register));
        Self { place, lock_of_one, histories, stopped }
    }

    pub(super) fn is_over(&self) -> bool {
        // Also after a panic of the test.
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }

    /// Waits until the test has panicked. A test that passes waits for all contenders.
    pub(super) async fn wait_for_failure(&self) {
        let mut stopped = self.stopped.clone();
        while stopped.changed().await.is_ok() {}
    }

    /// Takes turns with the lock, until the test or the client ends.
    pub(super) async fn contend<C: Contender>(
        &self,
        lock: &str,
        marker: &str,
        client: &C,
        account: &mut Account,
    ) {
        client.create(marker).await;
        let options = Options::new().scheme(self.place.scheme);
        let mutex = client.mutex(lock, options);
        while !self.is_over() && !client.has_ended() {
            let asked = self.histories.now();
            let held = match C::acquire(&mutex).await {
                Ok(held) => held,
                Err(error) => {
                    let is_end =
                        matches!(error.reason, LockError::Ended(_) | LockError::NodeVanished);
                    // The end of the session may show first in the end of its node.
                    if !is_end || !ends(client).await {
                        let queue = self.queue(client).await;
                        self.histories.violation(format!("{marker}: {error}; queue: {queue:?}"));
                    }
                    continue;
                }
            };
            account.tokens.push(C::token(&held));
            account.turns.extend(self.take_turn(client, marker, held, asked).await);
        }
        account.connections += client.statistics().connections;
        account.sessions += 1 + client.statistics().renewals;
    }

    /// Returns the nodes of the lock, with the sessions that own them.
    async fn queue<C: Contender>(&self, client: &C) -> BTreeMap<String, Option<SessionId>> {
        let mut queue = BTreeMap::new();
        let Ok((children, _)) = client.get_children(self.place.lock).await else { return queue };
        for child in children {
            let path = format!("{}/{child}", self.place.lock);
            let stat = client.exists(&path).await.ok().flatten();
            queue.insert(child, stat.map(|stat| stat.ephemeral_owner));
        }
        queue
    }

    /// Writes with the session that holds the lock, and releases it. Returns what that proves: a
    /// session that has lost the lock by expiry cannot write.
    async fn take_turn<C: Contender>(
        &self,
        client: &C,
        marker: &str,
        held: C::Guard,
        asked: Duration,
    ) -> Option<Turn> {
        let histories = &self.histories;
        let (acquired, token) = (histories.now(), C::token(&held).0);
        let Ok(Some(Stat { ephemeral_owner: owner, .. })) =
            client.exists(&C::node_path(&held)).await
        else {
            // The lock is lost. Nothing proves that it was held.
            drop(held);
            return None;
        };
        let holds = || !C::is_lost(&held);
        let enter = stamp(client, owner, marker, token, holds).await;
        // The lock node exists if this succeeds: so the lock was held ever since it was acquired.
        let written = histories.write(C::token(&held), C::fenced(&held)).await;
        if written.is_some() {
            histories.lock(asked, Some(acquired), OnLock::Acquire(token));
        }
        if token % 4 == 0 {
            histories.read(client).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        let leaving = histories.now();
        let leave = stamp(client, owner, marker, token, holds).await;
        self.assert_ends_with(client, owner, marker, || C::is_lost(&held));
        let released = C::release(held).await;
        // Otherwise nothing proves that it was held. An acquisition and a release that may both
        // never have happened would forbid nothing, and take the checker for ever.
        if let Some(written) = written {
            let from = leave.map_or(written.0, |_| leaving);
            histories.lock(from, released.then(|| histories.now()), OnLock::Release(token));
        }
        let (enter, leave) = (enter?, leave.or(enter)?);
        Some(Turn { kind: Kind::Exclusive, place: token, enter, leave })
    }

    /// Checks that nothing is held any more once the client has another session than `owner`.
    pub(super) fn assert_ends_with(
        &self,
        client: &impl AnyClient,
        owner: SessionId,
        who: &str,
        is_lost: impl FnOnce() -> bool,
    ) {
        let session = client.session_id();
        if session != owner && !is_lost() {
            let violation = format!("{who} holds with session {session} what {owner} acquired");
            self.histories.violation(violation);
        }
    }
}

/// Waits until the session has ended. Returns `false` if it lives on.
async fn ends(client: &impl Contender) -> bool {
    let end = Instant::now() + HANG_TIMEOUT;
    while !client.has_ended() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.has_ended()
}

/// Writes a token to the marker with the session `owner`, and returns the zxid. Returns `None` if it
/// may have been another session, or no longer held the lock.
pub(super) async fn stamp(
    client: &impl AnyClient,
    owner: SessionId,
    marker: &str,
    token: i64,
    holds: impl Fn() -> bool,
) -> Option<i64> {
    let is_owner = || client.session_id() == owner;
    let token = token.to_string();
    let write = is_owner().then(|| client.set_data(marker, token.as_bytes(), None))?;
    // A client that loses the lock with its lease deletes the lock node, and the session lives on.
    // If it still holds the lock now, that deletion follows the write.
    if !holds() {
        return None;
    }
    let stat = write.await.ok()?;
    is_owner().then_some(stat.mzxid.0)
}
