//! The results of measurements, and their output.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;
use std::{fs, io};

use cpu_time::ProcessTime;

use crate::work::Kind;

/// The result of one measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) operations_per_second: f64,
    /// CPU time per operation, in microseconds.
    pub(crate) cpu: f64,
    pub(crate) allocations: f64,
    /// Heap bytes still allocated afterwards, per operation.
    pub(crate) heap: f64,
    /// Microseconds; only for work with one operation in flight.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Peak memory of the whole process, in kB.
    pub(crate) peak_memory: f64,
}

impl Figures {
    const NAMES: [&'static str; 7] = [
        "ops_per_s",
        "cpu_us_per_op",
        "allocs_per_op",
        "heap_per_op",
        "p50_us",
        "p99_us",
        "peak_kb",
    ];

    fn values(&self) -> [f64; 7] {
        [
            self.operations_per_second,
            self.cpu,
            self.allocations,
            self.heap,
            self.p50,
            self.p99,
            self.peak_memory,
        ]
    }

    fn from_values(values: [f64; 7]) -> Self {
        let [operations_per_second, cpu, allocations, heap, p50, p99, peak_memory] = values;
        Self { operations_per_second, cpu, allocations, heap, p50, p99, peak_memory }
    }

    pub(crate) fn json(&self, client: &str, kind: Kind) -> String {
        let values = self.values();
        let values =
            Self::NAMES.iter().zip(values).map(|(name, value)| format!("\"{name}\":{value}"));
        let values: Vec<_> = values.collect();
        format!("{{\"client\":\"{client}\",\"work\":\"{kind}\",{}}}", values.join(","))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.values().map(|value| value.to_string()).join(" "))
    }
}

impl FromStr for Figures {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let values: Result<Vec<f64>, _> = text.split(' ').map(str::parse).collect();
        let values = values.map_err(|_| ())?.try_into().map_err(|_| ())?;
        Ok(Self::from_values(values))
    }
}

/// Runs `work`, which returns the time of each operation if it runs them one by one.
pub(crate) fn measured(
    operations: usize,
    work: impl FnOnce() -> io::Result<Vec<Duration>>,
) -> io::Result<Figures> {
    let mut result = Ok(Vec::new());
    let (mut elapsed, mut cpu) = (Duration::ZERO, Duration::ZERO);
    let allocations = allocation_counter::measure(|| {
        let (start, cpu_start) = (Instant::now(), ProcessTime::now());
        result = work();
        (elapsed, cpu) = (start.elapsed(), cpu_start.elapsed());
    });
    let mut latencies = result?;
    latencies.sort_unstable();
    let percentile = |percent: usize| match latencies.get(latencies.len() * percent / 100) {
        Some(latency) => latency.as_secs_f64() * 1e6,
        None => 0.0,
    };
    let operations = operations as f64;
    Ok(Figures {
        operations_per_second: operations / elapsed.as_secs_f64(),
        cpu: cpu.as_secs_f64() / operations * 1e6,
        allocations: allocations.count_total as f64 / operations,
        heap: allocations.bytes_current as f64 / operations,
        p50: percentile(50),
        p99: percentile(99),
        peak_memory: peak_memory(),
    })
}

/// Returns the peak memory of this process in kB, from `/proc`.
fn peak_memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0)
}

/// All measurements of a run.
pub(crate) struct Table {
    /// The server, the number of rounds and the scale.
    conditions: String,
    found: BTreeMap<Kind, BTreeMap<String, Vec<Figures>>>,
}

impl Table {
    pub(crate) fn new(conditions: String) -> Self {
        Self { conditions, found: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, client: &str, kind: Kind, figures: Figures) {
        self.found.entry(kind).or_default().entry(client.to_owned()).or_default().push(figures);
    }
}

/// The median of all rounds, with the least and the greatest; empty for what was not measured.
fn spread(figures: &[Figures], column: usize) -> String {
    let mut values: Vec<_> = figures.iter().map(|figures| figures.values()[column]).collect();
    values.sort_by(f64::total_cmp);
    let [least, median, greatest] =
        [0, values.len() / 2, values.len() - 1].map(|place| grouped(values[place]));
    if least == "0.00" && greatest == least {
        return String::new();
    }
    format!("{median} ({least} to {greatest})")
}

/// With commas between thousands, and fractions of small numbers only.
fn grouped(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{:.0}", value.abs());
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", groups.join(","))
}

impl fmt::Display for Table {
    /// In Markdown, for `docs/performance.md`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.conditions)?;
        write!(f, "| {:<18} | {:<19} |", "work", "client")?;
        Figures::NAMES.iter().try_for_each(|name| write!(f, " {name:>33} |"))?;
        writeln!(f, "\n|---|---{}|", "|---:".repeat(Figures::NAMES.len()))?;
        for (kind, clients) in &self.found {
            for (client, figures) in clients {
                write!(f, "| {kind:<18} | {client:<19} |")?;
                for column in 0..Figures::NAMES.len() {
                    write!(f, " {:>33} |", spread(figures, column))?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
