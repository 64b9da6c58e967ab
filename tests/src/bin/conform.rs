//! Tests a client of ZooKeeper: `conform [OPTIONS] -- COMMAND ..`, or a server: `conform --server
//! HOST:PORT`. See `docs/conformance.md`.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use zk_testkit::conform::{Settings, run, run_server, scenes, server_scenes};

/// Tests a client of ZooKeeper by scenes.
#[derive(Debug, Parser)]
struct Options {
    /// Plays only scenes whose family or name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Lists the scenes with their sources.
    #[arg(long)]
    list: bool,
    /// Prints all that happened in scenes that fail, and shows the client's standard error.
    #[arg(long, short)]
    verbose: bool,
    /// How many scenes are played at once.
    #[arg(long, default_value = "8")]
    jobs: NonZero<usize>,
    /// How long to wait for anything, in seconds. Only a client that hangs needs so long.
    #[arg(long, default_value = "20")]
    limit: u64,
    /// Asks the server at this address instead, in a node of its own.
    #[arg(long)]
    server: Option<String>,
    /// Writes the results into `conformance.md` and `conformance.txt` in this folder.
    #[arg(long)]
    into: Option<PathBuf>,
    /// The client under test, and its arguments.
    #[arg(last = true)]
    command: Vec<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut scenes = if options.server.is_some() { server_scenes() } else { scenes() };
    scenes.retain(|scene| scene.title().contains(&options.only));
    if options.list || options.command.is_empty() && options.server.is_none() {
        for scene in &scenes {
            println!("{} ({})", scene.title(), scene.source);
        }
        println!("{} scenes", scenes.len());
        return ExitCode::SUCCESS;
    }
    let settings = Settings {
        command: options.command,
        limit: Duration::from_secs(options.limit),
        jobs: options.jobs,
        is_verbose: options.verbose,
    };
    let report = match &options.server {
        Some(address) => run_server(&scenes, address, settings.limit),
        None => run(&scenes, &settings),
    };
    if report.client.is_empty() {
        eprintln!("error: no answer: a client begins with `client NAME VERSION`");
        return ExitCode::from(2);
    }
    if options.verbose {
        for (outcome, _) in report.failed() {
            println!("==== {}\n{}", outcome.scene.title(), outcome.transcript.join("\n"));
        }
    }
    println!("{report}");
    if let Some(folder) = options.into
        && let Err(error) = report.write_into(&folder)
    {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    ExitCode::from(u8::from(report.failed().next().is_some()))
}
