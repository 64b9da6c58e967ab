//! Four-letter words: commands of operators, each on a connection of its own, answered in text
//! (`FourLetterCommands.java`).

use core::fmt::Write;

use bytes::Bytes;

use super::Ensemble;
use super::connection::{ConnId, Connection};

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

impl Ensemble {
    /// Answers a four-letter word at the beginning of a connection, and closes it. Returns whether
    /// there was one.
    pub(super) fn answer_word(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.connections.get(&conn) else { return false };
        let Some(word) = connection.inbox.received().first_chunk::<4>() else { return false };
        let Some(answer) = self.word(word, connection.server) else { return false };
        self.outbox.send(conn, connection.session(), Bytes::from(answer));
        self.close(conn);
        true
    }

    fn word(&self, word: &[u8; 4], server: usize) -> Option<String> {
        let serving = |answer: fn(&Self, usize) -> String| match self.is_serving(server) {
            true => answer(self, server),
            false => NOT_SERVING.into(),
        };
        Some(match word {
            b"ruok" => "imok".into(),
            b"isro" => self.mode_of_access(server).into(),
            b"srvr" => serving(|this, server| this.summary(server, "")),
            b"stat" => serving(|this, server| this.summary(server, &this.clients(server))),
            b"mntr" => serving(Self::metrics),
            b"envi" => self.environment(),
            b"cons" => serving(Self::connection_details),
            b"dump" => serving(|this, _| this.dump()),
            _ => return None,
        })
    }

    fn environment(&self) -> String {
        format!(
            "Environment:\nzookeeper.version={}-zk-testkit, built on 1970-01-01 00:00 UTC\n\
             host.name=localhost\n",
            self.config.version.number()
        )
    }

    fn mode_of_access(&self, server: usize) -> &'static str {
        match (self.is_led(server), self.is_read_only(server)) {
            (true, _) => "rw",
            (false, true) => "ro",
            (false, false) => "null",
        }
    }

    fn mode(&self, server: usize) -> &'static str {
        match self.leader {
            _ if !self.is_led(server) => "read-only",
            _ if self.servers.len() == 1 => "standalone",
            leader if leader == Some(server) => "leader",
            _ => "follower",
        }
    }

    fn summary(&self, server: usize, clients: &str) -> String {
        let mut text = match self.config.keeper {
            Some(_) => format!("ClickHouse Keeper version: zk-testkit\n{clients}"),
            None => format!(
                "Zookeeper version: {}-zk-testkit, built on 1970-01-01 00:00 UTC\n{clients}",
                self.config.version.number()
            ),
        };
        if self.is_read_only(server) {
            text += "READ-ONLY mode; serving only read-only clients\n";
        }
        let counters = self.counters();
        // The empty path counts as a node.
        let nodes = self.servers[server].tree.len() + 1;
        let _ = write!(
            text,
            "Latency min/avg/max: 0/0.0/0\nReceived: {}\nSent: {}\nConnections: {}\n\
             Outstanding: 0\nZxid: {}\nMode: {}\nNode count: {nodes}\n",
            counters.all_requests(),
            counters.frames,
            self.connections_to(server),
            self.servers[server].zxid,
            self.mode(server),
        );
        text
    }

    fn clients(&self, server: usize) -> String {
        let mut text = String::from("Clients:\n");
        for conn in self.conns_where(|connection| connection.server == server) {
            if let Some(Connection { address, .. }) = self.connections.get(&conn) {
                let _ = writeln!(text, " /{address}:{}[0](queued=0,recved=0,sent=0)", conn.0);
            }
        }
        text + "\n"
    }

    fn connection_details(&self, server: usize) -> String {
        let mut text = String::new();
        for conn in self.conns_where(|connection| connection.server == server) {
            let Some(connection) = self.connections.get(&conn) else { continue };
            let _ = write!(text, " /{}:{}[1](queued=0,recved=0,sent=0", connection.address, conn.0);
            if let Some(timeout) = self.session_timeout(connection.session()) {
                let (session, timeout) = (connection.session().0, timeout.as_millis());
                let _ = write!(text, ",sid={session:#x},lop=NA,to={timeout}");
            }
            if let Some((established, heard)) = connection.times {
                let (established, heard) = (established.as_millis(), heard.as_millis());
                let _ = write!(text, ",est={established},lresp={heard}");
            }
            text.push_str(")\n");
        }
        text + "\n"
    }

    fn metrics(&self, server: usize) -> String {
        let tree = &self.servers[server].tree;
        let ephemerals: usize = tree.owners().map(|owner| tree.ephemerals(owner).count()).sum();
        let counters = self.counters();
        let metrics = [
            ("version", format!("{}-zk-testkit", self.config.version.number())),
            ("server_state", self.mode(server).into()),
            ("packets_received", counters.all_requests().to_string()),
            ("packets_sent", counters.frames.to_string()),
            ("num_alive_connections", self.connections_to(server).to_string()),
            ("outstanding_requests", "0".into()),
            ("znode_count", (tree.len() + 1).to_string()),
            ("watch_count", self.servers[server].watches.len().to_string()),
            ("ephemerals_count", ephemerals.to_string()),
        ];
        metrics.iter().map(|(key, value)| format!("zk_{key}\t{value}\n")).collect()
    }

    fn dump(&self) -> String {
        let tree = self.tree();
        let mut text =
            format!("SessionTracker dump:\nSession Sets ({})\n", self.sessions().count());
        for session in self.sessions() {
            let _ = writeln!(text, "\t{session}");
        }
        let _ = writeln!(
            text,
            "ephemeral nodes dump:\nSessions with Ephemerals ({}):",
            tree.owners().len()
        );
        for owner in tree.owners() {
            let _ = writeln!(text, "{owner}:");
            for path in tree.ephemerals(owner) {
                let _ = writeln!(text, "\t{path}");
            }
        }
        text
    }

    fn connections_to(&self, server: usize) -> usize {
        self.connections.values().filter(|connection| connection.server == server).count()
    }
}
