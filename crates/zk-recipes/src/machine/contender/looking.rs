//! Looks whether the lock is free, before it enters the queue.

use zk_session::Error;
use zk_session::proto::{ErrorCode, GetChildrenResponse};
use zk_session::session::Reply;

use super::super::phase::Phase;
use super::Contender;
use crate::error::LockError;

impl Contender {
    pub(super) fn look(&mut self) {
        let list = self.list();
        self.phase = Phase::Looking { list };
    }

    pub(super) fn looked(&mut self, result: Result<Reply, Error>) {
        let reply = match result {
            Ok(reply) => reply,
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.create(),
            Err(error) => return self.retry_or_fail(error),
        };
        match reply.decode::<GetChildrenResponse<'_>>() {
            Ok(response) => match self.queue_reader().refuse(response.children.iter()) {
                Err(error) => self.fail(error),
                Ok(()) if self.queue_reader().is_taken(response.children.iter()) => {
                    self.fail(LockError::Busy);
                }
                Ok(()) => self.create(),
            },
            Err(error) => self.fail(error.into()),
        }
    }
}
