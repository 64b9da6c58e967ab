//! A read that is up to date, in one round trip.

use zk_session::Error;
use zk_session::session::Reply;

use super::turn::Turn;
use super::watches::OpId;

/// A read sent right behind a `sync`.
///
/// A server that lags may not have applied a transaction that another server has confirmed. The
/// `sync` makes it catch up first. The read counts only if the `sync` was answered: after a
/// reconnect in between, it is another server that answers the read.
#[derive(Clone, Debug)]
pub(crate) struct SyncedRead {
    sync: OpId,
    read: OpId,
    is_synced: bool,
}

/// What a reply means for a [`SyncedRead`].
#[derive(Debug)]
pub(crate) enum Synced {
    Pending,
    /// The result of the read, not older than the `sync`.
    Read(Result<Reply, Error>),
    /// There is no result that counts.
    Failed(Error),
}

impl SyncedRead {
    pub(crate) fn submit(
        path: &str,
        read: impl FnOnce(&mut Turn<'_>) -> OpId,
        turn: &mut Turn<'_>,
    ) -> Self {
        Self { sync: turn.sync(path), read: read(turn), is_synced: false }
    }

    /// Returns the id of the read.
    pub(crate) const fn read(&self) -> OpId {
        self.read
    }

    pub(crate) fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>) -> Synced {
        match result {
            // The reply of a `sync` has nothing but its path.
            Ok(_) | Err(Error::ReplyTooLarge { .. }) if op == self.sync => {
                self.is_synced = true;
                Synced::Pending
            }
            Err(error) if op == self.sync => Synced::Failed(error),
            result if op == self.read && self.is_synced => Synced::Read(result),
            // Only a refusal, which happens before a request is sent, can overtake the `sync`.
            result if op == self.read => {
                Synced::Failed(result.err().unwrap_or(Error::ConnectionLost))
            }
            _ => Synced::Pending,
        }
    }
}
