//! Signals that end this program, and what becomes of them.

use std::fs::File;
use std::future::poll_fn;
use std::task::Poll;

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::process::Child;
use tokio::signal::unix::{Signal as Unix, SignalKind, signal};

use crate::complain;

/// What ends this program is for the command.
pub(crate) struct Signals([(Unix, Signal); 4]);

impl Signals {
    /// From now on they are ours to pass on.
    pub(crate) fn take() -> std::io::Result<Self> {
        Ok(Self([
            (signal(SignalKind::interrupt())?, Signal::INT),
            (signal(SignalKind::terminate())?, Signal::TERM),
            (signal(SignalKind::hangup())?, Signal::HUP),
            (signal(SignalKind::quit())?, Signal::QUIT),
        ]))
    }

    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            let mut ready = self
                .0
                .iter_mut()
                .filter_map(|(stream, signal)| stream.poll_recv(cx).is_ready().then_some(*signal));
            ready.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Sends the command what was sent to us, unless it has it already.
pub(crate) fn pass_on(signal: Signal, child: &Child) {
    let is_of_keyboard = matches!(signal, Signal::INT | Signal::QUIT) && is_in_foreground();
    if !is_of_keyboard {
        send(signal, child);
    }
}

/// Whether a terminal sends us what its keys mean. It sends that to the whole group of processes,
/// and the command is in ours.
fn is_in_foreground() -> bool {
    let group = File::open("/dev/tty").and_then(|terminal| Ok(tcgetpgrp(terminal)?));
    group.is_ok_and(|group| group == getpgrp())
}

/// It may have ended already.
pub(crate) fn send(signal: Signal, child: &Child) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, signal)) {
        complain(&error);
    }
}
