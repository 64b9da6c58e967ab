//! Releases the lock while the command continues: `release`.
//!
//! A command inherits one end of each of two pipes. So only processes of the command can ask its
//! keeper for the release:
//!
//! - A byte in the first pipe is a request.
//! - A byte in the second one confirms the release. The keeper writes one for each request, once
//!   the lock is released. The end of this pipe means that no confirmation will follow.

use std::fs::{File, Permissions};
use std::future::pending;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitCode;

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

use crate::{Failure, Usage};

/// Names the two descriptors, separated by a comma.
pub(crate) const VARIABLE: &str = "ZK_LOCK_RELEASE";

const NOT_CONFIRMED: &str = "the release is not confirmed: the lock is lost, no server answers, \
                             or `zk-lock run` has ended";

/// The keeper's ends.
pub(crate) struct Requests {
    requests: Receiver,
    confirmations: Sender,
}

/// The ends for the command, which must stay open until it has started.
pub(crate) struct Inherited(File, File);

pub(crate) fn channel() -> io::Result<(Requests, Inherited)> {
    let (requests, request) = io::pipe()?;
    let (confirmed, confirmations) = io::pipe()?;
    let inherited = Inherited(OwnedFd::from(request).into(), OwnedFd::from(confirmed).into());
    for end in [&inherited.0, &inherited.1] {
        fcntl_setfd(end, FdFlags::empty())?;
        // `release` opens it again, perhaps as another user. Only processes that have the descriptor
        // can. Systems other than Linux need no permission, and may not have one to set.
        let _ = end.set_permissions(Permissions::from_mode(0o666));
    }
    let requests = Receiver::from_owned_fd(requests.into())?;
    let confirmations = Sender::from_owned_fd(confirmations.into())?;
    Ok((Requests { requests, confirmations }, inherited))
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
            pending::<()>().await;
        }
    }

    /// Confirms the release to the request that was read, then to each new one. Never returns.
    pub(crate) async fn confirm(mut self) {
        loop {
            // If it fails, no process waits for it.
            let _ = self.confirmations.write_all(b"c").await;
            self.next().await;
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
    let confirmed = match request.write_all(b"r").await {
        Ok(()) => confirmation.read(&mut [0]).await?,
        // The keeper reads no requests any more.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => 0,
        Err(error) => return Err(error.into()),
    };
    match confirmed {
        0 => Err(NOT_CONFIRMED.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
