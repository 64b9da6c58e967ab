//! The configuration of the ensemble, as `/zookeeper/config` shows it.

use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

use zk_proto::frame;

use crate::connect_string::{ServerAddress, parse_server};

/// How many servers are read: server ids have one byte.
const MAX_SERVERS: usize = 255;
/// How many addresses of one server are read.
const MAX_ADDRESSES: usize = 8;
/// The longest name of a host.
const MAX_HOST: usize = 253;

/// A configuration of the ensemble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnsembleConfig {
    /// Rises with each change.
    pub(crate) version: u64,
    /// The addresses for clients, without duplicates.
    pub(crate) servers: Vec<ServerAddress>,
}

impl EnsembleConfig {
    /// Parses the data of `/zookeeper/config`. Ignores what it does not understand.
    ///
    /// Observers and participants are alike: both serve clients.
    pub(crate) fn parse(data: &[u8]) -> Self {
        let mut config = Self::default();
        let data = Some(data).filter(|data| data.len() <= frame::DEFAULT_LIMIT);
        let text = data.and_then(|data| core::str::from_utf8(data).ok()).unwrap_or_default();
        let mut left = MAX_SERVERS;
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            if key == "version" {
                config.version = u64::from_str_radix(value, 16).unwrap_or_default();
            } else if key.starts_with("server.") && left > 0 {
                left -= 1;
                config.add(value);
            }
        }
        config
    }

    /// Adds the addresses of a server: `host:port:port[:role][|host:port:port];[address:]port`. It has
    /// none without the port behind the semicolon.
    ///
    /// If it listens at all addresses of its host, clients use the host's name within the ensemble.
    fn add(&mut self, server: &str) {
        let Some((own, client)) = server.split_once(';') else { return };
        let (own, client) = (own.trim(), client.trim());
        let (host, port) = client.rsplit_once(':').unwrap_or(("", client));
        if host.is_empty() || is_wildcard(host) {
            own.split('|').take(MAX_ADDRESSES).for_each(|own| self.add_address(host_of(own), port));
        } else {
            self.add_address(host, port);
        }
    }

    fn add_address(&mut self, host: &str, port: &str) {
        if is_wildcard(host) || host.len() > MAX_HOST || host.contains([',', '/']) {
            return;
        }
        if let Ok(server) = parse_server(&format!("{host}:{port}"), 0)
            && !self.servers.contains(&server)
        {
            self.servers.push(server);
        }
    }
}

/// Returns the host of `host:port:port:role`, with its brackets.
fn host_of(own: &str) -> &str {
    let end = match own.starts_with('[') {
        true => own.find(']').map(|bracket| bracket + 1),
        false => own.find(':'),
    };
    end.and_then(|end| own.get(..end)).unwrap_or(own)
}

/// Returns whether an address stands for all addresses of its host.
fn is_wildcard(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse().is_ok_and(|address: IpAddr| address.is_unspecified())
}

#[cfg(test)]
mod tests;
