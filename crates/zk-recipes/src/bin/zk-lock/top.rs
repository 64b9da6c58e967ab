//! All locks below a path, live: `top`.
//!
//! A [`Board`] follows the events of one recursive watch, so the load on the servers is that of one
//! client, however often locks change hands.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval};
use zk_recipes::machine::queue_order;
use zk_recipes::session::proto::{ErrorCode, EventType, path};
use zk_recipes::session::{Client, State, WatchUpdate};

use crate::contents::{
    self, KAZOO_QUEUE, KINDS, SEMAPHORE, is_kazoo_permit, is_outage, kazoo_queue, while_connected,
};
use crate::settings::positive_seconds;
use crate::show::{columns, owner, print, width};
use crate::text::{cell, json, line};
use crate::{Failure, code};

/// The most rows if the output is no terminal.
const MAX_ROWS: usize = 100;
/// Moves the cursor to the first position of a terminal.
const HOME: &str = "\x1b[H";
/// Erases the rest of a line, and the lines below.
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Show the locks below this path, and that of the path itself
    #[arg(default_value = "/")]
    pub(crate) path: String,
    /// Show them anew after this time
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = positive_seconds)]
    interval: Duration,
    /// End after showing them so often; otherwise until interrupted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print a JSON object each time, on one line, with all locks
    #[arg(long)]
    json: bool,
}

/// All locks at one time, as JSON. The documentation lists the fields.
#[derive(Serialize)]
struct Record<'a> {
    path: &'a str,
    /// Whether there is a connection. Without one, the locks are those that were last known.
    connected: bool,
    seconds: f64,
    locks: &'a [Summary],
}

pub(crate) async fn run(client: &Client, arguments: &Arguments) -> Result<ExitCode, Failure> {
    let Arguments { path, interval: period, count, json: is_json } = arguments;
    let mut changes = client.watch_recursively(path).await?;
    let mut board = Board::read(client, path).await?;
    let mut ticks = interval(*period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut shown, mut since) = (0, Instant::now());
    let mut is_stale = false;
    loop {
        tokio::select! {
            update = changes.next() => match update? {
                WatchUpdate::Event(event) => board.handle(event.event_type, &event.path),
                // A gap, or anything else that may have changed the queue.
                _ => is_stale = true,
            },
            _ = ticks.tick() => {
                if is_stale {
                    match while_connected(client, Board::read(client, path)).await {
                        Some(Err(failure)) if !is_outage(&failure) => return Err(failure),
                        None | Some(Err(_)) => {}
                        Some(Ok(read)) => (board, is_stale) = (read, false),
                    }
                }
                let elapsed = since.elapsed();
                since = Instant::now();
                let connected = is_connected(client);
                match is_json {
                    true => {
                        let locks = &summaries(client, &mut board, usize::MAX).await;
                        let seconds = elapsed.as_secs_f64();
                        print(&json(&Record { path, connected, seconds, locks })?)?;
                    }
                    false => draw(client, path, &mut board, elapsed).await?,
                }
                shown += 1;
                if Some(shown) == *count {
                    return Ok(match connected {
                        true => ExitCode::SUCCESS,
                        false => ExitCode::from(code::NO_SERVER),
                    });
                }
            }
        }
    }
}

fn is_connected(client: &Client) -> bool {
    matches!(client.state(), State::Connected { .. })
}

/// Shows the locks with the longest queues.
async fn draw(
    client: &Client,
    path: &str,
    board: &mut Board,
    elapsed: Duration,
) -> Result<(), Failure> {
    let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_row > 0);
    let is_terminal = io::stdout().is_terminal();
    // Two lines are above the table, and one is below it.
    let height = size.map_or(MAX_ROWS, |size| usize::from(size.ws_row).saturating_sub(4));
    let locks = summaries(client, board, height).await;
    let sum = |of: fn(&Summary) -> usize| locks.iter().map(of).sum::<usize>();
    let per_second = |count: usize| match elapsed.as_secs_f64() {
        seconds if seconds > 0.1 => format!("{:.1}", count as f64 / seconds),
        _ => "-".to_owned(),
    };
    let mut text = format!(
        "zk-lock top {} - {}locks: {}, holders: {}, waiters: {}, hand-overs/s: {}\n\n",
        line(path),
        if is_connected(client) { "" } else { "NO SERVER; last known: " },
        locks.len(),
        sum(|lock| lock.holders),
        sum(|lock| lock.waiters),
        per_second(sum(|lock| lock.hand_overs)),
    );
    let mut rows =
        vec![["PATH", "HOLDERS", "WAITERS", "HAND-OVERS/S", "HOLDER"].map(str::to_owned)];
    for lock in locks.iter().take(height) {
        let data = match &lock.holder {
            Some(node) => while_connected(client, client.get_data(node)).await,
            None => None,
        };
        rows.push([
            cell(&lock.path),
            lock.holders.to_string(),
            lock.waiters.to_string(),
            per_second(lock.hand_overs),
            data.and_then(Result::ok).map_or("-".to_owned(), |(data, _)| owner(Some(&data))),
        ]);
    }
    text += &columns(&rows, width());
    match is_terminal {
        true => {
            let lines = text.lines().map(|line| format!("{line}{ERASE_LINE}\n"));
            print(&format!("{HOME}{}{ERASE_BELOW}", lines.collect::<String>()))?;
        }
        false => print(&format!("{text}\n"))?,
    }
    Ok(())
}

/// Returns the locks, the first `exact` of them with the number of their holders.
async fn summaries(client: &Client, board: &mut Board, exact: usize) -> Vec<Summary> {
    let mut locks = board.take_summaries();
    // The names do not show which waiter has created its permit node already.
    let is_waited_for = |lock: &&mut Summary| lock.is_semaphore && lock.waiters > 0;
    for lock in locks.iter_mut().filter(is_waited_for).take(exact) {
        let held = while_connected(client, contents::permits_held(client, &lock.path)).await;
        if let Some(Ok(held)) = held {
            lock.holders = held;
        }
    }
    locks
}

/// A lock, as it is shown.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Summary {
    path: String,
    #[serde(skip)]
    is_semaphore: bool,
    /// Of a semaphore all permit nodes, including those of its first waiter.
    holders: usize,
    waiters: usize,
    /// Since the last time.
    hand_overs: usize,
    /// The path of the first holder's node.
    holder: Option<String>,
}

/// The contenders of all locks, by what a recursive watch reports.
#[derive(Debug, Default)]
struct Board {
    /// By the path of the node whose children the contenders are.
    queues: BTreeMap<String, Queue>,
    /// The paths that are perhaps semaphores of kazoo: the nodes where contenders wait for them exist.
    of_kazoo: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Queue {
    nodes: BTreeSet<String>,
    /// Hand-overs since the last time.
    hand_overs: usize,
}

impl Queue {
    /// Returns the names of the holders. By mistake, locks of several kinds may be at one path.
    fn holders(&self) -> Vec<&str> {
        let names = || self.nodes.iter().map(String::as_str);
        let kinds = KINDS.iter().chain(&SEMAPHORE[..1]).map(|(_, scheme)| scheme);
        let places = kinds.flat_map(|scheme| queue_order(*scheme, names()));
        let holders = places.filter(|place| place.waits_for.is_none());
        holders.map(|place| place.name.child).collect()
    }
}

impl Board {
    /// Reads the tree below a path. Contenders are leaves.
    async fn read(client: &Client, root: &str) -> Result<Self, Failure> {
        let mut board = Self::default();
        let mut parents = vec![root.to_owned()];
        while let Some(parent) = parents.pop() {
            let children = match contents::children(client, &parent).await {
                // Its locks are not shown.
                Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => continue,
                children => children?.unwrap_or_default(),
            };
            for child in children {
                let node = path::child(&parent, &child);
                board.handle(EventType::NODE_CREATED, &node);
                if !contents::is_contender(&child) {
                    parents.push(node);
                }
            }
        }
        Ok(board)
    }

    fn handle(&mut self, event: EventType, node: &str) {
        let Some((parent, name)) = node.rsplit_once('/') else { return };
        if let Some(lock) = node.strip_suffix(KAZOO_QUEUE) {
            match event {
                EventType::NODE_CREATED => drop(self.of_kazoo.insert(lock.to_owned())),
                EventType::NODE_DELETED => drop(self.of_kazoo.remove(lock)),
                _ => {}
            }
        }
        if !contents::is_contender(name) && !is_kazoo_permit(name) {
            return;
        }
        let parent = if parent.is_empty() { "/" } else { parent };
        if event == EventType::NODE_CREATED {
            self.queues.entry(parent.to_owned()).or_default().nodes.insert(name.to_owned());
        } else if event == EventType::NODE_DELETED && self.queues.contains_key(parent) {
            self.remove(parent, name);
        }
    }

    /// Removes a contender, and counts a hand-over if it was a holder and another waits.
    fn remove(&mut self, parent: &str, name: &str) {
        let waiters_of_permit = match self.semaphore_of(parent) {
            _ if is_kazoo_permit(name) && self.of_kazoo.contains(parent) => {
                Some(self.nodes(&kazoo_queue(parent)))
            }
            semaphore => semaphore.map(|lock| self.nodes(&format!("{lock}/locks"))),
        };
        let Some(queue) = self.queues.get_mut(parent) else { return };
        let before = queue.holders().len();
        let was_holder = queue.holders().contains(&name);
        queue.nodes.remove(name);
        let is_handed_over = match waiters_of_permit {
            Some(waiters) => waiters > 0,
            None => was_holder && queue.holders().len() >= before,
        };
        queue.hand_overs += usize::from(is_handed_over);
    }

    /// Returns the lock path of the semaphore whose permit nodes are below `parent`.
    fn semaphore_of<'a>(&self, parent: &'a str) -> Option<&'a str> {
        let lock = parent.strip_suffix("/leases")?;
        let is_permit = |node: &String| SEMAPHORE[0].1.parse(node).is_some();
        self.queues.get(parent)?.nodes.iter().any(is_permit).then_some(lock)
    }

    /// Returns the number of contenders below a path.
    fn nodes(&self, parent: &str) -> usize {
        self.queues.get(parent).map_or(0, |queue| queue.nodes.len())
    }

    /// Returns the permits of kazoo below a path, if it is a semaphore.
    fn permits_of_kazoo(&self, lock: &str) -> Vec<&str> {
        let queue = self.of_kazoo.get(lock).and_then(|lock| self.queues.get(lock));
        let names = queue.into_iter().flat_map(|queue| queue.nodes.iter().map(String::as_str));
        names.filter(|name| is_kazoo_permit(name)).collect()
    }

    /// Returns the locks that have contenders, the longest queue first, and begins to count
    /// hand-overs anew.
    fn take_summaries(&mut self) -> Vec<Summary> {
        let mut summaries = Vec::new();
        for (parent, queue) in &self.queues {
            let first = |names: &[&str]| names.first().map(|name| path::child(parent, name));
            let (lock, holders, waiters) = match self.semaphore_of(parent) {
                Some(lock) => {
                    let names: Vec<_> = queue.nodes.iter().map(String::as_str).collect();
                    (lock, names, self.nodes(&format!("{lock}/locks")))
                }
                None if self.is_queue_of_semaphore(parent) => continue,
                None => {
                    let mut holders = queue.holders();
                    let others = queue.nodes.iter().filter(|name| !is_kazoo_permit(name)).count();
                    let mut waiters = others - holders.len();
                    let permits = self.permits_of_kazoo(parent);
                    if !permits.is_empty() {
                        holders.extend(permits);
                        waiters += self.nodes(&kazoo_queue(parent));
                    }
                    (parent.as_str(), holders, waiters)
                }
            };
            summaries.push(Summary {
                path: if lock.is_empty() { "/".to_owned() } else { lock.to_owned() },
                is_semaphore: lock != parent,
                holders: holders.len(),
                waiters,
                hand_overs: queue.hand_overs,
                holder: first(&holders),
            });
        }
        self.queues.retain(|_, queue| !queue.nodes.is_empty());
        self.queues.values_mut().for_each(|queue| queue.hand_overs = 0);
        let order = |lock: &Summary| (usize::MAX - lock.waiters, usize::MAX - lock.hand_overs);
        summaries.sort_by(|a, b| (order(a), &a.path).cmp(&(order(b), &b.path)));
        summaries.retain(|lock| lock.holders + lock.waiters + lock.hand_overs > 0);
        summaries
    }

    /// Returns whether the contenders below `parent` wait for permits of a semaphore.
    fn is_queue_of_semaphore(&self, parent: &str) -> bool {
        let leases = parent.strip_suffix("/locks").map(|lock| format!("{lock}/leases"));
        let of_kazoo = parent.strip_suffix(KAZOO_QUEUE);
        leases.is_some_and(|leases| self.semaphore_of(&leases).is_some())
            || of_kazoo.is_some_and(|lock| !self.permits_of_kazoo(lock).is_empty())
    }
}

#[cfg(test)]
mod tests;
