//! Caches of a tree that many clients change, with faults.

use zk_recipes::machine::{CacheConfig, CacheState};

use super::client::SimCache;
use super::*;

/// The root of the cached tree.
const ROOT: &str = "/tree";
const CLIENTS: usize = 4;
const ROUNDS: usize = 3;
/// The time of each round in which nodes change and faults strike.
const FAULTY: Duration = Duration::from_secs(6);
/// The time within which caches must be ready after the last fault.
const GRACE: Duration = Duration::from_secs(30);
/// The time without changes before caches are compared.
const REST: Duration = Duration::from_millis(200);

/// Caches a small tree in several clients, which change it at the same time, in rounds: changes and
/// faults, then rest. After each round, every cache equals the tree of the ensemble, and so does
/// what it has reported.
///
/// The seed decides on the release of the servers, and on whether clients renew their sessions,
/// accept read-only servers and use persistent watches.
pub fn caches(seed: u64, bug: Option<Bug>) -> Report {
    let mut rng = fastrand::Rng::with_seed(seed);
    let versions = [Version::V3_5, Version::V3_6, Version::V3_8, Version::V3_9];
    let options = Options {
        seed,
        clients: CLIENTS,
        read_only: rng.bool(),
        renew: rng.u8(..4) > 0,
        version: versions[rng.usize(..versions.len())],
        bug,
        recording: (seed.is_multiple_of(8) && bug.is_none())
            .then_some(Recording::ring as fn(_) -> _),
        ..Options::default()
    };
    let mut scene = Scene {
        sim: Sim::new(options.clone()),
        caches: vec![None; CLIENTS],
        rng,
        written: 0,
        counts: BTreeMap::new(),
        violations: Vec::new(),
    };
    for _ in 0..ROUNDS {
        scene.round(&options);
    }
    scene.finish()
}

struct Scene {
    sim: Sim,
    /// The cache of each client, with the client's incarnation.
    caches: Vec<Option<(u64, SimCache)>>,
    rng: fastrand::Rng,
    written: u64,
    counts: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

impl Scene {
    fn round(&mut self, options: &Options) {
        let begin = self.sim.now;
        let count = self.rng.usize(..12);
        let window = (begin, begin + FAULTY);
        for (at, fault) in Fault::draw(&mut self.rng, options, count, window) {
            self.sim.schedule(at, fault);
        }
        // Quick changes now and then, so that requests and events cross.
        while self.sim.now < begin + FAULTY {
            self.attach();
            let pause = [20, 2_000, 300_000][self.rng.usize(..3)];
            let pause = Duration::from_micros(self.rng.u64(..pause));
            self.sim.advance(pause);
            let (client, call) = (self.rng.usize(..CLIENTS), self.choose());
            self.sim.with(client, |now, client| client.call(now, call));
        }
        self.sim.heal();
        // Crashed clients come back, and find the tree as it is.
        self.sim.advance(Duration::from_secs(15));
        self.attach();
        let caches: Vec<_> = self.caches.iter().flatten().map(|(_, it)| it.clone()).collect();
        let is_ready = |cache: &SimCache| cache.state() == CacheState::Ready;
        let are_ready = |_: &Sim| caches.iter().all(is_ready);
        if !self.sim.run_until(GRACE, are_ready) {
            let states: Vec<_> = caches.iter().map(SimCache::state).collect();
            self.violated(format!("not ready: {states:?}"));
        }
        self.sim.advance(REST);
        for (client, cache) in caches.iter().enumerate() {
            self.compare(client, cache);
        }
    }

    /// Attaches a cache to each client that has none.
    fn attach(&mut self) {
        for client in 0..CLIENTS {
            let slot = &self.sim.slots[client];
            let Some(machine) = &slot.machine else { continue };
            if machine.has_ended() {
                self.sim.end(client);
                self.sim.begin(client);
            }
            let incarnation = self.sim.slots[client].incarnation;
            if self.caches[client].as_ref().is_some_and(|(before, _)| *before == incarnation) {
                continue;
            }
            let mut config = CacheConfig::new(ROOT.into());
            config.is_persistent = self.rng.u8(..4) > 0;
            config.is_recursive = self.rng.u8(..8) > 0;
            config.max_requests = self.rng.usize(1..8);
            let cache = self.sim.with(client, |now, client| client.cache(now, config));
            let before = cache.and_then(|cache| self.caches[client].replace((incarnation, cache)));
            self.count(before.map(|(_, cache)| cache));
        }
    }

    /// Chooses a change of the tree: three levels with few names, so that nodes come and go.
    fn choose(&mut self) -> Call {
        let Self { rng, written, .. } = self;
        *written += 1;
        let mut path = ROOT.to_owned();
        for _ in 0..rng.usize(..4) {
            path += ["/a", "/a-b", "/b"][rng.usize(..3)];
        }
        match rng.u8(..10) {
            0..5 => {
                let modes = [zk_proto::CreateMode::PERSISTENT, zk_proto::CreateMode::EPHEMERAL];
                Call::Create { path, mode: modes[usize::from(rng.u8(..4) == 0)] }
            }
            5..7 => Call::Delete { path },
            _ => Call::Write { path, data: written.to_string() },
        }
    }

    fn compare(&mut self, client: usize, cache: &SimCache) {
        *self.counts.entry("cache: compared").or_default() += 1;
        let is_recursive = cache.is_recursive();
        let in_cache = |path: &str| {
            let rest = path.strip_prefix(ROOT);
            rest.is_some_and(|rest| rest.is_empty() || is_recursive && rest.starts_with('/'))
        };
        let tree = self.sim.ensemble.tree_of(self.sim.ensemble.leader().unwrap_or_default());
        let nodes = tree.into_iter().flat_map(|tree| tree.iter());
        let nodes = nodes.filter(|(path, _)| in_cache(path)).map(|(path, node)| {
            let data = node.data().unwrap_or_default().to_vec();
            (path.to_owned(), (data, node.stat().czxid, node.stat().mzxid))
        });
        let expected: BTreeMap<_, _> = nodes.collect();
        for (what, nodes) in [("cache", cache.nodes()), ("mirror", cache.mirror())] {
            let nodes = nodes
                .into_iter()
                .map(|(path, node)| (path, (node.data.to_vec(), node.stat.czxid, node.stat.mzxid)));
            let found: BTreeMap<_, _> = nodes.collect();
            if found != expected {
                self.violated(format!(
                    "client {client}: the {what} is {found:?} instead of {expected:?}"
                ));
            }
        }
    }

    fn violated(&mut self, what: String) {
        let now = self.sim.now;
        self.violations.push(format!("{now:?}: {what}"));
    }

    /// Adds what a cache has reported.
    fn count(&mut self, cache: Option<SimCache>) {
        if let Some(cache) = cache {
            for (event, count) in cache.counts() {
                *self.counts.entry(event).or_default() += count;
            }
            self.violations.extend(cache.violations());
        }
    }

    fn finish(mut self) -> Report {
        for client in 0..CLIENTS {
            let cache = self.caches[client].take();
            self.count(cache.map(|(_, cache)| cache));
        }
        self.sim.reap_half_open();
        self.sim.close_all();
        let mut report = self.sim.report();
        report.counts.append(&mut self.counts);
        report.violations.append(&mut self.violations);
        report.violations.extend(self.sim.replay().0.iter().map(ToString::to_string));
        report
    }
}
