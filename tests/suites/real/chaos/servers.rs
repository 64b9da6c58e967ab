//! Whether all servers have the same nodes. If they differ at one zxid, servers are at fault, and
//! no guarantee of a client holds.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tokio::time::sleep;
use zk_session::proto::{ErrorCode, ExistsRequest, Request, SessionId, Stat, Zxid, path};
use zk_session::{Client, RequestError};
use zk_testkit::real::RealEnsemble;
use zk_testkit::transaction_log;

use super::access::Access;
use super::{HANG_TIMEOUT, OF_SERVERS};

/// The most differences, and transactions of each server, that are printed.
const EXCERPT: usize = 20;

/// What one server has.
#[derive(Clone, Debug, Default)]
struct View {
    /// The zxids at which the reading began and ended.
    from: Zxid,
    to: Zxid,
    nodes: BTreeMap<String, Node>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    created: Zxid,
    changed: Zxid,
    /// The session of an ephemeral node.
    owner: SessionId,
}

/// A node that one server has at a zxid, and another has otherwise or not at all.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    path: String,
    has: (usize, Node),
    other: (usize, Option<Node>),
    at: Zxid,
}

/// Ends the run if the servers differ. `after` names what happened before.
///
/// # Panics
///
/// If they differ, which is not a fault of the client. The message has the evidence.
pub(super) async fn assert_same(access: &Access, ensemble: &mut RealEnsemble, after: &str) {
    let end = Instant::now() + HANG_TIMEOUT;
    let differences = loop {
        match differences(access, ensemble).await {
            Ok(differences) => break differences,
            Err(error) => assert!(Instant::now() < end, "a server does not serve reads: {error}"),
        }
        sleep(Duration::from_millis(200)).await;
    };
    if differences.is_empty() {
        return;
    }
    println!("\n{} differences, after {after}:", differences.len());
    differences.iter().take(EXCERPT).for_each(|difference| println!("{difference}"));
    print_sessions(ensemble, &differences);
    print_transactions(ensemble);
    let kept = ensemble.keep().display();
    panic!(
        "{OF_SERVERS}, not about the client: they differ at the same zxid, so the run proves \
         nothing beyond this point; their data is in {kept}"
    );
}

/// Reads every server twice. What a server has both times, it had in between, at the zxid at which
/// another server was read.
async fn differences(
    access: &Access,
    ensemble: &RealEnsemble,
) -> Result<Vec<Difference>, RequestError> {
    let mut clients = Vec::new();
    for server in 0..3 {
        clients.push(access.at(&ensemble.address(server)).connect().await);
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for views in [&mut first, &mut second] {
        for client in &clients {
            views.push(View::read(client).await?);
        }
    }
    for client in clients {
        client.close().await;
    }
    let mut found = Vec::new();
    for one in 0..3 {
        for other in (0..3).filter(|other| *other != one) {
            let between = if one < other { &first[other] } else { &second[other] };
            let proven = between.lacks(&first[one], &second[one]);
            found.extend(proven.into_iter().map(|(path, node)| Difference {
                path: path.clone(),
                has: (one, node),
                other: (other, between.nodes.get(path).copied()),
                at: between.to,
            }));
        }
    }
    Ok(found)
}

impl View {
    async fn read(client: &Client) -> Result<Self, RequestError> {
        let zxid = || client.submit(&Request::Exists(ExistsRequest { path: "/", watch: false }));
        let synced = client.sync("/");
        let first = zxid();
        synced.await?;
        let from = first.await?.zxid;
        let mut nodes = BTreeMap::new();
        let mut level = vec!["/".to_owned()];
        while !level.is_empty() {
            let ask = |path: String| {
                let (node, children) = (client.exists(&path), client.get_children(&path));
                async move { (path, node.await, children.await) }
            };
            let asked: Vec<_> = level.drain(..).map(ask).collect();
            for asked in asked {
                let (parent, node, children) = asked.await;
                let Some(stat) = node? else { continue };
                match children {
                    Ok((names, _)) => {
                        level.extend(names.iter().map(|name| path::child(&parent, name)));
                    }
                    Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                    Err(error) => return Err(error),
                }
                nodes.insert(parent, Node::of(&stat));
            }
        }
        let to = zxid().await?.zxid;
        Ok(Self { from, to, nodes })
    }

    /// Returns the nodes of another server that this one lacks, or has otherwise. That server was
    /// read `before` and `after` this one.
    fn lacks<'a>(&self, before: &'a Self, after: &Self) -> Vec<(&'a String, Node)> {
        if before.to > self.from || self.to > after.from {
            return Vec::new();
        }
        let stayed =
            before.nodes.iter().filter(|(path, node)| after.nodes.get(*path) == Some(node));
        let lacking = stayed.filter(|(path, node)| self.nodes.get(*path) != Some(node));
        lacking.map(|(path, node)| (path, *node)).collect()
    }
}

impl Node {
    fn of(stat: &Stat) -> Self {
        Self { created: stat.czxid, changed: stat.mzxid, owner: stat.ephemeral_owner }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, has: (server, node), other: (other, lacks), at } = self;
        write!(f, "at {at}, server {server} has {path} {node}, and server {other} has ")?;
        match lacks {
            Some(node) => write!(f, "it {node}"),
            None => f.write_str("no such node"),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { created, changed, owner } = self;
        write!(f, "of {created}, changed at {changed}")?;
        if *owner == SessionId::NONE { Ok(()) } else { write!(f, ", of session {owner}") }
    }
}

/// Returns the ephemeral nodes of all servers, each behind its server and its session.
pub(super) fn ephemerals(ensemble: &RealEnsemble) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for server in 0..3 {
        let dump = ensemble.four_letter(server, "dump").ok()?;
        let (_, nodes) = dump.split_once("ephemeral nodes dump:")?;
        let mut session = "";
        for line in nodes.lines() {
            if line.starts_with("0x") {
                session = line;
            } else if let Some(path) = line.strip_prefix('\t')
                && path.starts_with('/')
            {
                found.push(format!("server {server}, session {session} {path}"));
            }
        }
    }
    Some(found)
}

/// Prints which of the sessions with differing nodes the leader has.
fn print_sessions(ensemble: &RealEnsemble, differences: &[Difference]) {
    let Some(leader) = ensemble.leader() else { return println!("no leader") };
    let dump = ensemble.four_letter(leader, "dump").unwrap_or_default();
    let living = dump.split("ephemeral nodes dump:").next().unwrap_or_default();
    let owners: BTreeSet<_> = differences.iter().map(|difference| difference.has.1.owner).collect();
    for owner in owners.into_iter().filter(|owner| *owner != SessionId::NONE) {
        let is_alive = living.lines().any(|line| line.trim() == owner.to_string());
        let state = if is_alive { "alive" } else { "closed" };
        println!("session {owner}: {state} on server {leader}, the leader");
    }
}

/// Prints the transactions that a server has not logged or has logged twice, by the logs of the
/// others.
fn print_transactions(ensemble: &RealEnsemble) {
    let read = |server| transaction_log::read(&ensemble.log_folder(server)).unwrap_or_default();
    let logs: Vec<_> = (0..3).map(read).collect();
    let all: BTreeMap<_, _> = logs.iter().flatten().map(|logged| (logged.zxid, logged)).collect();
    for (server, log) in logs.iter().enumerate() {
        let own: BTreeSet<_> = log.iter().map(|logged| logged.zxid).collect();
        let (Some(first), Some(last)) = (own.first(), own.last()) else { continue };
        let missing: Vec<_> =
            all.range(*first..=*last).filter(|(zxid, _)| !own.contains(zxid)).collect();
        let back = log.windows(2).filter(|two| two[1].zxid <= two[0].zxid);
        let back: Vec<_> = back.map(|two| (two[0].zxid, two[1].zxid)).collect();
        println!(
            "server {server} has logged {} transactions from {first} to {last}. It lacks {}, \
             and went back {} times",
            log.len(),
            missing.len(),
            back.len()
        );
        missing.iter().take(EXCERPT).for_each(|(_, logged)| println!("    lacks {logged:?}"));
        back.iter().take(EXCERPT).for_each(|(from, to)| println!("    {from}, then {to}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Node = Node { created: Zxid(3), changed: Zxid(3), owner: SessionId(7) };
    const NEW: Node = Node { changed: Zxid(12), ..OLD };

    fn view(from: i64, to: i64, node: Option<Node>) -> View {
        let nodes = node.map(|node| ("/a".to_owned(), node));
        View { from: Zxid(from), to: Zxid(to), nodes: nodes.into_iter().collect() }
    }

    fn lacks(before: View, between: View, after: View) -> bool {
        !between.lacks(&before, &after).is_empty()
    }

    #[test]
    fn a_node_that_one_server_has_before_and_after_another_was_read_is_lacking() {
        let (before, after) = (view(5, 10, Some(OLD)), view(14, 20, Some(OLD)));
        assert!(lacks(before.clone(), view(10, 14, None), after.clone()));
        assert!(lacks(before.clone(), view(11, 12, Some(NEW)), after.clone()));
        assert!(!lacks(before, view(10, 14, Some(OLD)), after));
    }

    #[test]
    fn a_change_or_a_server_that_lags_is_no_difference() {
        // Created, changed or deleted meanwhile.
        assert!(!lacks(view(5, 10, None), view(10, 14, None), view(14, 20, Some(OLD))));
        assert!(!lacks(view(5, 10, Some(OLD)), view(10, 14, None), view(14, 20, Some(NEW))));
        assert!(!lacks(view(5, 10, Some(OLD)), view(10, 14, None), view(14, 20, None)));
        // The other server was read at an earlier or a later zxid.
        assert!(!lacks(view(5, 10, Some(OLD)), view(9, 12, None), view(14, 20, Some(OLD))));
        assert!(!lacks(view(5, 10, Some(OLD)), view(11, 15, None), view(14, 20, Some(OLD))));
    }
}
