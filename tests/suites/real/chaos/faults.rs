//! Faults of real servers.

use core::fmt;
use core::time::Duration;
use std::{env, io, thread};

use zk_testkit::real::RealEnsemble;

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillLeader,
    KillFollower,
    /// The process stops with all its connections, and continues later.
    PauseLeader,
    PauseFollower,
    RollingRestart,
}

impl Fault {
    const ALL: [Self; 5] = [
        Self::KillLeader,
        Self::KillFollower,
        Self::PauseLeader,
        Self::PauseFollower,
        Self::RollingRestart,
    ];
}

/// Faults in a random order, each as often as the others.
pub(super) struct Faults {
    rng: fastrand::Rng,
    kinds: Vec<Fault>,
    struck: Vec<Fault>,
    deck: Vec<Fault>,
}

impl Faults {
    /// Takes the kinds that `ZK_CHAOS_FAULTS` names, or all.
    pub(super) fn new(rng: fastrand::Rng) -> Self {
        let named = env::var("ZK_CHAOS_FAULTS").ok();
        let is_named = |fault: &Fault| {
            let name = format!("{fault:?}");
            named.as_ref().is_none_or(|named| named.split(',').any(|kind| kind == name))
        };
        let kinds: Vec<_> = Fault::ALL.into_iter().filter(is_named).collect();
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
        }
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
