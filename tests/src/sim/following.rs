//! Runs in which all servers of an ensemble are replaced, while clients follow its configuration.
//!
//! In each period there are faults, and up to two of three members leave for good. So each client
//! knows one that serves in the end, and must be connected soon after the last fault.

use core::net::{Ipv4Addr, SocketAddr};

use zk_session::ServerAddress;

use super::*;

const CLIENTS: usize = 4;
const SERVERS: usize = 3;
const PERIODS: usize = 6;
/// The time within which all clients are connected and use the members, after the last fault. A
/// handshake on a half-open connection may take 60 s of it, after a slow link.
const RECONNECT: Duration = Duration::from_secs(70);
/// The quiet time before the end.
const REST: Duration = Duration::from_secs(20);
/// The name of a replacement in the report.
pub const REPLACED: &str = "replace";
const FIRST_PORT: u16 = 2181;

/// Returns the address of a server for clients.
pub(super) fn address(server: usize) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, FIRST_PORT + server as u16).into()
}

/// Returns the same address, as the program names it.
pub(super) fn named(server: usize) -> ServerAddress {
    let address = address(server);
    ServerAddress { host: address.ip().to_string(), port: address.port() }
}

/// Returns the server with this address.
pub(super) fn number(address: &ServerAddress) -> usize {
    usize::from(address.port - FIRST_PORT)
}

/// Executes a run from a seed.
pub fn following(seed: u64, bug: Option<Bug>) -> Report {
    let mut rng = fastrand::Rng::with_seed(!seed);
    let (read_only, renew) = (rng.bool(), true);
    let options = Options {
        seed,
        clients: CLIENTS,
        servers: SERVERS,
        read_only,
        renew,
        follow: true,
        bug,
        ..Options::default()
    };
    let mut sim = Sim::new(options.clone());
    for period in 0..=PERIODS {
        sim.run_until(RECONNECT, |sim| sim.stray().is_none());
        if let Some(what) = sim.stray() {
            sim.checker.violated(format!("after period {period}: {what}"));
        }
        if period == PERIODS || !sim.checker.violations().is_empty() {
            break;
        }
        let window = (sim.now, sim.now + Duration::from_secs(12));
        let options = Options { servers: sim.ensemble.servers(), ..options.clone() };
        for (at, fault) in Fault::draw(&mut rng, &options, 12, window) {
            if !NOT_IN_LASTING.contains(&fault.name()) {
                sim.schedule(at, fault);
            }
        }
        let replacements = rng.u32(1..=2);
        for _ in 0..replacements {
            sim.advance((window.1 - window.0).mul_f64(rng.f64()) / replacements);
            if sim.replace_member(&mut rng) {
                sim.checker.count(REPLACED);
            }
        }
        sim.advance(window.1.saturating_sub(sim.now));
        sim.heal();
    }
    // Clients may leave half-open connections long after the last fault.
    sim.advance(REST);
    sim.reap_half_open();
    sim.close_all();
    sim.report()
}

impl Sim {
    /// Replaces a random member, mostly an old one, if there is a leader.
    fn replace_member(&mut self, rng: &mut fastrand::Rng) -> bool {
        let members: Vec<_> = self.ensemble.members().collect();
        let old = members[rng.usize(..members.len()).min(rng.usize(..members.len()))];
        let address = address(self.ensemble.servers());
        let new = self.ensemble.replace_member(self.now, old, address);
        self.trace.bytes(self.now, "replacement of server", old as u64, &[]);
        self.drain_ensemble();
        new.is_some()
    }

    /// Returns what is wrong with a client, if one is not connected or does not use the members.
    fn stray(&self) -> Option<String> {
        let members: BTreeSet<_> = self.ensemble.members().collect();
        let mut clients = self.slots.iter().filter_map(|slot| slot.machine.as_ref());
        clients.find_map(|client| {
            if !matches!(client.state(), State::Connected { .. }) {
                return Some(format!("a client is {:?}", client.state()));
            }
            let servers: BTreeSet<_> = client.servers().iter().map(number).collect();
            let is_stray = !servers.is_empty() && servers != members;
            is_stray.then(|| format!("a client uses {servers:?} instead of {members:?}"))
        })
    }
}
