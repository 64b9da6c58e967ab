//! Running a command that does not outlive us: a step between `run` and the command itself.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::Pid;

use crate::complain;

/// Exit codes for commands that cannot be run, as shells have them.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The process that holds the lock
    holder: i32,
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// What starts `command` as a child of ours.
pub(crate) fn command(command: &[OsString]) -> std::io::Result<tokio::process::Command> {
    let mut tied = tokio::process::Command::new(std::env::current_exe()?);
    tied.args(["tied", &std::process::id().to_string(), "--"]).args(command);
    Ok(tied)
}

/// Becomes the command.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if let Err(error) = die_with(arguments.holder) {
        complain(&error);
        return ExitCode::from(NOT_EXECUTABLE);
    }
    let (program, rest) = (&arguments.command[0], &arguments.command[1..]);
    let error = Command::new(program).args(rest).exec();
    complain(&format_args!("{}: {error}", program.display()));
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    ExitCode::from(if missing { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Nobody else would tell the command when the holder is killed, and its lock lost.
#[cfg(target_os = "linux")]
fn die_with(holder: i32) -> std::io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::TERM))?;
    match getppid() == Pid::from_raw(holder) {
        true => Ok(()),
        false => Err(std::io::Error::other("whoever held the lock has ended")),
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: i32) -> std::io::Result<()> {
    Ok(())
}
