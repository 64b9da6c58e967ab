//! Services that outlive their sessions, which are ended again and again. Each contends for the
//! lock, stands for election, keeps a node alive, and caches a tree.

use core::error::Error;
use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use zk_recipes::{Cache, CacheState, Candidate, Ephemeral, LeaderElection, Leadership, Presence};
use zk_session::proto::{NodeKind, Stat, Zxid};
use zk_session::{Client, State};
use zk_testkit::real::RealEnsemble;
use zk_testkit::scenarios::{cached, tree};
use zk_testkit::turns::{Kind, Turn};

use super::access::Access;
use super::holders::{Account, Contest, overlaps, stamp};
use super::operator::{self, Operator};
use super::servers::assert_same;
use super::{HANG_TIMEOUT, SESSION_TIMEOUT, ended};

pub(super) const ELECTION: &str = "/chaos-election";
/// How the nodes begin that a service writes while it leads, or holds the lock.
pub(super) const LEADER_MARKER: &str = "/chaos-leader-";
pub(super) const HOLDER_MARKER: &str = "/chaos-service-";
/// The parent of the node that each service keeps alive.
pub(super) const HERE: &str = "/chaos-here";
/// What all services cache.
const TREE: &str = "/chaos-tree";
/// The servers end a session that is silent for so long.
const STOP: Duration = SESSION_TIMEOUT.saturating_add(Duration::from_secs(2));

pub(super) struct Services {
    all: Vec<Arc<Service>>,
    /// One for each service, with one thread: a task that blocks it stops the service. The service
    /// does not own it: a task may be the last to drop the service, and must not wait for a runtime.
    runtimes: Vec<Runtime>,
    /// Locked while the tree changes.
    changing: Arc<Mutex<()>>,
    churn: JoinHandle<u64>,
    expiring: JoinHandle<Expired>,
    terms: Vec<JoinHandle<Vec<Turn>>>,
    pauses: usize,
}

struct Service {
    number: usize,
    runtime: Handle,
    client: Client,
    cache: Cache,
    candidate: Candidate,
    here: Ephemeral,
}

/// The number of sessions that were ended.
#[derive(Default)]
struct Expired {
    closed: usize,
    stopped: usize,
}

/// What all services have done.
pub(super) struct Summary {
    services: usize,
    expired: Expired,
    renewals: u64,
    /// The tokens of the terms that writes prove.
    pub(super) terms: Vec<Zxid>,
    /// Terms of which one began before the other ended.
    pub(super) double_leaders: Vec<(Turn, Turn)>,
    pub(super) pauses: usize,
    changes: u64,
}

impl Services {
    /// Starts services, and ends all their sessions each `interval`.
    pub(super) async fn start(
        count: usize,
        interval: Duration,
        access: &Access,
        contest: &Contest,
        rng: fastrand::Rng,
        operator: Arc<Operator>,
    ) -> Self {
        let (mut all, mut runtimes) = (Vec::new(), Vec::new());
        for number in 0..count {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.expect("a runtime");
            let start = Service::start(number, access, runtime.handle().clone());
            all.push(Arc::new(operator::service(number, start).await));
            runtimes.push(runtime);
        }
        let lead = |service: &Arc<Service>| {
            let lead = service.clone().lead(contest.clone());
            service.runtime.spawn(operator::service(service.number, lead))
        };
        let changing = Arc::new(Mutex::new(()));
        let expire = expire(all.clone(), interval, access.clone(), contest.clone(), operator);
        Self {
            terms: all.iter().map(lead).collect(),
            churn: tokio::spawn(churn(access.clone(), changing.clone(), contest.clone(), rng)),
            expiring: tokio::spawn(expire),
            changing,
            all,
            runtimes,
            pauses: 0,
        }
    }

    /// Starts the contenders for the lock.
    pub(super) fn contend(&self, contest: &Contest) -> Vec<JoinHandle<Account>> {
        let contend = |service: &Arc<Service>| {
            let (contest, client) = (contest.clone(), service.client.clone());
            let marker = format!("{HOLDER_MARKER}{}", service.number);
            let contend = async move {
                let mut account = Account::of("service");
                contest.contend(contest.place.lock, &marker, &client, &mut account).await;
                account
            };
            service.runtime.spawn(operator::service(service.number, contend))
        };
        self.all.iter().map(contend).collect()
    }

    /// Waits until every cache equals the tree, which does not change meanwhile, all services stand
    /// for election, one of them leads, and each has its node.
    pub(super) async fn wait_until_settled(
        &mut self,
        access: &Access,
        ensemble: &mut RealEnsemble,
        after: &str,
    ) {
        let _quiet = self.changing.lock().await;
        let client = access.connect().await;
        let mut last = Ok(Vec::new());
        let settled = async {
            loop {
                last = self.differences(&client).await;
                if matches!(&last, Ok(found) if found.is_empty()) {
                    break;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let settled = timeout(HANG_TIMEOUT, settled).await;
        if settled.is_err() {
            assert_same(access, ensemble, after).await;
            panic!("{last:?}");
        }
        client.close().await;
        self.pauses += 1;
    }

    /// Returns how often sessions were renewed.
    pub(super) fn renewals(&self) -> u64 {
        self.all.iter().map(|service| service.client.statistics().renewals).sum()
    }

    async fn differences(&self, client: &Client) -> Result<Vec<String>, Box<dyn Error>> {
        client.sync("/").await?;
        let tree = tree(client, TREE).await?;
        let mut found = Vec::new();
        for Service { number, client: own, cache, here, .. } in self.all.iter().map(Arc::as_ref) {
            if cache.state() != CacheState::Ready || cached(cache) != tree {
                found.push(format!("the cache of service {number} differs: {cache:?}"));
            }
            let node = client.exists(here.path()).await?;
            let owned = |stat: &Stat| (stat.ephemeral_owner, Presence::Created(stat.czxid));
            if node.as_ref().map(owned) != Some((own.session_id(), here.presence())) {
                found.push(format!("{here:?} of service {number} is {node:?}"));
            }
        }
        let candidates = LeaderElection::new(client, ELECTION)?.participants().await?;
        let standing: BTreeSet<_> = candidates.iter().map(|candidate| candidate.session).collect();
        let expected: BTreeSet<_> = self.all.iter().map(|own| own.client.session_id()).collect();
        if standing != expected {
            found.push(format!("{standing:?} stand for election instead of {expected:?}"));
        }
        let leads =
            |own: &&Arc<Service>| matches!(own.candidate.leadership(), Leadership::Leader(_));
        match self.all.iter().filter(leads).count() {
            1 => {}
            leaders => found.push(format!("{leaders} leaders")),
        }
        Ok(found)
    }

    /// Waits until everything has stopped, and closes the sessions.
    pub(super) async fn finish(self) -> Summary {
        let Self { all, runtimes, churn, expiring, terms, pauses, .. } = self;
        let expired = ended(expiring).await;
        let changes = ended(churn).await;
        let mut led = Vec::new();
        for terms in terms {
            led.extend(ended(terms).await);
        }
        let (services, mut renewals) = (all.len(), 0);
        for service in all {
            let service = Arc::into_inner(service).expect("all tasks have ended");
            renewals += service.client.statistics().renewals;
            service.close().await;
        }
        runtimes.into_iter().for_each(Runtime::shutdown_background);
        let terms = led.iter().map(|term| Zxid(term.place)).collect();
        Summary {
            services,
            expired,
            renewals,
            terms,
            double_leaders: overlaps(led),
            pauses,
            changes,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { services, expired, renewals, terms, double_leaders, pauses, changes } = self;
        write!(
            f,
            "{services} services: {} sessions closed and {} silenced, {renewals} renewals; {} \
             terms, {} of them doubly led; caches, candidates and nodes right in {pauses} pauses, \
             after {changes} changes of the tree",
            expired.closed,
            expired.stopped,
            terms.len(),
            double_leaders.len(),
        )
    }
}

impl Service {
    async fn start(number: usize, access: &Access, runtime: Handle) -> Self {
        let builder = access.builder().renew(true);
        let connecting = runtime.spawn(builder.connect());
        let client = connecting.await.expect("no panic").expect("a server answers");
        let create = client.create(&leader_marker(number), b"", NodeKind::Persistent);
        create.await.expect("no fault yet");
        let cache = Cache::new(&client, TREE).expect("a valid path");
        let election = LeaderElection::new(&client, ELECTION).expect("a valid path");
        let here = Ephemeral::new(&client, &format!("{HERE}/{number}"), "").expect("a valid path");
        let candidate = election.stand();
        Self { number, runtime, client, cache, candidate, here }
    }

    fn leads(&self, token: Zxid) -> bool {
        match self.candidate.leadership() {
            Leadership::Leader(term) | Leadership::Suspended(term) => term.token == token,
            _ => false,
        }
    }

    /// Leads whenever it is elected, until the test ends. Returns what its session proves of each
    /// term.
    async fn lead(self: Arc<Self>, contest: Contest) -> Vec<Turn> {
        let (mut terms, marker) = (Vec::new(), leader_marker(self.number));
        while !contest.is_over() {
            sleep(Duration::from_millis(20)).await;
            let elected = self.candidate.elected().timeout(Duration::from_millis(200)).await;
            let Ok(term) = elected else { continue };
            let Ok(Some(node)) = self.client.exists(&term.node).await else { continue };
            let mut turn: Option<Turn> = None;
            while !contest.is_over() && self.leads(term.token) {
                let leads = || self.leads(term.token);
                let Zxid(token) = term.token;
                let stamp = stamp(&self.client, node.ephemeral_owner, &marker, token, leads);
                if let Some(leave) = stamp.await {
                    let enter = turn.map_or(leave, |turn| turn.enter);
                    turn = Some(Turn { kind: Kind::Exclusive, place: token, enter, leave });
                }
                let is_lost = || !self.leads(term.token);
                contest.assert_ends_with(&self.client, node.ephemeral_owner, &marker, is_lost);
                sleep(Duration::from_millis(100)).await;
            }
            terms.extend(turn);
        }
        terms
    }

    /// Ends the session: closes it from elsewhere, or stops the service until it has expired.
    async fn end_session(&self, access: &Access, is_stopped: bool) {
        let old = self.client.session_id();
        while self.client.session_id() == old {
            if is_stopped {
                let stopped = self.runtime.spawn(async { thread::sleep(STOP) });
                stopped.await.expect("no panic");
                // Now it learns of it, unless the servers were busy and the session lives.
                sleep(STOP - SESSION_TIMEOUT).await;
            } else if let Some(ticket) = self.client.session_ticket()
                && let Ok(thief) = access.builder().resume(ticket).connect().await
            {
                thief.close().await;
                // Both take the connection from each other, so it may need several attempts.
                sleep(Duration::from_millis(20)).await;
            }
        }
    }

    async fn close(self) {
        self.candidate.close().timeout(HANG_TIMEOUT).await.expect("it resigns");
        self.here.close().timeout(HANG_TIMEOUT).await.expect("it is deleted");
        drop(self.cache);
        self.client.close().await;
    }
}

fn leader_marker(number: usize) -> String {
    format!("{LEADER_MARKER}{number}")
}

/// Ends the sessions of all services each `interval`, until the test ends.
async fn expire(
    services: Vec<Arc<Service>>,
    interval: Duration,
    access: Access,
    mut contest: Contest,
    operator: Arc<Operator>,
) -> Expired {
    let mut expired = Expired::default();
    for round in 0.. {
        if timeout(interval, contest.stopped.wait_for(|stopped| *stopped)).await.is_ok() {
            break;
        }
        operator.sessions_end();
        let mut ending = JoinSet::new();
        for service in services.iter().cloned() {
            let is_stopped = (round + service.number) % 2 == 1;
            *(if is_stopped { &mut expired.stopped } else { &mut expired.closed }) += 1;
            let access = access.clone();
            ending.spawn(async move { service.end_session(&access, is_stopped).await });
        }
        ending.join_all().await;
    }
    expired
}

/// Changes the tree until the test ends. Returns the number of changes.
async fn churn(
    access: Access,
    changing: Arc<Mutex<()>>,
    contest: Contest,
    mut rng: fastrand::Rng,
) -> u64 {
    let mut changes = 0;
    while !contest.is_over() {
        let client = access.connect().await;
        while !contest.is_over() && !matches!(client.state(), State::Ended(_)) {
            let branch = format!("{TREE}/{}", rng.u8(..8));
            let leaf = format!("{branch}/{}", rng.u8(..8));
            let gate = changing.lock().await;
            let changed = match rng.u8(..8) {
                0 => client.delete_all(&branch).await.is_ok(),
                1 => client.delete(&leaf, None).await.is_ok(),
                2..5 => client.ensure_path(&leaf).await.is_ok(),
                _ => client.set_data(&leaf, &[rng.u8(..); 8], None).await.is_ok(),
            };
            drop(gate);
            changes += u64::from(changed);
            sleep(Duration::from_millis(5)).await;
        }
        client.close().await;
    }
    changes
}
