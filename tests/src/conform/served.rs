//! Scenes that an ensemble serves, whose requests can be held back, applied without a reply, or lost.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use zk_proto::OpCode;

use super::pattern::{integer, parse};
use super::player::{Played, Player, fail};
use crate::server::{Config, Ensemble, Keeper, Output};

impl Player<'_> {
    pub(super) fn start_ensemble(&mut self, words: &[String]) -> Played {
        let mut config = Config::servers(self.addresses.len());
        for word in words {
            match word.split_once('=') {
                Some(("closes-at", opcode)) => {
                    config.closes_at.push(OpCode(i32::try_from(integer(opcode)?).unwrap_or(0)));
                }
                Some(("keeper", age)) => {
                    self.is_keeper = true;
                    config = config.with_keeper(match age {
                        "early" => Keeper::Early,
                        "watches" => Keeper::WithWatches,
                        _ => Keeper::WithContainers,
                    });
                }
                _ => return fail(format!("no such setting: {word}")),
            }
        }
        self.ensemble = Some(Ensemble::new(config));
        Ok(())
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_secs(1_600_000_000) + self.started.elapsed()
    }

    pub(super) fn forward(&mut self, number: usize, bytes: &[u8]) {
        let now = self.now();
        let Some(connection) = self.connections.get(&number) else { return };
        if let (Some(ensemble), Some(served)) = (&mut self.ensemble, connection.served) {
            ensemble.handle_bytes(now, served, bytes);
        }
        self.pass_on();
    }

    pub(super) fn pass_on(&mut self) {
        loop {
            let Some(output) = self.ensemble.as_mut().and_then(Ensemble::poll_output) else {
                break;
            };
            let (Output::Send { conn, .. } | Output::Close { conn }) = &output;
            let connection = self.connections.values_mut().find(|it| it.served == Some(*conn));
            let Some(connection) = connection.filter(|connection| !connection.is_muted) else {
                continue;
            };
            match output {
                Output::Send { frame, .. } => drop(connection.stream.write_all(&frame)),
                Output::Close { .. } => drop(connection.stream.shutdown(Shutdown::Both)),
            }
        }
    }

    pub(super) fn expire(&mut self) -> Played {
        let now = self.now();
        let Some(ensemble) = &mut self.ensemble else { return fail("no ensemble") };
        let Some(session) = ensemble.sessions().next() else { return fail("no session") };
        ensemble.expire_session(now, session);
        self.pass_on();
        Ok(())
    }

    /// Judges how many children a node has, as soon as it has so many.
    pub(super) fn count_children(&mut self, words: &[String]) -> Played {
        let [path, count] = words else { return fail("a path and a number") };
        let count: usize = parse(Some(count))?;
        self.wait("so many children", |player| {
            let node = player.ensemble.as_ref()?.node(path);
            let found = node.map_or(0, |node| node.children().len());
            (found == count).then_some(Ok(()))
        })
    }
}
