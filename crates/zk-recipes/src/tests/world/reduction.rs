//! States that behave alike are explored once.

use super::*;

impl<P: Workload> World<P> {
    /// Returns whether a client that begins in the same way has to act first.
    ///
    /// Such clients are interchangeable, so one order of their first actions stands for all.
    pub(crate) fn is_behind_twin(&self, client: usize) -> bool {
        self.workload.twin(client).is_some_and(|twin| !self.clients[twin].has_acted)
    }

    /// Orders the servers, which are interchangeable, by what they have applied and by their
    /// clients.
    pub(crate) fn sort_servers(&mut self) {
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

    /// Removes what no client can observe any more: deleted nodes, what sessions that cannot resume
    /// have seen, and the lag of servers without clients.
    pub(crate) fn forget_the_past(&mut self) {
        let may_resume = |client: &Arc<Client<P::Machine>>| {
            let is_connected = client.server.is_some() && !client.line.loses_replies;
            !client.machine.is_done() && (!is_connected || self.bounds.faults > 0)
        };
        let may_resume: Vec<_> = self.clients.iter().map(may_resume).collect();
        for (client, may_resume) in may_resume.iter().enumerate() {
            if !may_resume && self.clients[client].line.seen > 0 {
                self.client(client).line.seen = 0;
            }
        }
        if !may_resume.contains(&true) {
            for server in 0..self.bounds.servers {
                if !self.has_clients(server) {
                    self.tree.advance(server, self.tree.log);
                }
            }
        }
        let shown = self.clients.iter().zip(&may_resume).flat_map(|(client, may_resume)| {
            let seen = may_resume.then_some(client.line.seen);
            seen.into_iter().chain(client.settling).chain(client.line.shown())
        });
        let shown = shown.chain((0..self.bounds.servers).map(|it| self.tree.now(it)));
        self.tree.forget(shown.min().unwrap_or_default());
    }

    pub(crate) fn has_clients(&self, server: usize) -> bool {
        self.clients.iter().any(|client| client.server == Some(server))
    }

    /// Returns the servers on which a session can resume that has seen this transaction, and what
    /// they have applied.
    ///
    /// Nobody sees when a server without clients applies transactions. So that is decided here.
    pub(crate) fn resumptions(&self, seen: Index) -> impl Iterator<Item = (usize, Index)> {
        let newest = |server| match self.has_clients(server) {
            true => self.tree.now(server),
            false => self.tree.log,
        };
        let all =
            move |server| (self.tree.now(server)..=newest(server)).map(move |at| (server, at));
        (0..self.bounds.servers).flat_map(all).filter(move |(_, at)| *at >= seen)
    }
}

/// Returns a hash of a machine without the ids of its requests, and these ids, as often as they
/// occur.
pub(crate) fn digest_without_ops(machine: &impl Debug) -> (u64, Arc<[OpId]>) {
    let mut text = String::with_capacity(4_096);
    write!(text, "{machine:?}").expect("a string grows");
    let mut hasher = DefaultHasher::new();
    let (mut ops, mut begins_with_op) = (Vec::new(), false);
    // `OpId(` precedes an id, and `last_op: ` a counter, which is left out.
    for part in text.split_inclusive("last_op: ").flat_map(|part| part.split_inclusive("OpId(")) {
        let rest = part.trim_start_matches(|it: char| it.is_ascii_digit());
        hasher.write(rest.as_bytes());
        if begins_with_op {
            ops.extend(part[..part.len() - rest.len()].parse().map(OpId));
        }
        begins_with_op = part.ends_with("OpId(");
    }
    (hasher.finish(), ops.into())
}

/// Hashes the ranks of the ids of requests, since machines only compare ids, and each part of a
/// machine only its own.
pub(crate) fn hash_order<H: Hasher>(ops: impl Iterator<Item = OpId>, state: &mut H) {
    let ops: Vec<_> = ops.collect();
    let order: Vec<_> = ops.iter().collect::<BTreeSet<_>>().into_iter().collect();
    // Those of one part are neighbours in that order.
    let rank = |op: &OpId| {
        let before = order.iter().take_while(|it| **it < op);
        before.filter(|it| it.part() == op.part()).count()
    };
    ops.iter().for_each(|op| (op.part(), rank(op)).hash(state));
}
