//! Faults of real servers.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;
use std::{env, io, thread};

use zk_session::proto::OpCode;
use zk_testkit::proxy::{Proxy, When};
use zk_testkit::real::{End, RealEnsemble};

use super::{HANG_TIMEOUT, access};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    KillLeader,
    KillFollower,
    /// The process stops with all its connections, and continues later.
    PauseLeader,
    PauseFollower,
    RollingRestart,
    /// Each server starts again with another version, the leader last.
    RollingUpgrade,
    /// The proxy cuts connections before a server receives a request of one kind.
    CutBefore,
    /// The proxy cuts connections before a client receives a reply of one kind.
    CutAfter,
    /// Nothing passes between the server and the others. Clients still reach it.
    PartitionLeader,
    PartitionFollower,
    /// What the leader sends to the others is lost. What they send still arrives.
    MuteLeader,
    /// What the others send to the leader is lost.
    DeafenLeader,
    /// Nothing passes between the server and anybody, clients included.
    IsolateLeader,
    IsolateFollower,
    /// What clients send is lost, and what the servers send still arrives.
    MuteClients,
    /// The disk is full, so the server leaves the others. It starts again when there is room.
    FullDisk,
}

impl Fault {
    const ALL: [Self; 16] = [
        Self::KillLeader,
        Self::KillFollower,
        Self::PauseLeader,
        Self::PauseFollower,
        Self::RollingRestart,
        Self::RollingUpgrade,
        Self::CutBefore,
        Self::CutAfter,
        Self::PartitionLeader,
        Self::PartitionFollower,
        Self::MuteLeader,
        Self::DeafenLeader,
        Self::IsolateLeader,
        Self::IsolateFollower,
        Self::MuteClients,
        Self::FullDisk,
    ];

    /// Returns the name of the simulator's fault of this kind, if it has one.
    const fn in_the_simulator(self) -> Option<&'static str> {
        Some(match self {
            Self::KillLeader | Self::KillFollower => "kill",
            Self::RollingRestart | Self::RollingUpgrade => "kill",
            Self::PauseLeader | Self::PauseFollower => "pause",
            Self::CutBefore | Self::CutAfter => "cut",
            Self::PartitionLeader | Self::PartitionFollower => "part",
            Self::MuteLeader | Self::DeafenLeader => "part",
            Self::IsolateLeader | Self::IsolateFollower => "isolate",
            Self::MuteClients => "stall",
            Self::FullDisk => return None,
        })
    }

    fn is_called(self, name: &str) -> bool {
        format!("{self:?}") == name || self.in_the_simulator() == Some(name)
    }

    /// Returns what the fault takes.
    const fn need(self) -> Need {
        match self {
            Self::KillLeader
            | Self::KillFollower
            | Self::PauseLeader
            | Self::PauseFollower
            | Self::RollingRestart => Need::Nothing,
            Self::RollingUpgrade => Need::Versions,
            Self::CutBefore | Self::CutAfter => Need::Proxy,
            Self::PartitionLeader
            | Self::PartitionFollower
            | Self::MuteLeader
            | Self::DeafenLeader
            | Self::IsolateLeader
            | Self::IsolateFollower
            | Self::MuteClients
            | Self::FullDisk => Need::Isolation,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Need {
    Nothing,
    /// Several versions.
    Versions,
    /// A proxy, which cannot read TLS.
    Proxy,
    /// [Isolated](zk_testkit::real::Settings) servers.
    Isolation,
}

/// The operations at which the proxy cuts connections: those that clients of this workspace use.
const OPERATIONS: [OpCode; 7] = [
    OpCode::CREATE2,
    OpCode::DELETE,
    OpCode::SET_DATA,
    OpCode::MULTI,
    OpCode::GET_CHILDREN2,
    OpCode::GET_DATA,
    OpCode::SYNC,
];

const SERVERS: [End; 3] = [End::Server(0), End::Server(1), End::Server(2)];
const EVERYBODY: [End; 4] = [SERVERS[0], SERVERS[1], SERVERS[2], End::Clients];

/// Returns the ways from a server to others.
fn outward(server: usize, ends: &[End]) -> Vec<(End, End)> {
    let server = End::Server(server);
    ends.iter().filter(|end| **end != server).map(|end| (server, *end)).collect()
}

/// Returns the ways from others to a server.
fn inward(server: usize, ends: &[End]) -> Vec<(End, End)> {
    outward(server, ends).into_iter().map(|(from, to)| (to, from)).collect()
}

fn both_ways(server: usize, ends: &[End]) -> Vec<(End, End)> {
    [outward(server, ends), inward(server, ends)].concat()
}

/// Faults in a random order, each as often as the others.
pub(super) struct Faults {
    rng: fastrand::Rng,
    kinds: Vec<Fault>,
    struck: Vec<Fault>,
    deck: Vec<Fault>,
    proxy: Option<Arc<Proxy>>,
    versions: Vec<String>,
    /// The versions that were rolled out.
    upgrades: Vec<String>,
}

impl Faults {
    /// Draws from the faults that `ZK_CHAOS_FAULTS` names, or from all that are possible.
    pub(super) fn new(rng: fastrand::Rng, proxy: Option<Arc<Proxy>>) -> Self {
        let versions = access::versions();
        let named = env::var("ZK_CHAOS_FAULTS").ok();
        let is_named = |fault: &Fault| {
            let mut names = named.iter().flat_map(|named| named.split(','));
            named.is_none() || names.any(|name| fault.is_called(name))
        };
        let is_possible = |fault: &Fault| match fault.need() {
            Need::Nothing => true,
            Need::Versions => versions.len() > 1,
            Need::Proxy => proxy.is_some(),
            Need::Isolation => access::is_isolated(),
        };
        let kinds: Vec<_> = Fault::ALL.into_iter().filter(is_possible).filter(is_named).collect();
        assert!(!kinds.is_empty(), "ZK_CHAOS_FAULTS has none of {:?}", Fault::ALL);
        for name in named.iter().flat_map(|named| named.split(',')) {
            let is_known = kinds.iter().any(|fault| fault.is_called(name));
            assert!(is_known, "no fault that is possible here is called {name}");
        }
        let (struck, deck, upgrades) = Default::default();
        Self { rng, kinds, struck, deck, proxy, versions, upgrades }
    }

    /// Returns why the proxy could not read messages.
    pub(super) fn unreadable(&self) -> Vec<String> {
        self.proxy.as_ref().map(|proxy| proxy.unreadable()).unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.struck.len()
    }

    /// Returns the name of the last fault.
    pub(super) fn last(&self) -> String {
        self.struck.last().map_or_else(|| "no fault".into(), |fault| format!("{fault:?}"))
    }

    /// Injects the next fault, and heals it. All servers serve before and after.
    pub(super) fn strike(&mut self, ensemble: &mut RealEnsemble) -> io::Result<()> {
        if self.deck.is_empty() {
            self.deck.clone_from(&self.kinds);
            self.rng.shuffle(&mut self.deck);
        }
        let Some(fault) = self.deck.pop() else { return Ok(()) };
        self.struck.push(fault);
        let leader = ensemble.leader().ok_or_else(|| io::Error::other("no leader"))?;
        let follower = (leader + self.rng.usize(1..3)) % 3;
        match fault {
            Fault::KillLeader => self.kill(ensemble, leader),
            Fault::KillFollower => self.kill(ensemble, follower),
            Fault::PauseLeader => self.pause(ensemble, leader),
            Fault::PauseFollower => self.pause(ensemble, follower),
            Fault::RollingRestart => (0..3).try_for_each(|server| {
                ensemble.restart(server)?;
                ensemble.wait_until_all_serve()
            }),
            Fault::RollingUpgrade => self.upgrade(ensemble, leader),
            Fault::CutBefore => self.cut(When::Before),
            Fault::CutAfter => self.cut(When::After),
            Fault::PartitionLeader => self.lose(ensemble, &both_ways(leader, &SERVERS)),
            Fault::PartitionFollower => self.lose(ensemble, &both_ways(follower, &SERVERS)),
            Fault::MuteLeader => self.lose(ensemble, &outward(leader, &SERVERS)),
            Fault::DeafenLeader => self.lose(ensemble, &inward(leader, &SERVERS)),
            Fault::IsolateLeader => self.lose(ensemble, &both_ways(leader, &EVERYBODY)),
            Fault::IsolateFollower => self.lose(ensemble, &both_ways(follower, &EVERYBODY)),
            Fault::MuteClients => {
                self.lose(ensemble, &SERVERS.map(|server| (End::Clients, server)))
            }
            Fault::FullDisk => {
                let server = self.rng.usize(..3);
                ensemble.fill_disk(server)?;
                thread::sleep(self.between(500, 5_000));
                ensemble.extend_disk(server)?;
                ensemble.restart(server)?;
                ensemble.wait_until_all_serve()
            }
        }
    }

    /// Loses what is sent from the first end of each pair to the second.
    fn lose(&mut self, ensemble: &mut RealEnsemble, ways: &[(End, End)]) -> io::Result<()> {
        ways.iter().try_for_each(|(from, to)| ensemble.lose(*from, *to))?;
        thread::sleep(self.between(500, 8_000));
        ensemble.heal_network()?;
        ensemble.wait_until_all_serve()
    }

    fn kill(&mut self, ensemble: &mut RealEnsemble, server: usize) -> io::Result<()> {
        ensemble.kill(server)?;
        thread::sleep(self.between(500, 2_500));
        ensemble.restart(server)?;
        ensemble.wait_until_all_serve()
    }

    fn pause(&mut self, ensemble: &mut RealEnsemble, server: usize) -> io::Result<()> {
        ensemble.pause(server)?;
        // From too short to notice, to long enough to cost a server its role and sessions their
        // lives.
        thread::sleep(self.between(500, 8_000));
        ensemble.resume(server)?;
        ensemble.wait_until_all_serve()
    }

    /// Goes to the next version: up to the last one, then down to the first one, and so on.
    fn upgrade(&mut self, ensemble: &mut RealEnsemble, leader: usize) -> io::Result<()> {
        let last = self.versions.len() - 1;
        let step = (self.upgrades.len() + 1) % (2 * last);
        let version = self.versions[step.min(2 * last - step)].clone();
        for server in [(leader + 1) % 3, (leader + 2) % 3, leader] {
            ensemble.change_version(server, &version)?;
            ensemble.wait_until_all_serve()?;
        }
        self.upgrades.push(version);
        Ok(())
    }

    /// Cuts connections at an operation, for as long as a client takes to connect some times, and at
    /// least one.
    fn cut(&mut self, when: When) -> io::Result<()> {
        let operation = OPERATIONS[self.rng.usize(..OPERATIONS.len())];
        let (count, time) = (self.rng.usize(1..40), self.between(500, 3_000));
        if let Some(proxy) = &self.proxy {
            let (before, end) = (proxy.cuts().total(), Instant::now() + HANG_TIMEOUT);
            proxy.cut(when, operation, count);
            thread::sleep(time);
            while proxy.cuts().total() == before {
                if Instant::now() > end {
                    return Err(io::Error::other(format!("nobody sends {operation}")));
                }
                thread::sleep(Duration::from_millis(10));
            }
            proxy.heal();
        }
        Ok(())
    }

    fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(least..most))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, kind) in Fault::ALL.iter().enumerate() {
            let count = self.struck.iter().filter(|fault| *fault == kind).count();
            let name = kind.in_the_simulator().map(|name| format!("{name}: "));
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{}{kind:?} {count}", name.unwrap_or_default())?;
        }
        if let Some(proxy) = &self.proxy {
            write!(f, "; {}", proxy.cuts())?;
        }
        if !self.upgrades.is_empty() {
            write!(f, "; from {} to {}", self.versions[0], self.upgrades.join(" to "))?;
        }
        Ok(())
    }
}

#[test]
fn the_simulator_has_the_faults_that_are_named_after_it() {
    let names = zk_testkit::sim::Fault::NAMES;
    let named: Vec<_> = Fault::ALL.into_iter().filter_map(Fault::in_the_simulator).collect();
    assert_eq!(named.len(), Fault::ALL.len() - 1, "all but the full disk");
    assert!(named.iter().all(|name| names.contains(name)), "{named:?}");
}
