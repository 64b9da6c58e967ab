//! What a supervisor must know in order to end the command without its keeper: a page of memory
//! that the keeper writes and the supervisor reads.
//!
//! A pipe could fill up while the supervisor is stopped with its job. Times are those of a clock
//! that both processes share, and that goes on while the machine is suspended.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use nix::unistd::close as close_descriptor;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use zk_recipes::session::Client;

/// The lease ends earlier than the session by this fraction of the session timeout.
pub(crate) const RESERVE_DIVISOR: u32 = 20;
/// How long a supervisor without a session timeout waits until it looks again.
const INTERVAL: Duration = Duration::from_millis(250);

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The place of each number in the page, in bytes.
const END: u64 = 0;
const TIMEOUT: u64 = 8;
const RUNS: u64 = 16;

/// The page.
pub(crate) struct Lease(File);

impl Lease {
    /// Creates the page, which the next process inherits.
    pub(crate) fn create() -> io::Result<Self> {
        let page = new_file()?;
        fcntl_setfd(&page, FdFlags::empty())?;
        Ok(Self(page))
    }

    /// Opens the page that the supervisor has created. Commands do not inherit it.
    pub(crate) fn inherit(descriptor: i32) -> io::Result<Self> {
        let opened = File::options().read(true).write(true).open(format!("/dev/fd/{descriptor}"));
        close_descriptor(descriptor)?;
        // Without `/dev/fd`, the supervisor does not know the lease.
        opened.or_else(|_| new_file()).map(Self)
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Reports that processes of the command run from now on.
    pub(crate) fn begin(&self, client: &Client) -> io::Result<()> {
        self.write(TIMEOUT, millis(client.session_timeout()))?;
        self.extend(client)?;
        self.write(RUNS, 1)
    }

    /// Reports the end of the lease.
    pub(crate) fn extend(&self, client: &Client) -> io::Result<()> {
        // In this order: what delays this process makes the lease shorter.
        let now = now();
        let left = client.lease().map_or(Duration::ZERO, |lease| lease - Instant::now());
        self.write(END, millis(now + left))
    }

    /// Reports how long the keeper may take to end the command.
    pub(crate) fn end_within(&self, time: Duration) -> io::Result<()> {
        self.write(END, millis(now().saturating_add(time)))
    }

    /// Reports that the command runs without the lock.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.write(END, u64::MAX)
    }

    /// Reports that the supervisor need not end any process.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.write(RUNS, 0)
    }

    /// Returns whether the command is in the care of the keeper.
    pub(crate) fn runs(&self) -> io::Result<bool> {
        Ok(self.read(RUNS)? != 0)
    }

    /// Returns whether the lease has ended, and the keeper has had time to end the command.
    pub(crate) fn has_passed(&self) -> io::Result<bool> {
        Ok(self.runs()? && self.left()?.is_zero())
    }

    /// Returns after which time to look again.
    pub(crate) fn interval(&self) -> io::Result<Duration> {
        Ok(match self.runs()? {
            true => INTERVAL.min(self.patience()?).min(self.left()?).max(Duration::from_millis(1)),
            false => INTERVAL,
        })
    }

    /// Returns how long the servers keep the session at least, if that is known.
    pub(crate) fn grace(&self) -> io::Result<Option<Duration>> {
        let reserve = self.timeout()? / RESERVE_DIVISOR;
        Ok(self.runs()?.then_some((self.end()? + reserve).saturating_sub(now())))
    }

    fn left(&self) -> io::Result<Duration> {
        Ok((self.end()? + self.patience()?).saturating_sub(now()))
    }

    /// The keeper reports the loss itself, if it can, within this time. It is half the reserve.
    fn patience(&self) -> io::Result<Duration> {
        Ok(self.timeout()? / (2 * RESERVE_DIVISOR))
    }

    fn timeout(&self) -> io::Result<Duration> {
        self.read(TIMEOUT).map(Duration::from_millis)
    }

    fn end(&self) -> io::Result<Duration> {
        self.read(END).map(Duration::from_millis)
    }

    fn write(&self, place: u64, number: u64) -> io::Result<()> {
        self.0.write_all_at(&number.to_ne_bytes(), place)
    }

    fn read(&self, place: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        match self.0.read_exact_at(&mut bytes, place) {
            // The keeper has written nothing yet.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read.map(|()| u64::from_ne_bytes(bytes)),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn now() -> Duration {
    // The clock is positive.
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

#[cfg(target_os = "linux")]
fn new_file() -> io::Result<File> {
    let descriptor = rustix::fs::memfd_create(c"zk-lock", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(descriptor.into())
}

#[cfg(not(target_os = "linux"))]
fn new_file() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = std::env::temp_dir().join(format!("zk-lock-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
