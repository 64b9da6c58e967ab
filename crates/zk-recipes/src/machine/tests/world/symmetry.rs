//! States that stand for others: of interchangeable clients and servers, and of servers that nobody
//! sees.

use super::*;

impl<P: Workload> World<P> {
    /// Returns whether a client that begins in the same way has to act first.
    ///
    /// Such clients are interchangeable, so one order of their first actions stands for all.
    pub(super) fn is_behind_twin(&self, client: usize) -> bool {
        self.workload.twin(client).is_some_and(|twin| !self.clients[twin].has_acted)
    }

    /// Orders the servers, which are interchangeable, by what they have applied and by their
    /// clients.
    pub(super) fn sort_servers(&mut self) {
        let clients_of = |server| {
            self.clients.iter().map(move |client| client.server == Some(server)).collect::<Vec<_>>()
        };
        let mut order: Vec<_> = (0..self.bounds.servers).collect();
        order.sort_by_cached_key(|server| (self.tree.now(*server), clients_of(*server)));
        if !order.is_sorted() {
            self.tree.sort_servers();
            for client in 0..self.clients.len() {
                if let Some(server) = self.clients[client].server {
                    self.client(client).server = order.iter().position(|it| *it == server);
                }
            }
        }
    }

    pub(super) fn has_clients(&self, server: usize) -> bool {
        self.clients.iter().any(|client| client.server == Some(server))
    }

    /// Returns the servers on which a session can resume that has seen this transaction, and what
    /// they have applied.
    ///
    /// Nobody sees when a server without clients applies transactions. So that is decided here.
    pub(super) fn resumptions(&self, seen: Index) -> impl Iterator<Item = (usize, Index)> {
        let newest = |server| match self.has_clients(server) {
            true => self.tree.now(server),
            false => self.tree.log,
        };
        let all =
            move |server| (self.tree.now(server)..=newest(server)).map(move |at| (server, at));
        (0..self.bounds.servers).flat_map(all).filter(move |(_, at)| *at >= seen)
    }
}
