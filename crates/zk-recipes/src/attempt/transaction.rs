//! The reply to a transaction.

use zk_session::Error;
use zk_session::proto::{ErrorCode, MultiResponse, MultiResult};
use zk_session::session::Reply;

/// Returns the index of the operation that was refused, and why. `None`: all `asked` operations were
/// applied.
pub(crate) fn refusal(reply: &Reply, asked: usize) -> Result<Option<(usize, ErrorCode)>, Error> {
    let results = reply.decode::<MultiResponse<'_>>()?;
    let is_done = |result: &MultiResult<'_>| !matches!(result, MultiResult::Error(_));
    match (results.failure(), results.iter().filter(is_done).count()) {
        (None, answered) if answered != asked => Err(Error::Results { asked, answered }),
        (refusal, _) => Ok(refusal),
    }
}
