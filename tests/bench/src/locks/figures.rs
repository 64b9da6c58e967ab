//! The results of lock measurements, and their output.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::floor;
use super::tap::Tally;
use super::work::Kind;

/// Times, as reported by the measuring process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Microseconds from a release to the next acquisition of the same lock.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Acquisitions.
    pub(crate) per_second: f64,
    /// CPU time of the client per acquisition, in microseconds.
    pub(crate) cpu: f64,
}

impl Timing {
    pub(super) fn new(latencies: &mut [Duration], elapsed: Duration, processor: Duration) -> Self {
        latencies.sort_unstable();
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        let percentile = |percent: usize| micros(latencies[latencies.len() * percent / 100]);
        let count = latencies.len() as f64;
        Self {
            p50: percentile(50),
            p99: percentile(99),
            per_second: count / elapsed.as_secs_f64(),
            cpu: micros(processor) / count,
        }
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p99, per_second, cpu } = self;
        write!(f, "figures {p50} {p99} {per_second} {cpu}")
    }
}

impl FromStr for Timing {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let figures = line.strip_prefix("figures ").ok_or(())?;
        let figures: Result<Vec<f64>, _> = figures.split(' ').map(str::parse).collect();
        let [p50, p99, per_second, cpu] = figures.map_err(|_| ())?.try_into().map_err(|_| ())?;
        Ok(Self { p50, p99, per_second, cpu })
    }
}

/// All measurements of a run.
#[derive(Default)]
pub(super) struct Table {
    found: BTreeMap<Kind, BTreeMap<&'static str, Row>>,
}

#[derive(Default)]
struct Row {
    timings: Vec<Timing>,
    /// Per acquisition: requests, notifications, bytes to clients, bytes to the server.
    traffic: [f64; 4],
}

impl Row {
    fn median(&self, figure: impl Fn(&Timing) -> f64) -> f64 {
        let mut values: Vec<_> = self.timings.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl Table {
    pub(super) fn add_timing(&mut self, client: &'static str, kind: Kind, timing: Timing) {
        self.row(client, kind).timings.push(timing);
    }

    pub(super) fn add_traffic(
        &mut self,
        client: &'static str,
        kind: Kind,
        tally: Tally,
        per: usize,
    ) {
        let Tally { requests, notifications, bytes_down, bytes_up } = tally;
        let counts = [requests, notifications, bytes_down, bytes_up];
        self.row(client, kind).traffic = counts.map(|count| count as f64 / per as f64);
    }

    fn row(&mut self, client: &'static str, kind: Kind) -> &mut Row {
        self.found.entry(kind).or_default().entry(client).or_default()
    }
}

fn is_ours(client: &str) -> bool {
    client.starts_with("zk-recipes") || client == floor::NAME
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, rows) in &self.found {
            write!(f, "{:<19}", kind.name())?;
            let names = ["p50_us", "p99_us", "per_s", "cpu_us", "requests", "notified"];
            names.iter().try_for_each(|name| write!(f, "{name:>10}"))?;
            writeln!(f, "{:>12}{:>12}{:>9}{:>9}", "bytes_down", "bytes_up", "p50_x", "cpu_x")?;
            for (client, row) in rows {
                let (p50, cpu) = (row.median(|timing| timing.p50), row.median(|timing| timing.cpu));
                write!(f, "  {client:<17}{p50:>10.0}{:>10.0}", row.median(|timing| timing.p99))?;
                write!(f, "{:>10.0}{cpu:>10.0}", row.median(|timing| timing.per_second))?;
                let [requests, notifications, down, up] = row.traffic;
                write!(f, "{requests:>10.2}{notifications:>10.2}{down:>12.0}{up:>12.0}")?;
                let best = |figure: fn(&Timing) -> f64| {
                    let others =
                        rows.iter().filter(|(other, _)| *other != client && !is_ours(other));
                    others.map(|(_, row)| row.median(figure)).fold(f64::NAN, f64::min)
                };
                let (p50_x, cpu_x) =
                    (p50 / best(|timing| timing.p50), cpu / best(|timing| timing.cpu));
                // Without another implementation there is nothing to compare with.
                let ratio = |x: f64| if x.is_nan() { "-".to_owned() } else { format!("{x:.2}") };
                writeln!(f, "{:>9}{:>9}", ratio(p50_x), ratio(cpu_x))?;
            }
        }
        f.write_str("p50_x, cpu_x: compared with the best of the other implementations")
    }
}
