//! Changes nodes from a process of its own, which is not part of the measurement.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use zk_proto::{MultiOp, MultiRequest, Request, SetDataRequest};

use crate::raw::{self, Connection};
use crate::work::child;

/// The number of nodes that one transaction changes.
const CHANGED_AT_ONCE: usize = 1000;

/// The changing process. Dropping it deletes its nodes.
pub(crate) struct Changer {
    process: Child,
    /// Each line requests a change of all nodes. The end requests their deletion.
    commands: Option<ChildStdin>,
    /// The existing nodes.
    pub(crate) paths: Vec<String>,
}

impl Changer {
    pub(crate) fn start(at: &str, nodes: usize) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--be-changer", &nodes.to_string(), "--connect", at])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (commands, ready) = (process.stdin.take(), process.stdout.take());
        let changer = Self { process, commands, paths: paths(nodes) };
        let ready = ready.ok_or_else(|| io::Error::other("no output"))?;
        match BufReader::new(ready).read_line(&mut String::new())? {
            0 => Err(io::Error::other("the nodes were not created")),
            _ => Ok(changer),
        }
    }

    /// Requests a change of all nodes, without waiting.
    pub(crate) fn change(&mut self) -> io::Result<()> {
        self.commands.as_mut().map_or(Ok(()), |commands| commands.write_all(b"\n"))
    }
}

impl Drop for Changer {
    fn drop(&mut self) {
        self.commands = None;
        // Nodes left behind would distort the next measurement more than this wait.
        let _ = self.process.wait();
    }
}

fn paths(nodes: usize) -> Vec<String> {
    (0..nodes).map(child).collect()
}

/// Runs the changing process.
pub(crate) fn run(at: &str, nodes: usize) -> io::Result<()> {
    let (mut connection, paths) = (Connection::connect(at)?, paths(nodes));
    let mut commands = io::stdin().lines();
    for_each(&mut connection, &paths, raw::create)?;
    println!("ready");
    if commands.next().is_some() {
        let transactions = paths.chunks(CHANGED_AT_ONCE).map(change);
        let transactions = transactions.collect::<io::Result<Vec<_>>>()?;
        connection.exchange(&transactions.concat(), transactions.len())?;
    }
    commands.for_each(drop);
    for_each(&mut connection, &paths, raw::delete)
}

fn for_each(
    connection: &mut Connection,
    paths: &[String],
    request: impl Fn(&str) -> Request<'_>,
) -> io::Result<()> {
    for paths in paths.chunks(CHANGED_AT_ONCE) {
        let frames = paths.iter().map(|path| raw::encode(&request(path)));
        let frames = frames.collect::<io::Result<Vec<_>>>()?;
        connection.exchange(&frames.concat(), frames.len())?;
    }
    Ok(())
}

/// Returns a transaction that changes these nodes.
fn change(paths: &[String]) -> io::Result<Vec<u8>> {
    let change = |path| MultiOp::SetData(SetDataRequest { path, data: None, version: -1 });
    let changes: Vec<_> = paths.iter().map(|path| change(path.as_str())).collect();
    raw::encode(&Request::Multi(MultiRequest::new(&changes)))
}
