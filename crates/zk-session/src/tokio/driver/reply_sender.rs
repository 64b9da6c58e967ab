//! Delivers the reply of one request.

use alloc::vec::Vec;
use core::task::Waker;

use super::trace;
use crate::client::Sender;
use crate::error::Error;
use crate::session::Reply;

/// Sends a reply to the caller that waits for it.
pub(crate) struct ReplySender {
    caller: Sender<Result<Reply, Error>>,
    asked: trace::Asked,
}

impl ReplySender {
    pub(crate) fn new(caller: Sender<Result<Reply, Error>>) -> Self {
        Self { caller, asked: trace::Asked::now() }
    }

    /// Sends the reply, and reports a request that took long. Returns the waker to run once the
    /// session is unlocked.
    pub(super) fn send(
        self,
        reply: Result<Reply, Error>,
        reports: &mut Vec<trace::Report>,
    ) -> Option<Waker> {
        reports.extend(self.asked.answered(&reply));
        self.caller.send(reply)
    }
}
