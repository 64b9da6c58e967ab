//! Replaces this process by the command, which then gets SIGTERM if the keeper is killed.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, getppid};

use crate::signals::MaskChanges;
use crate::{code, print_error};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The process that keeps the lock
    keeper: i32,
    #[command(flatten)]
    mask_changes: MaskChanges,
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Returns a command that starts the running program again, even if its file was replaced or
/// removed, as by an upgrade.
pub(crate) fn this_program() -> std::io::Result<Command> {
    let running = Path::new("/proc/self/exe");
    Ok(Command::new(if running.exists() { running.into() } else { std::env::current_exe()? }))
}

/// Returns a command that starts `command` as a child of this process.
pub(crate) fn command(command: &[OsString], changes: &MaskChanges) -> std::io::Result<Command> {
    let mut exec = this_program()?;
    exec.args(["exec", &std::process::id().to_string()]).args(changes.arguments());
    exec.arg("--").args(command);
    Ok(exec)
}

/// Becomes the command.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let ready = end_with_parent(arguments.keeper).and_then(|()| arguments.mask_changes.undo());
    if let Err(error) = ready {
        print_error(&error);
        return ExitCode::from(code::NOT_EXECUTABLE);
    }
    let (program, rest) = (&arguments.command[0], &arguments.command[1..]);
    let error = Command::new(program).args(rest).exec();
    print_error(&format_args!("{}: {error}", program.display()));
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    ExitCode::from(if missing { code::NOT_FOUND } else { code::NOT_EXECUTABLE })
}

/// Makes the system send SIGTERM to this process when its parent is killed.
pub(crate) fn end_with_parent(parent: i32) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    match is_child_of(parent) {
        true => Ok(()),
        false => Err(std::io::Error::other("the process that started this one has ended")),
    }
}

/// Returns whether `parent` is still running.
pub(crate) fn is_child_of(parent: i32) -> bool {
    getppid() == Pid::from_raw(parent)
}
