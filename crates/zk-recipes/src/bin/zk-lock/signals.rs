//! Signals for the command, and signals that must not stop the keeper.
//!
//! Signals that would end `zk-lock` are blocked, and read from a descriptor where the system allows
//! that. This has three advantages:
//! - Dispositions stay as they were inherited, also for the command.
//! - No signal is lost while a process starts.
//! - Each signal shows whether the keyboard sent it.
//!
//! SIGCHLD must not be blocked. The command gets the mask that the supervisor has inherited.

use std::io;

use nix::sys::signal::{SigSet, Signal as Nix};
use rustix::process::{Pid, Signal};

#[cfg(not(target_os = "linux"))]
use handlers as delivery;
#[cfg(target_os = "linux")]
use signalfd as delivery;

/// The signals that `zk-lock` handles.
const HANDLED: [Nix; 7] = [
    Nix::SIGHUP,
    Nix::SIGINT,
    Nix::SIGQUIT,
    Nix::SIGTERM,
    Nix::SIGUSR1,
    Nix::SIGUSR2,
    // Only to look again whether the job is stopped.
    Nix::SIGCONT,
];

/// The signals by which a terminal stops jobs. A stopped keeper would lose its session.
const STOPS: [Nix; 3] = [Nix::SIGTSTP, Nix::SIGTTIN, Nix::SIGTTOU];

/// A signal sent to this process.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    /// Whether a key on the terminal sent it, to every process of the job in the foreground.
    pub(crate) is_from_keyboard: bool,
    /// The process that sent it; 0 if that is not known.
    pub(crate) sender: i32,
}

/// How the mask of this process differs from the one that the supervisor has inherited.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MaskChanges {
    /// Within `run`: the signals that were blocked
    #[arg(long, hide = true, value_delimiter = ',')]
    blocked: Vec<i32>,
    /// Within `run`: SIGCHLD was unblocked
    #[arg(long, hide = true)]
    child_unblocked: bool,
}

impl MaskChanges {
    /// Returns the arguments for the process that is started next.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if !self.blocked.is_empty() {
            let blocked: Vec<_> = self.blocked.iter().map(ToString::to_string).collect();
            arguments.extend(["--blocked".to_owned(), blocked.join(",")]);
        }
        arguments.extend(self.child_unblocked.then(|| "--child-unblocked".to_owned()));
        arguments
    }

    /// Restores the inherited mask.
    pub(crate) fn undo(&self) -> io::Result<()> {
        if self.child_unblocked {
            SigSet::from(Nix::SIGCHLD).thread_block()?;
        }
        Ok(self.set_of_blocked().thread_unblock()?)
    }

    fn set_of_blocked(&self) -> SigSet {
        self.blocked.iter().filter_map(|raw| Nix::try_from(*raw).ok()).collect()
    }
}

/// The signals that this process handles.
pub(crate) struct Signals {
    delivery: delivery::Delivery,
    mask_changes: MaskChanges,
}

impl Signals {
    /// Handles the signals that were neither ignored nor blocked when this program started.
    pub(crate) fn handle_inherited() -> io::Result<Self> {
        let (ignored, blocked) = (delivery::ignored(), SigSet::thread_get_mask()?);
        let is_free = |signal: &Nix| !ignored(*signal) && !blocked.contains(*signal);
        let child_unblocked = blocked.contains(Nix::SIGCHLD);
        SigSet::from(Nix::SIGCHLD).thread_unblock()?;
        let handled = HANDLED.into_iter().filter(is_free).collect();
        Self::handle(handled, SigSet::empty(), child_unblocked)
    }

    /// In the keeper: handles the signals that its supervisor handles, and ignores stops by a
    /// terminal.
    pub(crate) fn inherit(supervisor: &MaskChanges) -> io::Result<Self> {
        let stops = Self::block_stops()?;
        Self::handle(supervisor.set_of_blocked(), stops, supervisor.child_unblocked)
    }

    /// Ignores stops by a terminal. Returns those that were not ignored before.
    pub(crate) fn block_stops() -> io::Result<SigSet> {
        let blocked = SigSet::thread_get_mask()?;
        let stops: SigSet = STOPS.into_iter().filter(|stop| !blocked.contains(*stop)).collect();
        stops.thread_block()?;
        Ok(stops)
    }

    fn handle(handled: SigSet, stops: SigSet, child_unblocked: bool) -> io::Result<Self> {
        let delivery = delivery::Delivery::new(&handled)?;
        let blocked = handled.iter().chain(&stops).map(|signal| signal as i32).collect();
        Ok(Self { delivery, mask_changes: MaskChanges { blocked, child_unblocked } })
    }

    pub(crate) async fn next(&mut self) -> io::Result<Received> {
        self.delivery.next().await
    }

    /// Returns the next pending signal, without waiting.
    pub(crate) fn pending(&mut self) -> io::Result<Option<Received>> {
        self.delivery.pending()
    }

    pub(crate) fn mask_changes(&self) -> &MaskChanges {
        &self.mask_changes
    }

    /// Ends this process by `signal`, so that a shell sees the cause. Returns if the signal does
    /// not end it.
    pub(crate) fn end_process(&self, signal: Signal) {
        // There is no way to report an error here.
        let _ = self.mask_changes.undo();
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
}

/// Sends a signal to a process, which may have ended already.
pub(crate) fn send(signal: Signal, pid: Pid) {
    // It may also belong to another user.
    let _ = rustix::process::kill_process(pid, signal);
}

#[cfg(target_os = "linux")]
mod signalfd {
    use std::io;
    use std::os::fd::AsFd as _;
    use std::sync::Arc;

    use nix::errno::Errno;
    use nix::libc::SI_KERNEL;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::signal::{SigSet, Signal as Nix};
    use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
    use rustix::process::Signal;
    use tokio::sync::mpsc;

    use super::Received;

    pub(super) struct Delivery {
        descriptor: Arc<SignalFd>,
        readable: mpsc::Receiver<()>,
    }

    impl Delivery {
        pub(super) fn new(handled: &SigSet) -> io::Result<Self> {
            handled.thread_block()?;
            let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
            let descriptor = Arc::new(SignalFd::with_flags(handled, flags)?);
            let (sender, readable) = mpsc::channel(1);
            let waited_for = descriptor.clone();
            // In a thread, which has them blocked as well: tokio waits for other descriptors only
            // by `unsafe`.
            std::thread::Builder::new().spawn(move || {
                let mut descriptors = [PollFd::new(waited_for.as_fd(), PollFlags::POLLIN)];
                loop {
                    match poll(&mut descriptors, PollTimeout::NONE) {
                        Ok(_) if sender.blocking_send(()).is_err() => return,
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(_) => return,
                    }
                }
            })?;
            Ok(Self { descriptor, readable })
        }

        pub(super) async fn next(&mut self) -> io::Result<Received> {
            loop {
                if let Some(received) = self.pending()? {
                    return Ok(received);
                }
                let readable = self.readable.recv().await;
                readable.ok_or_else(|| io::Error::other("signals cannot be read"))?;
            }
        }

        pub(super) fn pending(&mut self) -> io::Result<Option<Received>> {
            loop {
                match self.descriptor.read_signal() {
                    Ok(Some(info)) => match received(info) {
                        None => {}
                        some => return Ok(some),
                    },
                    Ok(None) => return Ok(None),
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    fn received(info: siginfo) -> Option<Received> {
        let signal = Signal::from_named_raw(info.ssi_signo.cast_signed())?;
        // A terminal that hangs up signals the first process of its session only.
        let is_key = matches!(signal, Signal::INT | Signal::QUIT);
        let is_from_keyboard = is_key && info.ssi_code == SI_KERNEL;
        Some(Received { signal, is_from_keyboard, sender: info.ssi_pid.cast_signed() })
    }

    /// Returns which signals are ignored, from `/proc`.
    pub(super) fn ignored() -> impl Fn(Nix) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        move |signal| mask & (1 << (signal as i32 - 1)) != 0
    }
}

#[cfg(not(target_os = "linux"))]
mod handlers {
    use std::fs::File;
    use std::future::poll_fn;
    use std::io;
    use std::task::{Context, Poll, Waker};

    use nix::sys::signal::{SigSet, Signal as Nix};
    use nix::unistd::getpgrp;
    use rustix::process::Signal;
    use rustix::termios::tcgetpgrp;
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    use super::Received;

    pub(super) struct Delivery(Vec<(Stream, Signal)>);

    impl Delivery {
        pub(super) fn new(handled: &SigSet) -> io::Result<Self> {
            let numbers = handled.iter().map(|signal| signal as i32);
            let named = numbers.filter_map(|raw| Some((raw, Signal::from_named_raw(raw)?)));
            let streams = named.map(|(raw, name)| Ok((signal(SignalKind::from_raw(raw))?, name)));
            streams.collect::<io::Result<_>>().map(Self)
        }

        pub(super) async fn next(&mut self) -> io::Result<Received> {
            Ok(poll_fn(|cx| self.poll(cx)).await)
        }

        pub(super) fn pending(&mut self) -> io::Result<Option<Received>> {
            match self.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(received) => Ok(Some(received)),
                Poll::Pending => Ok(None),
            }
        }

        fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
            let mut is_ready = |stream: &mut Stream| stream.poll_recv(cx).is_ready();
            let ready = self.0.iter_mut().find_map(|(s, name)| is_ready(s).then_some(*name));
            let Some(signal) = ready else { return Poll::Pending };
            let is_key = matches!(signal, Signal::INT | Signal::QUIT);
            let is_from_keyboard = is_key && is_in_foreground();
            Poll::Ready(Received { signal, is_from_keyboard, sender: 0 })
        }
    }

    /// Returns whether this process is in the terminal's foreground group, which receives the
    /// signals of its keys. The sender of a signal is not known here.
    fn is_in_foreground() -> bool {
        let group = File::open("/dev/tty").and_then(|terminal| Ok(tcgetpgrp(terminal)?));
        group.is_ok_and(|group| group.as_raw_nonzero().get() == getpgrp().as_raw())
    }

    pub(super) fn ignored() -> impl Fn(Nix) -> bool {
        |_| false
    }
}
