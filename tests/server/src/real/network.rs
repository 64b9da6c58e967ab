//! A network with a namespace for each server, in which packets get lost on the way from one to
//! another. Needs Linux, its command `ip`, and root.

use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::process::{self, Command};

use super::run;

/// An address that no interface has. Packets to it are lost without a report to their sender.
const NOWHERE: &str = "02:00:00:00:00:01";

/// How many subnets a process chooses from.
const SUBNETS: u32 = 8;

/// An end of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// One server.
    Server(usize),
    /// All clients.
    Clients,
}

/// Dropping the network removes it.
#[derive(Debug)]
pub(super) struct Network {
    /// That of the bridge, and the beginning of all other names.
    name: String,
    subnet: [u8; 3],
    servers: usize,
}

impl Network {
    pub(super) fn start(servers: usize) -> io::Result<Self> {
        let network = Self::with_own_subnet(servers)?;
        let bridge = &network.name;
        ip(&format!("link set {bridge} up"))?;
        for server in 0..servers {
            let (namespace, link) = (network.namespace(server), format!("{bridge}v{server}"));
            let address = network.address(End::Server(server));
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("link add {link} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("link set {link} master {bridge} up"))?;
            ip(&format!("-n {namespace} addr add {address}/24 dev eth0"))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(network)
    }

    /// Adds a bridge that is still down, on a subnet that no other interface has.
    fn with_own_subnet(servers: usize) -> io::Result<Self> {
        for _ in 0..SUBNETS {
            let network = Self::with_bridge(servers)?;
            if network.has_subnet_alone()? {
                return Ok(network);
            }
        }
        Err(io::Error::other("no free subnet"))
    }

    /// Adds a bridge that is still down, on a subnet that another process may have chosen.
    fn with_bridge(servers: usize) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let [.., high, low] = (process * SUBNETS + number % SUBNETS).to_be_bytes();
        let name = format!("zk{process}n{number}");
        ip(&format!("link add {name} type bridge"))?;
        let network = Self { name, subnet: [10, 64 + high % 64, low], servers };
        let clients = network.address(End::Clients);
        ip(&format!("addr add {clients}/24 dev {}", network.name))?;
        Ok(network)
    }

    /// Returns whether no other interface has an address in this subnet.
    fn has_subnet_alone(&self) -> io::Result<bool> {
        let clients = self.address(End::Clients);
        let addresses = ip(&format!("-oneline addr show to {clients}/24"))?;
        Ok(addresses.lines().count() == 1)
    }

    pub(super) fn address(&self, end: End) -> Ipv4Addr {
        let [a, b, c] = self.subnet;
        let last = match end {
            End::Clients => 1,
            End::Server(server) => 2 + server,
        };
        Ipv4Addr::new(a, b, c, u8::try_from(last).expect("few servers"))
    }

    /// Returns the command that runs a program in the namespace of a server.
    pub(super) fn command(&self, server: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(server), program]);
        command
    }

    /// Loses all packets from one end to another, in this direction, until [`heal`](Self::heal).
    pub(super) fn lose(&self, from: End, to: End) -> io::Result<()> {
        let (options, interface) = self.place(from);
        let to = self.address(to);
        ip(&format!("{options} neigh replace {to} lladdr {NOWHERE} dev {interface} nud permanent"))
            .map(drop)
    }

    /// Loses no more packets.
    pub(super) fn heal(&self) -> io::Result<()> {
        (0..self.servers).map(End::Server).chain([End::Clients]).try_for_each(|end| {
            let (options, interface) = self.place(end);
            ip(&format!("{options} neigh flush dev {interface} nud permanent")).map(drop)
        })
    }

    /// Returns the options that lead to the namespace of an end, and its interface there.
    fn place(&self, end: End) -> (String, &str) {
        match end {
            End::Clients => (String::new(), &self.name),
            End::Server(server) => (format!("-n {}", self.namespace(server)), "eth0"),
        }
    }

    fn namespace(&self, server: usize) -> String {
        format!("{}-{server}", self.name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // What was never made cannot be removed.
        for server in 0..self.servers {
            let _ = ip(&format!("netns del {}", self.namespace(server)));
        }
        let _ = ip(&format!("link del {}", self.name));
    }
}

fn ip(arguments: &str) -> io::Result<String> {
    run(Command::new("ip").args(arguments.split_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::skip;

    #[test]
    fn a_subnet_of_another_network_is_noticed() {
        if Network::with_bridge(0).is_err() {
            return skip("networks take Linux and root");
        }
        let first = Network::with_own_subnet(0).expect("a free subnet");
        assert!(first.has_subnet_alone().expect("it is listed"));
        let [a, b, c] = first.subnet;
        let second = Network::with_bridge(0).expect("a bridge");
        ip(&format!("addr add {a}.{b}.{c}.99/24 dev {}", second.name)).expect("an address");
        assert!(!first.has_subnet_alone().expect("they are listed"));
        drop(second);
        assert!(first.has_subnet_alone().expect("it is listed"));
    }
}
