//! The report about locks, as text and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Claim, Client, Entry, Locks, Queue};
use crate::show;

/// The upper ends of the columns of the histogram, in microseconds.
const COLUMNS: [u64; 14] = [
    200,
    500,
    1000,
    2000,
    5000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    10_000_000,
    u64::MAX,
];
/// The widest bar of the histogram.
const BAR: usize = 40;

/// A child of a lock as it is reported.
struct Row<'l> {
    entry: &'l Entry,
    client: String,
    /// When it was requested, if that is known.
    date: Option<String>,
    waited: Duration,
    held: Option<Duration>,
    /// From the end of the child before until this one was woken, and until it had the lock.
    woken: Option<Duration>,
    hand_over: Option<Duration>,
    end: &'static str,
}

impl Locks {
    /// Returns the address of a client, or its session where there is only one.
    fn name(&self, client: usize) -> String {
        let Client { name, session, .. } = &self.clients[client];
        if name.is_empty() { session.to_string() } else { name.clone() }
    }

    /// Returns a row for each child of a lock. `start` is the date of the first message.
    fn rows<'l>(&'l self, queue: &'l Queue, start: Option<Duration>) -> Vec<Row<'l>> {
        let mut entries: Vec<_> = queue.entries.iter().collect();
        entries.sort_by_key(|entry| entry.sequence);
        let row = |entry: &'l Entry| {
            let acquired = entry.acquired();
            let left = entry.left().unwrap_or(self.now);
            let before = entry.before.filter(|_| entry.ahead > 0).map(|it| &queue.entries[it]);
            let begin = before.and_then(|before| match (before.left, before.client) {
                (Some((left, _)), _) => Some(left),
                // Nobody released it: it was of no use from the last message on.
                (None, Some(owner)) => Some(self.clients[owner].sent),
                (None, None) => before.left(),
            });
            let since = |time: Option<Duration>| time?.checked_sub(begin?);
            let woken = entry.woken.filter(|woken| acquired.is_some_and(|it| it >= *woken));
            let date = start.and_then(|start| show::date(start.checked_add(entry.asked)?));
            Row {
                entry,
                date: date.map(|date| humantime::format_rfc3339_micros(date).to_string()),
                client: entry.client.map_or("not captured".to_owned(), |it| self.name(it)),
                waited: acquired.unwrap_or(left).saturating_sub(entry.asked),
                held: acquired.map(|acquired| left.saturating_sub(acquired)),
                woken: since(woken),
                hand_over: since(acquired),
                end: match (entry.gone, acquired) {
                    (Some((_, end)), _) => end.name(),
                    (None, Some(_)) => "holds",
                    (None, None) => "waits",
                },
            }
        };
        entries.into_iter().map(row).collect()
    }

    /// Returns for how long somebody held the lock, and from the first message about it to the last.
    fn shares(&self, queue: &Queue) -> [Duration; 2] {
        let start = queue.entries.iter().map(|it| it.asked).min().unwrap_or_default();
        let ends = queue.entries.iter().map(|it| it.gone.map_or(self.now, |(gone, _)| gone));
        let end = ends.max().unwrap_or_default();
        let held = queue
            .entries
            .iter()
            .filter_map(|it| Some((it.acquired()?, it.left().unwrap_or(self.now))));
        let mut held: Vec<_> = held.collect();
        held.sort_unstable();
        let (mut sum, mut until) = (Duration::ZERO, Duration::ZERO);
        for (from, to) in held {
            sum += to.saturating_sub(from.max(until));
            until = until.max(to);
        }
        [sum, end.saturating_sub(start)]
    }

    /// Returns the numbers of hand-overs up to the end of each column.
    fn histogram(hand_overs: &[Duration]) -> impl Iterator<Item = (u64, usize)> {
        let mut from = 0;
        COLUMNS.into_iter().map(move |to| {
            let micros = hand_overs.iter().map(|it| it.as_micros() as u64);
            let count = micros.filter(|it| (from..to).contains(it)).count();
            from = to;
            (to, count)
        })
    }

    /// Returns the report as text. `start` is the date of the first message.
    pub(crate) fn text(&self, is_wanted: impl Fn(&str) -> bool, start: Option<Duration>) -> String {
        let mut out = String::new();
        for (path, queue) in self.queues.iter().filter(|(path, _)| is_wanted(path)) {
            let (rows, [held, all]) = (self.rows(queue, start), self.shares(queue));
            let percent = (100 * held.as_micros()).checked_div(all.as_micros()).unwrap_or_default();
            let path = show::printable(path);
            let _ = writeln!(out, "{path}: held {percent} % of {}", show::clock(all));
            if let Some(row) = rows.iter().max_by_key(|row| row.held) {
                let held = show::clock(row.held.unwrap_or_default());
                let client = show::printable(&row.client);
                let _ = writeln!(out, "  the longest hold: {held} by {client}, {}", row.end);
            }
            let width = rows.iter().map(|row| row.client.len()).max().unwrap_or(0).max(6);
            let _ = writeln!(
                out,
                "  {:<27}  {:<width$}  {:>10}  {:<9}  {:>5}  {:>12}  {:>12}  {:>5}  {:>12}  {:>12}  end",
                "asked at",
                "client",
                "number",
                "claim",
                "ahead",
                "waited",
                "held",
                "wakes",
                "woken",
                "hand-over",
            );
            let optional = |time: Option<Duration>| time.map_or("-".to_owned(), show::clock);
            for row in &rows {
                let entry = row.entry;
                let asked = row.date.clone().unwrap_or_else(|| show::clock(entry.asked));
                let number = entry.sequence.map_or("-".to_owned(), |it| it.to_string());
                let _ = writeln!(
                    out,
                    "  {asked:<27}  {:<width$}  {number:>10}  {:<9}  {:>5}  {:>12}  {:>12}  {:>5}  {:>12}  {:>12}  {}",
                    show::printable(&row.client),
                    entry.claim.name(),
                    entry.ahead,
                    show::clock(row.waited),
                    optional(row.held),
                    entry.wakes,
                    optional(row.woken),
                    optional(row.hand_over),
                    row.end,
                );
            }
            let mut hand_overs: Vec<_> = rows.iter().filter_map(|row| row.hand_over).collect();
            hand_overs.sort_unstable();
            if let [.., longest] = hand_overs[..] {
                let median = show::clock(hand_overs[hand_overs.len() / 2]);
                let (count, longest) = (hand_overs.len(), show::clock(longest));
                let _ = writeln!(out, "  hand-overs: {count}, median {median}, longest {longest}");
                for (to, count) in Self::histogram(&hand_overs).filter(|(_, count)| *count > 0) {
                    let bar = "#".repeat((count * BAR).div_ceil(hand_overs.len()));
                    let below = match to {
                        u64::MAX => "longer".to_owned(),
                        to => format!("< {}", show::clock(Duration::from_micros(to))),
                    };
                    let _ = writeln!(out, "  {below:>15}  {count:>6}  {bar}");
                }
            }
            out.push('\n');
        }
        out
    }

    /// Returns the report as JSON, one object for each lock on a line. Times are microseconds.
    pub(crate) fn json(&self, is_wanted: impl Fn(&str) -> bool, start: Option<Duration>) -> String {
        let mut out = String::new();
        let micros = |time: Duration| time.as_micros() as u64;
        for (path, queue) in self.queues.iter().filter(|(path, _)| is_wanted(path)) {
            let (rows, [held, all]) = (self.rows(queue, start), self.shares(queue));
            let entries = rows.iter().map(|row| {
                let entry = row.entry;
                json!({
                    "name": entry.name,
                    "client": entry.client.map(|client| self.name(client)),
                    "session": entry.client.map(|it| self.clients[it].session.to_string()),
                    "claim": entry.claim.name(),
                    "asked": row.date,
                    "asked_us": micros(entry.asked),
                    "ahead": entry.ahead,
                    "acquired_us": entry.acquired().map(micros),
                    "waited_us": micros(row.waited),
                    "held_us": row.held.map(micros),
                    "wakes": entry.wakes,
                    "woken_us": row.woken.map(micros),
                    "hand_over_us": row.hand_over.map(micros),
                    "end": row.end,
                })
            });
            let entries: Vec<Value> = entries.collect();
            let hand_overs: Vec<_> = rows.iter().filter_map(|row| row.hand_over).collect();
            let columns = Self::histogram(&hand_overs).map(|(to, count)| {
                json!({ "below_us": Some(to).filter(|to| *to != u64::MAX), "count": count })
            });
            let lock = json!({
                "lock": path,
                "all_us": micros(all),
                "held_us": micros(held),
                "hand_overs": columns.collect::<Vec<_>>(),
                "entries": entries,
            });
            let _ = writeln!(out, "{lock}");
        }
        out
    }
}

impl Claim {
    fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Permit => "permit",
        }
    }
}
