//! Releases the lock while the command continues: `release`.
//!
//! A command inherits one end of each of two pipes. A byte in the first asks its keeper for the
//! release, and the keeper closes the second when the lock is released. So only processes of the
//! command can ask.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd as _;
use std::process::ExitCode;

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{OpenOptions, Receiver};

use crate::{Failure, Usage};

/// Names the two descriptors, separated by a comma.
pub(crate) const VARIABLE: &str = "ZK_LOCK_RELEASE";

/// The keeper's ends.
pub(crate) struct Requests {
    requests: Receiver,
    /// Closed to confirm the release.
    pub(crate) confirmation: Option<PipeWriter>,
}

/// The ends for the command, which must stay open until it has started.
pub(crate) struct Inherited(PipeWriter, PipeReader);

pub(crate) fn channel() -> io::Result<(Requests, Inherited)> {
    let (requests, request) = io::pipe()?;
    let (confirmed, confirmation) = io::pipe()?;
    fcntl_setfd(&request, FdFlags::empty())?;
    fcntl_setfd(&confirmed, FdFlags::empty())?;
    let requests = Receiver::from_owned_fd(requests.into())?;
    let confirmation = Some(confirmation);
    Ok((Requests { requests, confirmation }, Inherited(request, confirmed)))
}

impl Inherited {
    /// Returns the value of [`VARIABLE`].
    pub(crate) fn descriptors(&self) -> String {
        format!("{},{}", self.0.as_raw_fd(), self.1.as_raw_fd())
    }
}

impl Requests {
    /// Waits for a request.
    pub(crate) async fn next(&mut self) {
        // No process has the other end if nothing can be read.
        if !matches!(self.requests.read(&mut [0]).await, Ok(1..)) {
            std::future::pending::<()>().await;
        }
    }
}

/// Asks the keeper for the release, and waits for it.
pub(crate) async fn run() -> Result<ExitCode, Failure> {
    let variable = std::env::var(VARIABLE).unwrap_or_default();
    let numbers = variable.split_once(',').and_then(|(request, confirmation)| {
        Some((request.parse::<u16>().ok()?, confirmation.parse::<u16>().ok()?))
    });
    let outside = || Usage::new("`release` is for a command of `zk-lock run`");
    let (request, confirmation) = numbers.ok_or_else(outside)?;
    let open = OpenOptions::new();
    let mut confirmation =
        open.open_receiver(format!("/dev/fd/{confirmation}")).map_err(|_| outside())?;
    let mut request = open.open_sender(format!("/dev/fd/{request}")).map_err(|_| outside())?;
    request.write_all(b"r").await?;
    // Until the keeper closes it: nothing is ever written.
    confirmation.read_to_end(&mut Vec::new()).await?;
    Ok(ExitCode::SUCCESS)
}
