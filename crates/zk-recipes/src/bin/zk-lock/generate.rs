//! Manual pages and shell completions, for packages: the hidden command `generate`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum as _;
use clap_complete::Shell;

use crate::{Failure, full_command};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder to write to; it must exist
    folder: PathBuf,
}

/// Writes the manual page of each command and the completions of each shell to a folder.
pub(crate) fn run(Arguments { folder }: &Arguments) -> Result<ExitCode, Failure> {
    // The pages have no page for `help`.
    let command = full_command().disable_help_subcommand(true);
    clap_mangen::generate_to(command.clone(), folder)?;
    for shell in Shell::value_variants() {
        let file = clap_complete::generate_to(*shell, &mut command.clone(), "zk-lock", folder)?;
        if *shell == Shell::Bash {
            // clap_complete spells the name in two ways, and finds no subcommand (clap #6421).
            let text = std::fs::read_to_string(&file)?;
            std::fs::write(&file, text.replace("zk__subcmd__lock", "zk__lock"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
