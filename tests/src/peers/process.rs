//! A contender of another implementation, in its own process.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Stdio};

use super::{Program, Runnable};
use crate::turns::Turn;

/// A contender that is ready. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: Option<Lines<BufReader<ChildStdout>>>,
}

impl Process {
    /// Starts a process for each list of arguments, and waits until each has a session.
    ///
    /// # Panics
    ///
    /// If a process does not start.
    pub fn start_all(commands: Vec<(&Runnable, Vec<String>)>) -> Vec<Self> {
        let start = |(peer, arguments): (&Runnable, Vec<String>)| {
            let mut command = peer.command(Program::Contend);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("a process");
            let output = BufReader::new(child.stdout.take().expect("piped")).lines();
            Self { child, output: Some(output) }
        };
        let mut processes: Vec<_> = commands.into_iter().map(start).collect();
        for process in &mut processes {
            let line = process.output.as_mut().and_then(Iterator::next);
            assert_eq!(line.expect("a line").expect("text"), "ready");
        }
        processes
    }

    /// Starts the turns of the process, and returns them as they end. Each blocks.
    ///
    /// # Panics
    ///
    /// If it is called twice.
    pub fn go(&mut self) -> impl Iterator<Item = Result<Turn, String>> + use<> {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("the peer reads");
        let output = self.output.take().expect("called once");
        output.map(|line| line.map_err(|error| error.to_string())?.parse())
    }

    /// Waits until the process ends successfully.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn end(mut self) {
        let status = self.child.wait().expect("an ended process");
        assert!(status.success(), "ended with {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
