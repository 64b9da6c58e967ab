//! Faults of real servers.

use core::fmt;
use core::time::Duration;
use std::{env, io, thread};

use zk_testkit::real::{End, RealEnsemble};

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillLeader,
    KillFollower,
    /// The process stops with all its connections, and continues later.
    PauseLeader,
    PauseFollower,
    RollingRestart,
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
    const ALL: [Self; 13] = [
        Self::KillLeader,
        Self::KillFollower,
        Self::PauseLeader,
        Self::PauseFollower,
        Self::RollingRestart,
        Self::PartitionLeader,
        Self::PartitionFollower,
        Self::MuteLeader,
        Self::DeafenLeader,
        Self::IsolateLeader,
        Self::IsolateFollower,
        Self::MuteClients,
        Self::FullDisk,
    ];

    /// Returns whether it is possible only with [isolated](zk_testkit::real::Settings) servers.
    const fn needs_isolation(self) -> bool {
        match self {
            Self::KillLeader
            | Self::KillFollower
            | Self::PauseLeader
            | Self::PauseFollower
            | Self::RollingRestart => false,
            Self::PartitionLeader
            | Self::PartitionFollower
            | Self::MuteLeader
            | Self::DeafenLeader
            | Self::IsolateLeader
            | Self::IsolateFollower
            | Self::MuteClients
            | Self::FullDisk => true,
        }
    }
}

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
}

impl Faults {
    /// Draws from the faults that `ZK_CHAOS_FAULTS` names, or from all that are possible.
    pub(super) fn new(rng: fastrand::Rng, are_isolated: bool) -> Self {
        let named = env::var("ZK_CHAOS_FAULTS").ok();
        let is_named = |fault: &Fault| {
            let name = format!("{fault:?}");
            named.as_ref().is_none_or(|named| named.split(',').any(|kind| kind == name))
        };
        let is_possible = |fault: &Fault| are_isolated || !fault.needs_isolation();
        let kinds: Vec<_> = Fault::ALL.into_iter().filter(is_possible).filter(is_named).collect();
        assert!(!kinds.is_empty(), "ZK_CHAOS_FAULTS has none of {:?}", Fault::ALL);
        Self { rng, kinds, struck: Vec::new(), deck: Vec::new() }
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

    fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(least..most))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, kind) in Fault::ALL.iter().enumerate() {
            let count = self.struck.iter().filter(|fault| **fault as usize == place).count();
            write!(f, "{}{kind:?} {count}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
