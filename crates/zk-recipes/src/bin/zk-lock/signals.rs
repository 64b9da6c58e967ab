//! Signals that end this program, and what becomes of them.

use std::future::poll_fn;
use std::task::Poll;

use rustix::process::{Pid, Signal, kill_process};
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

/// It may have ended already.
pub(crate) fn send(signal: Signal, child: &Child) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, signal)) {
        complain(&error);
    }
}
