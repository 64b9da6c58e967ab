//! Changes nodes from a process of its own, so that whoever watches them is all that is measured.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use zk_proto::{MultiOp, MultiRequest, Request, SetDataRequest};

use crate::raw::{self, Link};
use crate::work::child;

/// How many nodes one transaction changes.
const CHANGED_AT_ONCE: usize = 1000;

/// The process. When this is dropped, its nodes are deleted.
pub(crate) struct Changer {
    process: Child,
    /// A line has all nodes changed; the end has them deleted.
    commands: Option<ChildStdin>,
    /// The nodes, which are there.
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
            0 => Err(io::Error::other("the nodes were not made")),
            _ => Ok(changer),
        }
    }

    /// Has all nodes changed, and does not wait for it.
    pub(crate) fn change(&mut self) -> io::Result<()> {
        self.commands.as_mut().map_or(Ok(()), |commands| commands.write_all(b"\n"))
    }
}

impl Drop for Changer {
    fn drop(&mut self) {
        self.commands = None;
        // What it leaves behind costs the next measurement more than this one.
        let _ = self.process.wait();
    }
}

fn paths(nodes: usize) -> Vec<String> {
    (0..nodes).map(child).collect()
}

/// Is that process.
pub(crate) fn run(at: &str, nodes: usize) -> io::Result<()> {
    let (mut link, paths) = (Link::connect(at)?, paths(nodes));
    let mut commands = io::stdin().lines();
    for_each(&mut link, &paths, raw::create)?;
    println!("ready");
    if commands.next().is_some() {
        let transactions = paths.chunks(CHANGED_AT_ONCE).map(change);
        let transactions = transactions.collect::<io::Result<Vec<_>>>()?;
        link.exchange(&transactions.concat(), transactions.len())?;
    }
    commands.for_each(drop);
    for_each(&mut link, &paths, raw::delete)
}

fn for_each(
    link: &mut Link,
    paths: &[String],
    request: impl Fn(&str) -> Request<'_>,
) -> io::Result<()> {
    for paths in paths.chunks(CHANGED_AT_ONCE) {
        let frames = paths.iter().map(|path| raw::encode(&request(path)));
        let frames = frames.collect::<io::Result<Vec<_>>>()?;
        link.exchange(&frames.concat(), frames.len())?;
    }
    Ok(())
}

/// Returns a transaction that changes these nodes.
fn change(paths: &[String]) -> io::Result<Vec<u8>> {
    let change = |path| MultiOp::SetData(SetDataRequest { path, data: None, version: -1 });
    let changes: Vec<_> = paths.iter().map(|path| change(path.as_str())).collect();
    raw::encode(&Request::Multi(MultiRequest::new(&changes)))
}
