//! Starting a process that does not outlive the one that starts it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, getppid};

use crate::{complain, signals};

/// Exit codes for commands that cannot be run, as shells have them.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The process that keeps the lock
    keeper: i32,
    /// The signals that it has blocked
    #[arg(long, value_delimiter = ',')]
    blocked: Vec<i32>,
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Starts this program again: the one that runs, even if its file was replaced or removed, as by
/// an upgrade.
pub(crate) fn this_program() -> std::io::Result<Command> {
    let running = Path::new("/proc/self/exe");
    Ok(Command::new(if running.exists() { running.into() } else { std::env::current_exe()? }))
}

/// What starts `command` as a child of this process.
pub(crate) fn command(command: &[OsString], blocked: &str) -> std::io::Result<Command> {
    let mut tied = this_program()?;
    tied.args(["tied", &std::process::id().to_string()]);
    if !blocked.is_empty() {
        tied.args(["--blocked", blocked]);
    }
    tied.arg("--").args(command);
    Ok(tied)
}

/// Becomes the command.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let ready = die_with(arguments.keeper).and_then(|()| signals::unblock(&arguments.blocked));
    if let Err(error) = ready {
        complain(&error);
        return ExitCode::from(NOT_EXECUTABLE);
    }
    let (program, rest) = (&arguments.command[0], &arguments.command[1..]);
    let error = Command::new(program).args(rest).exec();
    complain(&format_args!("{}: {error}", program.display()));
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    ExitCode::from(if missing { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Has this process sent SIGTERM when its parent is killed, which nobody else would do then.
pub(crate) fn die_with(parent: i32) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    match is_child_of(parent) {
        true => Ok(()),
        false => Err(std::io::Error::other("the process that started this one has ended")),
    }
}

/// Whether `parent` has not ended.
pub(crate) fn is_child_of(parent: i32) -> bool {
    getppid() == Pid::from_raw(parent)
}
