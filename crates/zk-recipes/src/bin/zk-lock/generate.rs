//! Manual pages and shell completions, for packages: the hidden command `generate`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, ValueEnum as _};
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
    let visible = without_hidden(&command);
    clap_mangen::generate_to(command, folder)?;
    for shell in Shell::value_variants() {
        let file = clap_complete::generate_to(*shell, &mut visible.clone(), "zk-lock", folder)?;
        if *shell == Shell::Bash {
            // clap_complete spells the name in two ways, and finds no subcommand (clap #6421).
            let text = std::fs::read_to_string(&file)?;
            std::fs::write(&file, text.replace("zk__subcmd__lock", "zk__lock"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the declaration without hidden commands and options, which clap_complete would offer.
fn without_hidden(command: &Command) -> Command {
    let options = command.get_arguments().filter(|option| !option.is_hide_set()).cloned();
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let visible = Command::new(command.get_name().to_owned())
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(options)
        .subcommands(commands.map(without_hidden));
    match command.get_about() {
        Some(about) => visible.about(about.clone()),
        None => visible,
    }
}
