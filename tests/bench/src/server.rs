//! The servers to measure against.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use zk_session::blocking::Client;
use zk_session::proto::{ErrorCode, NodeKind};
use zk_testkit::real::RealEnsemble;

use crate::work::{DATA, PATH};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A server that sends prepared bytes, so that the client dominates the result.
    Null,
    /// A real ZooKeeper, which must be installed (`tests/setup-real.sh`).
    Real,
}

/// A server process, stopped when dropped.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) at: String,
    pub(crate) is_null: bool,
    _null: Option<Killed>,
    _real: Option<RealEnsemble>,
}

struct Killed(Child);

impl Server {
    pub(crate) fn start(kind: Kind) -> io::Result<Self> {
        match kind {
            Kind::Null => {
                let (process, at) = null_server()?;
                Ok(Self {
                    name: "the null server".to_owned(),
                    at,
                    is_null: true,
                    _null: Some(process),
                    _real: None,
                })
            }
            Kind::Real => {
                let ensemble = RealEnsemble::start(1)?;
                let server = Self::running(&ensemble.connect_string())?;
                let name = "a real ZooKeeper".to_owned();
                Ok(Self { name, _real: Some(ensemble), ..server })
            }
        }
    }

    /// Uses a running server.
    pub(crate) fn running(at: &str) -> io::Result<Self> {
        let client = Client::connect(at).map_err(io::Error::other)?;
        match client.create(PATH, &DATA, NodeKind::Persistent).wait() {
            Ok(_) => {}
            Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        client.close();
        let name = format!("the server at {at}");
        Ok(Self { name, at: at.to_owned(), is_null: false, _null: None, _real: None })
    }
}

fn null_server() -> io::Result<(Killed, String)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--be-null-server")
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take();
    let child = Killed(child);
    let mut address = String::new();
    let stdout = stdout.ok_or_else(|| io::Error::other("no output"))?;
    BufReader::new(stdout).read_line(&mut address)?;
    Ok((child, address.trim().to_owned()))
}

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
