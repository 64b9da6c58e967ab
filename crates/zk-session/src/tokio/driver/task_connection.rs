//! An open connection, its received bytes, and writing requests to it.

use alloc::boxed::Box;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use super::Transport;
use crate::client::ReplySender;
use crate::client::inbox::Inbox;
use crate::dispatch::Token;
use crate::session::Session;
use crate::time::Instant;

pub(super) struct TaskConnection {
    pub(super) transport: Box<dyn Transport>,
    pub(super) inbox: Inbox,
    unflushed: bool,
    /// The error of a failed write, until the driver takes it.
    pub(super) failure: Option<io::Error>,
}

impl TaskConnection {
    pub(super) fn new(transport: impl Transport, session: &Session<Token<ReplySender>>) -> Self {
        let transport = Box::new(transport);
        Self { transport, inbox: Inbox::new(session), unflushed: false, failure: None }
    }

    /// Returns whether there is something to write.
    pub(super) fn has_to_write(&self, session: &Session<Token<ReplySender>>) -> bool {
        self.unflushed || !session.output().is_empty()
    }

    /// Writes the output of the session, as far as the transport accepts it. If that fails, the
    /// driver finds the error later.
    pub(super) fn write(
        &mut self,
        session: &mut Session<Token<ReplySender>>,
        now: Instant,
        cx: &mut Context<'_>,
    ) {
        if self.failure.is_none() {
            self.failure = self.try_write(session, now, cx).err();
        }
    }

    fn try_write(
        &mut self,
        session: &mut Session<Token<ReplySender>>,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        loop {
            let output = session.output();
            if output.is_empty() {
                break;
            }
            match Pin::new(&mut *self.transport).poll_write(cx, output) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(count)) => {
                    session.handle_sent(now, count);
                    self.unflushed = true;
                }
            }
        }
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut *self.transport).poll_flush(cx)
        {
            self.unflushed = false;
            return flushed;
        }
        Ok(())
    }
}
