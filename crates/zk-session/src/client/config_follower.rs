//! Follows the configuration of the ensemble: which servers to use from now on.
//!
//! The client uses the servers that the configuration names, and keeps the one that serves the
//! session. If all of them fail, it also tries those that its program has named, so it never depends
//! on addresses that it cannot reach.

use alloc::vec::Vec;

use super::ensemble_config::EnsembleConfig;
use crate::connect_string::ServerAddress;
use crate::dispatch::SharedSession;
use crate::session::State;
use crate::time::Instant;

/// Decides when to read the configuration, and which servers to use.
#[derive(Debug)]
pub struct ConfigFollower {
    /// The servers that the program has named.
    named: Vec<ServerAddress>,
    /// The servers of the newest configuration. Empty before there is one.
    followed: Vec<ServerAddress>,
    /// The version of that configuration, if this session has read it.
    version: Option<u64>,
    /// Whether that configuration has replaced another one of this session, so that sessions should
    /// spread over its servers anew. The first configuration is new to this client only.
    has_changed: bool,
    /// The servers that have failed since one has served the session.
    failed: Vec<ServerAddress>,
    reading: Reading,
    /// Whether the list of servers may have to change.
    is_changed: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Reading {
    /// Until the next connection.
    Paused,
    Wanted,
    Requested,
    /// The configuration is read, and a watch is set.
    Watching,
}

impl ConfigFollower {
    /// Makes a follower of a session with these servers.
    pub fn new(named: Vec<ServerAddress>) -> Self {
        Self {
            named,
            followed: Vec::new(),
            version: None,
            has_changed: false,
            failed: Vec::new(),
            reading: Reading::Paused,
            is_changed: false,
        }
    }

    /// Notes that the program has replaced the list. It holds until there is a newer configuration.
    pub fn set_servers(&mut self, named: Vec<ServerAddress>) {
        (self.named, self.is_changed) = (named, false);
        self.followed.clear();
        self.failed.clear();
    }

    /// Handles a new state of the session.
    pub fn handle_state(&mut self, state: State) {
        match state {
            State::Connected { .. } | State::ReadOnly { .. } => {
                self.failed.clear();
                self.is_changed = true;
            }
            // The history of another session may be older, as after a restored backup.
            State::Renewing => self.version = None,
            _ => {}
        }
        // A server without a quorum may have an old configuration.
        if matches!(state, State::Connected { .. }) && self.reading == Reading::Paused {
            self.reading = Reading::Wanted;
        }
    }

    /// Handles that an attempt to connect, or the connection, has failed.
    pub fn handle_failed(&mut self, server: &ServerAddress) {
        if !self.failed.contains(server) {
            self.failed.push(server.clone());
        }
        self.is_changed = true;
    }

    /// Returns whether to read the configuration, with a watch.
    pub fn wants_config(&self) -> bool {
        self.reading == Reading::Wanted
    }

    /// Handles that the request is made.
    pub fn handle_requested(&mut self) {
        self.reading = Reading::Requested;
    }

    /// Handles what was read, or `None` after an error: without permission, without such a node as
    /// before 3.5, or without a connection. Then the next connection is asked.
    pub fn handle_config(&mut self, data: Option<&[u8]>) {
        let Some(data) = data else {
            self.reading = Reading::Paused;
            return;
        };
        self.reading = Reading::Watching;
        let config = EnsembleConfig::parse(data);
        let is_newer = self.version.is_none_or(|version| version < config.version);
        if is_newer && !config.servers.is_empty() {
            self.has_changed = self.version.replace(config.version).is_some();
            self.followed = config.servers;
            self.is_changed = true;
        }
    }

    /// Handles the end of the watch: by an event, or with its session.
    pub fn handle_watch(&mut self, has_fired: bool) {
        self.reading = if has_fired { Reading::Wanted } else { Reading::Paused };
    }

    /// Replaces the session's list of `servers`, if it has to change. Returns the new list. Events
    /// that the session has not reported yet have indices of the old one.
    pub fn replace_servers<T>(
        &mut self,
        session: &mut SharedSession<T>,
        now: Instant,
        servers: &[ServerAddress],
    ) -> Option<Vec<ServerAddress>> {
        let current = match session.state() {
            State::Connected { server, .. } | State::ReadOnly { server, .. } => servers.get(server),
            _ => None,
        };
        let wanted = self.poll_servers(servers, current)?;
        session.0.replace_servers(now, &places(servers, &wanted), wanted.len(), self.has_changed);
        Some(wanted)
    }

    /// Returns the list that replaces `servers`, if it differs. `current` is the server that serves
    /// the session.
    fn poll_servers(
        &mut self,
        servers: &[ServerAddress],
        current: Option<&ServerAddress>,
    ) -> Option<Vec<ServerAddress>> {
        if !core::mem::take(&mut self.is_changed) || self.followed.is_empty() {
            return None;
        }
        let more = match current {
            Some(current) => core::slice::from_ref(current),
            None if servers.iter().all(|server| self.failed.contains(server)) => &self.named,
            None => return None,
        };
        let mut wanted = self.followed.clone();
        for server in more {
            if !wanted.contains(server) {
                wanted.push(server.clone());
            }
        }
        let is_same = wanted.len() == servers.len() && wanted.iter().all(|it| servers.contains(it));
        (!is_same).then_some(wanted)
    }
}

/// Returns the index of each old server in the new list.
pub(super) fn places(old: &[ServerAddress], new: &[ServerAddress]) -> Vec<Option<usize>> {
    old.iter().map(|server| new.iter().position(|other| other == server)).collect()
}

#[cfg(test)]
mod tests;
