//! The client under test, in a process of its own.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::player::Input;

/// A running client. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Subject {
    child: Child,
    commands: Option<ChildStdin>,
    next: u32,
    /// The commands without a judged answer, in order.
    pub(crate) asked: VecDeque<(u32, String)>,
    pub(crate) answers: BTreeMap<u32, String>,
    pub(crate) states: Vec<String>,
    pub(crate) states_judged: usize,
    pub(crate) events: VecDeque<String>,
    /// The line with its name and version.
    pub(crate) name: Option<String>,
    /// A line that the protocol does not have.
    pub(crate) oddity: Option<String>,
    pub(crate) has_exited: bool,
    /// Whether it answered that it does not have a command.
    pub(crate) lacks_a_command: bool,
}

impl Subject {
    /// Starts the client. Its lines become inputs with this number.
    pub(crate) fn start(
        command: &[String],
        number: usize,
        inputs: Sender<Input>,
        shows_errors: bool,
    ) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if shows_errors { Stdio::inherit() } else { Stdio::null() })
            .spawn()?;
        let output = child.stdout.take().expect("piped");
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if inputs.send(Input::Line(number, line)).is_err() {
                    return;
                }
            }
            let _ = inputs.send(Input::Exited(number));
        });
        Ok(Self {
            commands: child.stdin.take(),
            child,
            next: 1,
            asked: VecDeque::new(),
            answers: BTreeMap::new(),
            states: Vec::new(),
            states_judged: 0,
            events: VecDeque::new(),
            name: None,
            oddity: None,
            has_exited: false,
            lacks_a_command: false,
        })
    }

    /// Sends a command.
    pub(crate) fn ask(&mut self, command: &str) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        self.asked.push_back((number, command.into()));
        let commands = self.commands.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        commands.write_all(format!("{number} {command}\n").as_bytes())?;
        commands.flush()
    }

    pub(crate) fn handle_line(&mut self, line: String) {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match (word, word.parse()) {
            (_, Ok(_)) if rest == "unsupported" => self.lacks_a_command = true,
            (_, Ok(number)) => drop(self.answers.insert(number, rest.into())),
            ("client", _) => self.name = Some(rest.into()),
            ("state", _) => self.states.push(rest.into()),
            // Not every client has a lock that reports its loss.
            ("event", _) if rest.starts_with("lost ") => {}
            ("event", _) => self.events.push_back(rest.into()),
            _ => self.oddity = Some(line),
        }
    }

    /// Ends the input, and waits for the process to exit.
    ///
    /// # Errors
    ///
    /// Returns what it did instead.
    pub(crate) fn end(&mut self, limit: Duration) -> Result<(), String> {
        self.commands = None;
        let start = Instant::now();
        while start.elapsed() < limit {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the process ends with {status}")),
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("the process does not end at the end of its input".into())
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
