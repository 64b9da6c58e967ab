//! Compares clients: the same work for all, interleaved in one run.
//!
//! Each measurement runs in its own process on one thread, which isolates its CPU time and memory.
//! The server is a separate process. By default it only sends prepared bytes, so that the client
//! dominates the result.
//!
//! `taskset -c 0 bench` pins both ends to one core, so that round trips do not depend on wake-ups
//! across cores.

mod changer;
mod locks;
mod null_server;
mod ours;
mod ours_blocking;
mod peers;
mod raw;
mod raw_tokio;
mod report;
mod server;
mod work;

use std::io;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;

use crate::locks::LockCommand;
use crate::report::{Figures, Table};
use crate::server::Server;
use crate::work::{Kind, Work};

/// Compares the performance of ZooKeeper clients.
///
/// Prints one JSON line per measurement, and a table of medians at the end.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    locks: Option<LockCommand>,
    /// The server to measure against.
    #[arg(long, value_enum, default_value = "null")]
    server: server::Kind,
    /// The address of a running server to measure against instead.
    #[arg(long)]
    connect: Option<String>,
    /// The number of repetitions; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A factor for the number of operations of every measurement.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Measures only this client.
    #[arg(long)]
    client: Option<String>,
    /// Measures only this kind of work.
    #[arg(long)]
    work: Option<Kind>,
    /// With `--measure`: installs a recorder of metrics and a subscriber of the log.
    #[cfg(feature = "observed")]
    #[arg(long)]
    observe: bool,
    /// Internal: runs the null server.
    #[arg(long, hide = true)]
    be_null_server: bool,
    /// Internal: changes this number of nodes.
    #[arg(long, hide = true)]
    be_changer: Option<usize>,
    /// Internal: runs one measurement and prints its figures.
    #[arg(long, hide = true)]
    measure: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = if let Some(command) = &arguments.locks {
        locks::run(command)
    } else if arguments.be_null_server {
        null_server::run()
    } else if let (Some(nodes), Some(at)) = (arguments.be_changer, &arguments.connect) {
        changer::run(at, nodes)
    } else if arguments.measure {
        measure(&arguments)
    } else {
        compare(&arguments)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn clients() -> Vec<&'static str> {
    let ours = [raw::NAME, raw_tokio::NAME, ours::NAME, ours_blocking::NAME];
    ours.into_iter().chain(peers::NAMES).collect()
}

fn measure(arguments: &Arguments) -> io::Result<()> {
    let missing = || io::Error::other("--measure needs --connect, --client and --work");
    let at = arguments.connect.as_deref().ok_or_else(missing)?;
    let client = arguments.client.as_deref().ok_or_else(missing)?;
    let work = Work::new(arguments.work.ok_or_else(missing)?, arguments.scale);
    #[cfg(feature = "observed")]
    if arguments.observe {
        let _observed = zk_testkit::observed::Observed::start();
    }
    let figures = match client {
        raw::NAME => raw::measure(at, work)?,
        raw_tokio::NAME => raw_tokio::measure(at, work)?,
        ours::NAME => ours::measure(at, work)?,
        ours_blocking::NAME => ours_blocking::measure(at, work)?,
        peer => peers::measure(peer, at, work)?,
    };
    println!("{figures}");
    Ok(())
}

fn compare(arguments: &Arguments) -> io::Result<()> {
    let server = match &arguments.connect {
        Some(at) => Server::running(at)?,
        None => Server::start(arguments.server)?,
    };
    let mut table = Table::new(format!(
        "against {}, medians of {} rounds, scale {}",
        server.name, arguments.rounds, arguments.scale
    ));
    let mut failure = Ok(());
    for kind in Kind::ALL {
        if arguments.work.map_or(server.is_null && !kind.suits_null_server(), |only| only != kind) {
            continue;
        }
        for _ in 0..arguments.rounds {
            for client in clients().into_iter().filter(|client| does(client, kind)) {
                if arguments.client.as_deref().is_some_and(|only| only != client) {
                    continue;
                }
                match spawn_measurement(client, kind, &server.at, arguments.scale) {
                    Ok(figures) => {
                        println!("{}", figures.json(client, kind));
                        table.add(client, kind, figures);
                    }
                    // Other measurements continue; the error was printed.
                    Err(error) => failure = failure.and(Err(error)),
                }
            }
        }
    }
    println!("\n{table}");
    failure
}

/// Returns whether a client supports a kind of work.
fn does(client: &str, kind: Kind) -> bool {
    match client {
        ours::NAME => true,
        ours_blocking::NAME => ours_blocking::does(kind),
        raw::NAME => !kind.is_ours_alone() && kind != Kind::WatchesJoined,
        raw_tokio::NAME => raw_tokio::does(kind),
        _ => !kind.is_ours_alone(),
    }
}

fn spawn_measurement(client: &str, kind: Kind, at: &str, scale: f64) -> io::Result<Figures> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--measure", "--client", client, "--work", &kind.to_string(), "--connect", at])
        .args(["--scale", &scale.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|()| io::Error::other(format!("{client}, {kind}: no figures")))
}
