//! Counting: how many permits are taken, how many there are, and whether ours are among them.

use alloc::string::ToString;
use alloc::vec::Vec;

use uuid::Uuid;
use zk_session::Error;
use zk_session::proto::{
    CreateMode, ErrorCode, GetChildrenResponse, GetDataResponse, Request, path,
};
use zk_session::session::Reply;

use super::requests::SemaphoreStep;
use super::{PermitRequest, SemaphoreMachine};
use crate::attempt::queue::reader::other_lock;
use crate::attempt::requests::create;
use crate::attempt::retry_policy::RetryPolicy;
use crate::attempt::turn::Sight;
use crate::attempt::{Event, Name, Scheme, Turn};
use crate::error::SemaphoreError;

impl SemaphoreMachine {
    pub(super) fn list_permit_nodes(&mut self, turn: &mut Turn<'_>) {
        // Nothing would remove the watch.
        if self.is_releasing {
            return;
        }
        let list = turn.watch(self.permits_path());
        // The old watch is removed after the new one is set. So the server, which knows only one
        // watch of the path, needs no message.
        let old = self.own.taken.take();
        self.unwatch(old, turn);
        self.own.taken.op = Some(list);
    }

    pub(super) fn listed(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let reply = match result {
            Ok(reply) => reply,
            Err(error) => return self.not_listed(error, turn),
        };
        let children = match reply.decode::<GetChildrenResponse<'_>>() {
            Ok(response) => response.children,
            Err(error) => return self.fail(error.into(), turn),
        };
        if let Some(error) = self.permit_reader().refuse(None, children.iter()) {
            return self.fail(error, turn);
        }
        let mut own: Vec<_> = self.permit_nodes.iter().map(|own| &*own.name).collect();
        own.sort_unstable();
        let is_own = |child: &&str| own.binary_search(child).is_ok();
        if children.iter().filter(is_own).count() < own.len() {
            // Another client has deleted one of ours. We are still first, and create another.
            return self.borrow(turn);
        }
        let guid = self.request.config.own_guid();
        self.counted(permits_taken(guid, children.iter()), turn);
    }

    fn not_listed(&mut self, error: Error, turn: &mut Turn<'_>) {
        let list = self.own.taken.take();
        self.unwatch(list, turn);
        let is_missing = error == Error::Server(ErrorCode::NO_NODE);
        match self.step {
            SemaphoreStep::Looking if is_missing => self.counted(0, turn),
            SemaphoreStep::Waiting if is_missing => self.borrow(turn),
            SemaphoreStep::Looking | SemaphoreStep::Waiting => {
                self.retry(error, Self::list_permit_nodes, turn);
            }
            // The steps that create permit nodes list them again afterwards.
            _ => {}
        }
    }

    fn counted(&mut self, taken: usize, turn: &mut Turn<'_>) {
        self.own.taken.seen = Some(taken);
        self.go_on_if_there_is_room(turn);
    }

    // ---- The maximum ---------------------------------------------------------------------------

    pub(super) fn look_at_maximum(&mut self, turn: &mut Turn<'_>) {
        if !self.is_releasing {
            self.own.maximum.op = Some(turn.watch_data(self.maximum_path()));
        }
    }

    pub(super) fn looked(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let maximum = match result {
            Ok(reply) => match reply.decode::<GetDataResponse<'_>>() {
                Ok(response) => turn.see(
                    Sight::Maximum,
                    PermitRequest::read_maximum(response.data.unwrap_or_default()),
                    |maximum| [(*maximum).into()],
                    |[maximum]| u32::try_from(maximum).ok(),
                ),
                Err(error) => return self.fail(error.into(), turn),
            },
            Err(error) => return self.not_looked(error, turn),
        };
        match (maximum, self.request.maximum) {
            (None, _) => self.refuse(SemaphoreError::NoMaximum, turn),
            (Some(maximum), Some(expected)) if !self.own.agreed && maximum != expected => {
                self.refuse(SemaphoreError::OtherMaximum { maximum }, turn);
            }
            (Some(maximum), _) => match self.request.check_count(maximum) {
                Ok(()) => {
                    self.own.agreed = true;
                    self.own.maximum.seen = Some(maximum);
                    match self.step {
                        SemaphoreStep::Asking => self.borrow(turn),
                        _ => self.go_on_if_there_is_room(turn),
                    }
                }
                Err(error) => self.refuse(error, turn),
            },
        }
    }

    fn not_looked(&mut self, error: Error, turn: &mut Turn<'_>) {
        let look = self.own.maximum.take();
        self.unwatch(look, turn);
        match self.step {
            _ if error != Error::Server(ErrorCode::NO_NODE) => {
                self.retry(error, Self::look_at_maximum, turn);
            }
            // No semaphore means no permits taken.
            SemaphoreStep::Looking if self.request.maximum.is_some() => self.enter(turn),
            _ if !self.has_path_alone() => self.list_others(turn),
            _ => self.create_maximum(turn),
        }
    }

    fn create_maximum(&mut self, turn: &mut Turn<'_>) {
        let Some(maximum) = self.request.maximum else {
            return self.refuse(SemaphoreError::NoMaximum, turn);
        };
        // The format of Curator's `SharedCount`.
        let (path, data) = (self.maximum_path(), maximum.to_be_bytes());
        let acl = &self.request.config.parent_acl;
        let node = create(&path, &data, CreateMode::PERSISTENT, acl);
        self.own.create_maximum = Some(turn.submit(&Request::Create(node)));
    }

    pub(super) fn maximum_created(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match result {
            Ok(_) | Err(Error::Server(ErrorCode::NODE_EXISTS)) => self.look_at_maximum(turn),
            Err(error) => self.retry(error, Self::look_at_maximum, turn),
        }
    }

    /// Repeats a request, unless its error is permanent.
    fn retry(&mut self, error: Error, repeat: fn(&mut Self, &mut Turn<'_>), turn: &mut Turn<'_>) {
        match turn.retry(&error) {
            RetryPolicy::Now => repeat(self, turn),
            RetryPolicy::Later => {}
            RetryPolicy::Never => self.fail(error.into(), turn),
        }
    }

    // ---- Other locks at the path ---------------------------------------------------------------

    pub(super) const fn has_path_alone(&self) -> bool {
        !self.request.refuses_other_locks || self.own.others.seen.is_some()
    }

    fn list_others(&mut self, turn: &mut Turn<'_>) {
        if self.own.others.op.is_none() {
            self.own.others.op = Some(turn.list(&self.request.config.lock_path));
        }
    }

    pub(super) fn others_listed(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let refusal = result.and_then(|reply| {
            let GetChildrenResponse { children } = reply.decode()?;
            Ok(children.iter().find_map(other_lock))
        });
        match refusal {
            Ok(None) | Err(Error::Server(ErrorCode::NO_NODE)) => self.own.others.seen = Some(()),
            Ok(Some(error)) => return self.fail(error, turn),
            Err(error) => {
                self.own.others.take();
                return self.retry(error, Self::list_others, turn);
            }
        }
        match self.own.has_no_maximum() {
            true => self.create_maximum(turn),
            false => self.go_on_if_there_is_room(turn),
        }
    }

    // ---- Comparing the two ---------------------------------------------------------------------

    /// Proceeds if both counts are known and leave room. Both watches are set, so both counts were
    /// valid at one moment.
    pub(super) fn go_on_if_there_is_room(&mut self, turn: &mut Turn<'_>) {
        let (Some(taken), Some(maximum)) = (self.own.taken.seen, self.own.maximum.seen) else {
            return;
        };
        let maximum = maximum as usize;
        match self.step {
            SemaphoreStep::Looking if taken.saturating_add(self.permits()) <= maximum => {
                self.enter(turn);
            }
            // While no server answers, our permit nodes may be gone.
            SemaphoreStep::Waiting if taken <= maximum && self.is_suspended() => {}
            // Our own permit nodes are included in `taken`.
            SemaphoreStep::Waiting if taken <= maximum && !self.has_path_alone() => {
                self.list_others(turn);
            }
            SemaphoreStep::Waiting if taken <= maximum => self.granted(turn),
            SemaphoreStep::Looking | SemaphoreStep::Waiting => {
                // Another lock may come meanwhile.
                self.own.others.take();
                match self.request.config.wait_policy.refusal() {
                    Some(error) => self.fail(error, turn),
                    None if core::mem::replace(&mut self.own.has_waited, true) => {}
                    None => {
                        let behind = path::name(&self.permits_path()).to_string();
                        let ahead = taken.saturating_sub(maximum);
                        turn.report(Event::Waiting { behind, ahead });
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns how many permits are taken, up to and including ours. Later ones do not block us. If the
/// sequence numbers do not show the order, all count.
fn permits_taken<'a>(guid: Uuid, children: impl Iterator<Item = &'a str> + Clone) -> usize {
    let all = children.filter_map(|child| Scheme::CURATOR_LEASE.parse(child));
    let own = all.clone().filter(|name| name.guid == Some(guid));
    let last = own.map(|name| name.sequence.0).max();
    let in_order = all.clone().all(|name| name.has_safe_sequence());
    let counts = |name: &Name<'_>| !in_order || last.is_none_or(|last| name.sequence.0 <= last);
    all.filter(counts).count()
}

#[cfg(test)]
mod tests;
