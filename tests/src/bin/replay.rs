//! Replays recordings of clients: session and machines of recipes decide the same again, record by
//! record.
//!
//! A step that diverges ends the command with status 1.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use zk_proto::recording::Reader;
use zk_recipes::recording::{Replayed, replay};

/// Replays what `Client::builder(..).record(..)` or `zk-lock --record` has recorded.
#[derive(Debug, Parser)]
#[command(name = "replay")]
struct Arguments {
    /// The recordings.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Prints every record before.
    #[arg(long)]
    print: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut code = ExitCode::SUCCESS;
    for file in &arguments.files {
        let shown = file.display();
        match run(file, arguments.print) {
            Ok(Replayed { records, inputs, duration, decided, repeated, .. }) => {
                println!("{shown}: {records} records, {inputs} inputs, {duration:?}: replayed");
                println!("  machines: {decided} have decided again, {repeated} were repeated");
            }
            Err(error) => {
                eprintln!("{shown}: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn run(file: &PathBuf, prints: bool) -> Result<Replayed, Box<dyn std::error::Error>> {
    let recording = std::fs::read(file)?;
    if prints {
        let mut out = io::stdout().lock();
        for record in Reader::new(&recording)? {
            writeln!(out, "{}", record?)?;
        }
    }
    Ok(replay(&recording)?)
}
