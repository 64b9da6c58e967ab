//! Runs the simulator from seeds, and draws a run.
//!
//! A run that violates a guarantee ends the command with status 1, after the commands that repeat
//! and draw it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use zk_testkit::sim::picture::{self, View};
use zk_testkit::sim::{Bug, Fault, Report, Scale, rare, record, run};

/// Runs whole clients and an ensemble on a virtual clock, with random faults.
#[derive(Debug, Parser)]
struct Arguments {
    /// Runs this seed.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Runs these seeds, as in 0..100.
    #[arg(long, value_parser = seeds, default_value = "0..20")]
    seeds: Range<u64>,
    /// Runs ten clients for 40 s instead of four for 13 s.
    #[arg(long)]
    large: bool,
    /// Injects this bug into all clients, as in ForgetsLastZxid.
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// Prints every event of the run.
    #[arg(long, requires = "seed")]
    print: bool,
    /// Draws the run to this file.
    #[arg(long, requires = "seed")]
    svg: Option<PathBuf>,
    /// Draws only this lock, as in /locks/mutex.
    #[arg(long, requires = "svg")]
    lock: Option<String>,
    /// The start of the picture, in seconds.
    #[arg(long, requires = "svg", value_parser = seconds, default_value = "0")]
    from: Duration,
    /// The end of the picture, in seconds. By default, the end of all locks and faults.
    #[arg(long, requires = "svg", value_parser = seconds)]
    to: Option<Duration>,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("two numbers with .. between them")?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
    let seeds = number(first)?..number(end)?;
    if seeds.is_empty() { Err(format!("{text} has no seeds")) } else { Ok(seeds) }
}

fn bug(name: &str) -> Result<Bug, String> {
    let names = || Bug::ALL.map(|bug| format!("{bug:?}")).join(", ");
    let found = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    found.ok_or_else(|| format!("the bugs are {}", names()))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl Arguments {
    /// Returns the command that repeats a run.
    fn command(&self, seed: u64) -> String {
        let mut command =
            format!("cargo run -p zk-testkit --features tools --bin sim -- --seed {seed}");
        if self.large {
            command += " --large";
        }
        if let Some(bug) = self.bug {
            command += &format!(" --bug {bug:?}");
        }
        command
    }

    /// Runs one seed, and draws it if the arguments say so.
    fn run(&self, seed: u64, scale: &Scale) -> io::Result<Report> {
        let Some(file) = &self.svg else { return Ok(run(seed, scale, self.bug, self.print)) };
        if self.print {
            run(seed, scale, self.bug, true);
        }
        let sim = record(seed, scale, self.bug);
        let view = View { from: self.from, to: self.to, lock: self.lock.clone() };
        std::fs::write(file, picture::svg(&sim, &view)).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", file.display()))
        })?;
        Ok(sim.report())
    }
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let scale = if arguments.large { Scale::large() } else { Scale::small() };
    let seeds = arguments.seed.map_or(arguments.seeds.clone(), |seed| seed..seed + 1);
    let mut summary = Summary::default();
    for seed in seeds {
        summary.add(&arguments, arguments.run(seed, &scale)?);
    }
    // The reader may need no more than the first lines.
    match io::stdout().write_all(summary.to_string().as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    Ok(if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The result of all runs.
#[derive(Default)]
struct Summary {
    runs: u64,
    steps: u64,
    acquisitions: u64,
    failed: u64,
    /// The violations of each run, with the commands that repeat and draw it.
    failures: String,
    totals: BTreeMap<&'static str, u64>,
}

impl Summary {
    fn add(&mut self, arguments: &Arguments, report: Report) {
        self.runs += 1;
        self.steps += report.steps;
        self.acquisitions += report.acquisitions;
        for (what, count) in report.counts {
            *self.totals.entry(what).or_insert(0) += count;
        }
        if report.violations.is_empty() {
            return;
        }
        self.failed += 1;
        let (seed, violations) = (report.seed, report.violations.join("\n  "));
        let command = arguments.command(seed);
        // Writing to a `String` does not fail.
        let _ = writeln!(
            self.failures,
            "seed {seed}:\n  {violations}\n  repeat: {command} --print\n  draw:   {command} --svg seed-{seed}.svg"
        );
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, steps, acquisitions, failed, failures, totals } = self;
        writeln!(
            f,
            "{failures}{runs} runs, {steps} steps, {acquisitions} acquisitions, {failed} runs with violations"
        )?;
        totals.iter().try_for_each(|(what, count)| writeln!(f, "{count:>9} {what}"))?;
        let all = Fault::NAMES.iter().chain(&rare::OF_SESSIONS).chain(&rare::OF_MACHINES);
        let mut missed = all.filter(|what| !totals.contains_key(*what));
        missed.try_for_each(|what| writeln!(f, "    never {what}"))
    }
}
