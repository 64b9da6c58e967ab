//! An open connection: reads frames from it, and writes requests to it.

use alloc::boxed::Box;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use super::Transport;
use crate::client::{Clock, ReplySender};
use crate::dispatch::Token;
use crate::inbox::Inbox;
use crate::session::Session;
use crate::time::Instant;

pub(super) struct TaskConnection {
    transport: Box<dyn Transport>,
    inbox: Inbox,
    unflushed: bool,
    /// The error of a failed write, until the driver takes it.
    failure: Option<io::Error>,
}

impl TaskConnection {
    pub(super) fn new(transport: impl Transport, max_reply: usize) -> Self {
        let transport = Box::new(transport);
        Self { transport, inbox: Inbox::new(max_reply), unflushed: false, failure: None }
    }

    /// Reads once, and passes the frames to the session. Returns the time behind the read.
    ///
    /// # Errors
    ///
    /// At the end of the stream, with the error of the transport if it has one.
    pub(super) fn read(
        &mut self,
        session: &mut Session<Token<ReplySender>>,
        clock: &Clock,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Instant, Option<io::Error>>> {
        let transport = Pin::new(&mut *self.transport);
        match tokio_util::io::poll_read_buf(transport, cx, self.inbox.buffer()) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(None)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Some(error))),
            Poll::Ready(Ok(_)) => {}
        }
        let now = clock.now();
        self.inbox.hand_on(session, now);
        Poll::Ready(Ok(now))
    }

    /// Returns whether there is something to write.
    pub(super) fn has_to_write(&self, session: &Session<Token<ReplySender>>) -> bool {
        self.unflushed || !session.output().is_empty()
    }

    /// Writes the output of the session, as far as the transport accepts it. If that fails, the
    /// driver [finds the error](Self::take_failure) later.
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

    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}
