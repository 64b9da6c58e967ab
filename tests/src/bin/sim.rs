//! Runs the simulator from seeds, and draws a run.
//!
//! A run that violates a guarantee ends the command with status 1, after the commands that repeat
//! and draw it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, ValueEnum};
use zk_testkit::sim::picture::{self, View};
use zk_testkit::sim::{
    self, Bug, Fault, NOT_IN_LASTING, REPLACED, Report, Scale, caches, following, outages, rare,
    record, run, run_lasting,
};

/// Runs whole clients and an ensemble on a virtual clock, with random faults.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Arguments {
    /// Runs this seed.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Runs these seeds, as in 0..100.
    #[arg(long, value_parser = seeds, default_value = "0..20")]
    seeds: RangeInclusive<u64>,
    /// Runs ten clients for 40 s instead of four for 13 s.
    #[arg(long)]
    large: bool,
    /// What clients do.
    #[arg(long, value_enum, default_value_t)]
    workload: Workload,
    /// Injects this bug into all clients, as in ForgetsLastZxid.
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// Prints every event of the run.
    #[arg(long, requires = "seed", conflicts_with = "seeds")]
    print: bool,
    /// Draws the run to this file.
    #[arg(long, requires = "seed", conflicts_with = "seeds")]
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

/// What clients do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Mutexes, a read/write lock, permits of a semaphore.
    #[default]
    Locks,
    /// Several locks at once, conversions, the textbook lock, a barrier and a double barrier.
    Recipes,
    /// Tasks of each client that take turns with one node.
    Tasks,
    /// Many attempts of each client at once.
    Crowd,
    /// The same as locks, on a ClickHouse Keeper.
    Keeper,
    /// An election, and nodes that are kept alive, over many sessions.
    Lasting,
    /// Caches of a tree that changes.
    Caches,
    /// Holders of locks, while all servers are unreachable for less than a lease.
    Outages,
    /// The configuration of an ensemble whose servers are replaced.
    Following,
}

impl Workload {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns what a large number of runs should reach.
    fn events(self) -> Vec<&'static str> {
        let (faults, sessions) = (&Fault::NAMES[..], &rare::OF_SESSIONS[..]);
        let machines = &rare::OF_MACHINES[..];
        match self {
            Self::Locks | Self::Keeper => [faults, sessions, machines].concat(),
            Self::Tasks => [faults, &rare::OF_TASKS].concat(),
            Self::Crowd => [faults, &["lists shared"]].concat(),
            Self::Recipes => {
                let recipes = [&rare::OF_RECIPES[..], &rare::RARE_OF_RECIPES].concat();
                [faults, sessions, machines, &recipes].concat()
            }
            Self::Lasting | Self::Following => {
                let faults = faults.iter().filter(|name| !NOT_IN_LASTING.contains(name));
                let others = match self {
                    Self::Lasting => &rare::OF_LASTING[..],
                    _ => &[REPLACED],
                };
                faults.chain(others).copied().collect()
            }
            Self::Caches => [faults, &rare::OF_CACHES].concat(),
            Self::Outages => rare::OF_OUTAGES.to_vec(),
        }
    }
}

fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("two numbers with .. between them")?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
    let (first, end): (u64, u64) = (number(first)?, number(end)?);
    let last = end.checked_sub(1).filter(|last| first <= *last);
    last.map(|last| first..=last).ok_or_else(|| format!("{text} has no seeds"))
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

fn conflict(text: &str) -> clap::Error {
    <Arguments as clap::CommandFactory>::command().error(ErrorKind::ArgumentConflict, text)
}

impl Arguments {
    /// Checks what the parser cannot.
    fn check(&self) -> Result<(), clap::Error> {
        if self.to.is_some_and(|to| to <= self.from) {
            return Err(conflict("--to is not after --from"));
        }
        let given = [
            (self.large, "--large"),
            (self.print, "--print"),
            (self.svg.is_some(), "--svg"),
            (self.workload == Workload::Lasting && self.bug.is_some(), "--bug"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) if !self.has_scale() => {
                Err(conflict(&format!("--workload {} has no {option}", self.workload.name())))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether runs of the workload can be large, printed and drawn.
    fn has_scale(&self) -> bool {
        use Workload::{Crowd, Keeper, Locks, Recipes, Tasks};
        matches!(self.workload, Locks | Recipes | Tasks | Crowd | Keeper)
    }

    /// Returns the command that repeats a run.
    fn command(&self, seed: u64) -> String {
        let mut command = format!("cargo run -p zk-testkit --bin sim -- --seed {seed}");
        if self.workload != Workload::default() {
            command += &format!(" --workload {}", self.workload.name());
        }
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
        match self.workload {
            Workload::Lasting => return Ok(run_lasting(seed, None)),
            Workload::Caches => return Ok(caches(seed, self.bug)),
            Workload::Outages => return Ok(outages(seed, self.bug)),
            Workload::Following => return Ok(following(seed, self.bug)),
            Workload::Locks
            | Workload::Recipes
            | Workload::Tasks
            | Workload::Crowd
            | Workload::Keeper => {}
        }
        let Some(file) = &self.svg else { return Ok(run(seed, scale, self.bug, self.print)) };
        if self.print {
            run(seed, scale, self.bug, true);
        }
        let sim = record(seed, scale, self.bug);
        let locks = picture::locks(&sim);
        if let Some(lock) = self.lock.as_ref().filter(|lock| !locks.contains(lock)) {
            let text = format!("the run has no lock {lock}, but {}", locks.join(", "));
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let view = View { from: self.from, to: self.to, lock: self.lock.clone() };
        std::fs::write(file, picture::svg(&sim, &view)).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", file.display()))
        })?;
        Ok(sim.report())
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = arguments.check() {
        error.exit();
    }
    match run_all(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all seeds, and returns the number of those that violate a guarantee.
fn run_all(arguments: &Arguments) -> io::Result<u64> {
    let mut scale = if arguments.large { Scale::large() } else { Scale::small() };
    scale.targets = match arguments.workload {
        Workload::Recipes => sim::Targets::Recipes,
        Workload::Tasks => sim::Targets::Tasks,
        Workload::Crowd => sim::Targets::Crowd,
        _ => sim::Targets::Locks,
    };
    scale.is_keeper = arguments.workload == Workload::Keeper;
    let seeds = arguments.seed.map_or(arguments.seeds.clone(), |seed| seed..=seed);
    let mut summary = Summary { events: arguments.workload.events(), ..Summary::default() };
    for seed in seeds {
        // A panic names no seed, and must not end the runs after it.
        let report = catch_unwind(AssertUnwindSafe(|| arguments.run(seed, &scale)));
        let panicked = |_| {
            let violations = vec!["the run panicked".into()];
            Ok(Report { seed, violations, ..Report::default() })
        };
        if let Some(failure) = summary.add(arguments, report.unwrap_or_else(panicked)?) {
            print(&failure)?;
        }
    }
    print(&summary.to_string())?;
    Ok(summary.failed)
}

fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader may need no more than the first lines.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// The result of all runs.
#[derive(Default)]
struct Summary {
    runs: u64,
    steps: u64,
    acquisitions: u64,
    failed: u64,
    totals: BTreeMap<&'static str, u64>,
    /// What the runs should reach.
    events: Vec<&'static str>,
}

impl Summary {
    /// Returns the violations of the run, with the commands that repeat and draw it.
    fn add(&mut self, arguments: &Arguments, report: Report) -> Option<String> {
        self.runs += 1;
        self.steps += report.steps;
        self.acquisitions += report.acquisitions;
        for (what, count) in report.counts {
            *self.totals.entry(what).or_insert(0) += count;
        }
        if report.violations.is_empty() {
            return None;
        }
        self.failed += 1;
        let (seed, violations) = (report.seed, report.violations.join("\n  "));
        let command = arguments.command(seed);
        let how = match arguments.has_scale() {
            true => format!("{command} --print\n  draw:   {command} --svg seed-{seed}.svg"),
            false => command,
        };
        Some(format!("seed {seed}:\n  {violations}\n  repeat: {how}\n"))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, steps, acquisitions, failed, totals, events } = self;
        writeln!(
            f,
            "{runs} runs, {steps} steps, {acquisitions} acquisitions, {failed} runs with violations"
        )?;
        totals.iter().try_for_each(|(what, count)| writeln!(f, "{count:>9} {what}"))?;
        let mut missed = events.iter().filter(|what| !totals.contains_key(*what));
        missed.try_for_each(|what| writeln!(f, "    never {what}"))
    }
}
