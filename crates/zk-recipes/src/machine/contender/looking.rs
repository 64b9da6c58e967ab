//! Looks whether the lock is free, before it enters the queue.

use zk_session::Error;
use zk_session::proto::ErrorCode;
use zk_session::session::Reply;

use super::super::listing::{Listing, each};
use super::super::phase::Phase;
use super::super::queue::Observation;
use super::Contender;
use crate::error::LockError;

impl Contender {
    pub(super) fn look(&mut self) {
        let list = self.list();
        self.phase = Phase::Looking { list, listing: None };
    }

    pub(super) fn looked(&mut self, result: Result<Reply, Error>) {
        let reply = match result {
            Ok(reply) => reply,
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.create(),
            Err(error) => return self.retry_or_fail(error),
        };
        let reader = self.queue_reader();
        let Phase::Looking { listing, .. } = &mut self.phase else { return };
        let looked = Listing::read(listing, &reply, &mut |seen, names| {
            seen.refusal = reader.refuse(seen.refusal.take(), each(names));
            seen.is_taken |= reader.is_taken(each(names));
        });
        match looked {
            Ok(None) => {}
            Ok(Some(Observation { refusal: Some(error), .. })) => self.fail(error),
            Ok(Some(Observation { is_taken: true, .. })) => self.fail(LockError::Busy),
            Ok(Some(_)) => self.create(),
            Err(error) => self.fail(error.into()),
        }
    }
}
