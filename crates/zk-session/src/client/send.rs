//! Sending a request.

use alloc::sync::Arc;

use zk_proto::Request;

use super::driver::Driver;
use super::{Receiver, Router, slot_about};
use crate::dispatch::Token;
use crate::error::{Error, Outcome};
use crate::session::{End, Reply, RequestId};
use crate::time::Instant;

/// The error after the driver of the session has ended, or after the answer was returned.
pub(crate) const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

/// A request that was sent.
pub(super) struct Submitted {
    pub(super) id: RequestId,
    pub(super) reply: Receiver<Result<Reply, Error>>,
    /// Whether this was found not to be a forked process.
    pub(super) is_in_process: bool,
}

/// Sends a request. `keep` is called with its id, under the session's lock, and returns it with the
/// receiver of its watch.
///
/// Compiled once for each driver, and not once for each type of answer.
#[inline(never)]
pub(super) fn send<D: Driver>(
    driver: &Arc<D>,
    request: &Request<'_>,
    end: Option<Instant>,
    keep: &mut dyn FnMut(&mut Router, RequestId) -> RequestId,
) -> Result<Submitted, Error> {
    let (sender, reply) = slot_about(request.path().unwrap_or_default());
    let (mut token, mut id) = (Some(Token::Caller(sender)), Err(GONE));
    let is_in_process = driver.submit(&mut |router| {
        let submitted = router.submit(request, token.take().ok_or(GONE)?, end)?;
        id = Ok(keep(router, submitted));
        Ok(())
    })?;
    let id = id?;
    Ok(Submitted { id, reply, is_in_process })
}
