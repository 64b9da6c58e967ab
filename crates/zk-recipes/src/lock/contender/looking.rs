//! Looks whether the lock is free, before it enters the queue.

use zk_session::Error;
use zk_session::proto::ErrorCode;
use zk_session::session::Reply;

use super::Contender;
use crate::attempt::listing::{Listing, each};
use crate::attempt::phase::{Looking, Phase};
use crate::attempt::queue::Observation;
use crate::attempt::{Full, OfFull, Turn};
use crate::error::LockError;

impl Contender {
    pub(super) fn look(&mut self, full: Full, turn: &mut Turn<'_>) {
        let list = turn.list_queue(&self.config.lock_path);
        self.phase = Phase::Looking(OfFull::new(full, Looking { list, listing: None }));
    }

    pub(super) fn looked(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let reply = match result {
            Ok(reply) => reply,
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.create(turn),
            Err(error) => return self.retry_or_fail(error, turn),
        };
        let reader = self.queue_reader();
        let Phase::Looking(looking) = &mut self.phase else { return };
        let looked = Listing::read(&mut looking.get_mut().listing, &reply, &mut |seen, names| {
            seen.refusal = reader.refuse(seen.refusal.take(), each(names));
            seen.is_taken |= reader.is_taken(each(names));
        });
        match looked {
            Ok(None) => {}
            Ok(Some(Observation { refusal: Some(error), .. })) => self.fail(error, turn),
            Ok(Some(Observation { is_taken: true, .. })) => self.fail(LockError::Busy, turn),
            Ok(Some(_)) => self.create(turn),
            Err(error) => self.fail(error.into(), turn),
        }
    }
}
