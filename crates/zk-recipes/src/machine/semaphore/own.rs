//! What a borrower asks for itself: that leases be created, and how many there are.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use zk_session::proto::{
    ErrorCode, EventType, ExistsResponse, GetChildrenResponse, GetDataResponse, MultiResponse,
    MultiResult, Zxid,
};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::super::parents::{Parents, Verdict};
use super::super::remedy::Remedy;
use super::super::{Claim, Contest, Input, OpId, Operation, Output, Scheme};
use super::{Borrower, Loan, RETRY_AFTER, below};
use crate::error::LockError;

/// Where an attempt is, and which answers it waits for.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Is there room at all?
    Looking,
    /// Others are before us in the queue.
    Queueing,
    /// Leases are being created.
    Creating {
        create: OpId,
    },
    /// Their directory is missing.
    MakingParents {
        first: OpId,
        last: OpId,
    },
    /// Whether they were created is unknown. The list tells, but only behind a sync.
    Resolving {
        sync: OpId,
        list: OpId,
        synced: bool,
    },
    /// Leases with our guid were found. Are they ours?
    Adopting {
        stat: OpId,
        names: Vec<String>,
    },
    /// There are too many leases, or it is not known yet how many.
    Waiting,
    /// The permits are ours.
    Held,
    /// What the parts have to clean up is all that matters.
    Leaving,
    Done,
}

impl Step {
    /// Whether leases may exist that we do not know.
    pub(super) const fn is_creating(&self) -> bool {
        matches!(
            self,
            Self::Creating { .. }
                | Self::MakingParents { .. }
                | Self::Resolving { .. }
                | Self::Adopting { .. }
        )
    }
}

#[derive(Clone, Debug)]
pub(super) struct Own {
    last_op: u64,
    parents: Parents,
    /// The newest list of the leases, and the watch on them.
    list: Option<OpId>,
    /// The newest look at the maximum, and the watch on it.
    look: Option<OpId>,
    /// The creation of the maximum.
    create_maximum: Option<OpId>,
    /// The maximum, as it is.
    pub(super) maximum: Option<u32>,
    /// How many permits are taken, with ours.
    pub(super) taken: Option<usize>,
    /// The transaction that created our leases.
    pub(super) token: Zxid,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            last_op: 0,
            parents: Parents::new(),
            list: None,
            look: None,
            create_maximum: None,
            maximum: None,
            taken: None,
            token: Zxid::ZERO,
        }
    }
}

impl Borrower {
    pub(super) fn handle_own(&mut self, input: Input) {
        match input {
            Input::Reply { op, result } => self.handle_own_reply(op, result),
            Input::Watch { op, event_type } => {
                if self.own.list == Some(op) {
                    self.own.list = None;
                    if matches!(self.step, Step::Looking | Step::Waiting) {
                        self.list_leases();
                    }
                } else if self.own.look == Some(op) {
                    self.own.look = None;
                    self.own.maximum =
                        self.own.maximum.filter(|_| event_type != EventType::NODE_DELETED);
                    self.look_at_maximum();
                }
            }
            _ => {}
        }
    }

    fn handle_own_reply(&mut self, op: OpId, result: Result<Reply, Error>) {
        if self.own.list == Some(op) {
            return self.listed(result);
        }
        if self.own.look == Some(op) {
            return self.looked(result);
        }
        if self.own.create_maximum == Some(op) {
            self.own.create_maximum = None;
            return match result {
                Ok(_) | Err(Error::Server(ErrorCode::NODE_EXISTS)) => self.look_at_maximum(),
                Err(error) => self.retry_look(error),
            };
        }
        match &mut self.step {
            Step::Creating { create } if *create == op => self.created(result),
            Step::MakingParents { first, last } if (*first..=*last).contains(&op) => {
                let is_last = op == *last;
                match self.own.parents.answered(is_last, result) {
                    Verdict::Wait => {}
                    Verdict::Made => self.borrow(),
                    Verdict::Again => self.make_parents(),
                    Verdict::Failed(error) => self.creation_failed(error.into()),
                }
            }
            Step::Resolving { sync, synced, .. } if *sync == op => match result {
                Ok(_) => *synced = true,
                Err(error) => self.retry_or_fail(error),
            },
            Step::Resolving { list, synced: true, .. } if *list == op => self.resolved(result),
            // Told before the sync is, so it was refused before it was sent.
            Step::Resolving { list, .. } if *list == op => self.set_timer(),
            Step::Adopting { stat, names } if *stat == op => {
                let names = core::mem::take(names);
                self.adopted(&names, result);
            }
            _ => {}
        }
    }

    // ---- Creation ------------------------------------------------------------------------------

    /// Asks for the leases and, in the same round trip, how many there are and may be.
    pub(super) fn borrow(&mut self) {
        self.give_leases_back();
        if self.letting_go {
            return self.nothing_was_created();
        }
        let Contest { guid, session, data, acl, .. } = self.loan.contest.clone();
        let prefix = Scheme::CURATOR_LEASE.prefix(Claim::Exclusive, guid, session);
        let prefix = below(&self.lease_directory(), &prefix);
        let create = self.submit(Operation::create_nodes(prefix, self.loan.permits, data, acl));
        self.step = Step::Creating { create };
        self.list_leases();
        if self.own.look.is_none() && self.own.create_maximum.is_none() {
            self.look_at_maximum();
        }
    }

    fn created(&mut self, result: Result<Reply, Error>) {
        let created = result.and_then(|reply| {
            let response: MultiResponse<'_> = reply.decode()?;
            if let Some((_, code)) = response.failure() {
                return Err(Error::Server(code));
            }
            let name = |result| match result {
                MultiResult::Create(created) => created.path.rsplit('/').next().map(str::to_string),
                _ => None,
            };
            Ok((response.iter().filter_map(name).collect::<Vec<_>>(), reply.zxid))
        });
        match created {
            Ok((names, zxid)) if names.len() == self.permits() => {
                self.found(&names, zxid);
            }
            // An answer that makes no sense leaves it open what was created.
            Ok(_) => self.resolve(),
            Err(Error::Server(ErrorCode::NO_NODE)) => self.make_parents(),
            Err(error) if error.outcome() == Outcome::NotApplied => match Remedy::of(&error) {
                Remedy::None => self.creation_failed(error.into()),
                Remedy::Now | Remedy::Later => self.retry_or_fail(error),
            },
            Err(error) => self.retry_or_fail(error),
        }
    }

    fn make_parents(&mut self) {
        if self.letting_go {
            return self.nothing_was_created();
        }
        let first = OpId(self.own.last_op + 1);
        let (directory, acl) = (self.lease_directory(), self.loan.contest.parent_acl.clone());
        for operation in self.own.parents.attempt(&directory, &acl) {
            self.submit(operation);
        }
        let last = OpId(self.own.last_op);
        if first > last {
            return self.creation_failed(Error::Server(ErrorCode::NO_NODE).into());
        }
        self.step = Step::MakingParents { first, last };
    }

    fn resolve(&mut self) {
        let directory = self.lease_directory();
        let sync = self.submit(Operation::sync(directory.clone()));
        let list = self.submit(Operation::list(directory));
        self.step = Step::Resolving { sync, list, synced: false };
    }

    fn resolved(&mut self, result: Result<Reply, Error>) {
        let names = result.and_then(|reply| {
            let children = reply.decode::<GetChildrenResponse<'_>>()?.children;
            Ok(self.leases().ours(children.iter()))
        });
        match names {
            Ok(names) if names.is_empty() => self.borrow(),
            Err(Error::Server(ErrorCode::NO_NODE)) => self.borrow(),
            Ok(names) => {
                let path = below(&self.lease_directory(), &names[0]);
                let stat = self.submit(Operation::stat(path));
                self.step = Step::Adopting { stat, names };
            }
            Err(error) => self.retry_or_fail(error),
        }
    }

    fn adopted(&mut self, names: &[String], result: Result<Reply, Error>) {
        let stat = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => response.stat,
            // One is gone; those that are left are found when the list is repeated.
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.resolve(),
            Err(error) => return self.retry_or_fail(error),
        };
        let is_whole = names.len() == self.permits();
        self.found(names, stat.czxid);
        if !is_whole || stat.ephemeral_owner != self.loan.contest.session {
            self.borrow();
        }
    }

    /// These leases exist, and are ours.
    fn found(&mut self, names: &[String], czxid: Zxid) {
        let is_first = self.leases.is_empty();
        self.own_leases(names, czxid);
        if self.letting_go {
            self.give_leases_back();
            return self.nothing_was_created();
        }
        self.step = Step::Waiting;
        // The list that was sent with the creation is on its way, unless it took a detour.
        if !is_first || self.own.list.is_none() {
            self.list_leases();
        }
    }

    fn creation_failed(&mut self, error: LockError) {
        self.step = Step::Leaving;
        self.fail(error);
    }

    /// There is nothing that we do not know of.
    fn nothing_was_created(&mut self) {
        self.step = Step::Leaving;
    }

    // ---- Counting ------------------------------------------------------------------------------

    pub(super) fn list_leases(&mut self) {
        let list = self.submit(Operation::watch(self.lease_directory()));
        // The old one second, so that the server, which knows only one, need not be told.
        let old = self.own.list.replace(list);
        self.unwatch(old);
        self.own.taken = None;
    }

    fn listed(&mut self, result: Result<Reply, Error>) {
        let reply = match result {
            Ok(reply) => reply,
            Err(error) => return self.not_listed(error),
        };
        let children = match reply.decode::<GetChildrenResponse<'_>>() {
            Ok(response) => response.children,
            Err(error) => return self.fail(error.into()),
        };
        let taken = self.leases().taken(children.iter());
        match self.step {
            Step::Looking => self.counted(taken),
            // Somebody has deleted one. We are still first, and can have another.
            Step::Waiting if self.leases().ours(children.iter()).len() < self.permits() => {
                self.borrow();
            }
            Step::Waiting => self.counted(taken),
            _ => {}
        }
    }

    fn not_listed(&mut self, error: Error) {
        let list = self.own.list.take();
        self.unwatch(list);
        match (&self.step, Remedy::of(&error)) {
            (Step::Looking, _) if error == Error::Server(ErrorCode::NO_NODE) => self.counted(0),
            (Step::Waiting, _) if error == Error::Server(ErrorCode::NO_NODE) => self.borrow(),
            (Step::Looking | Step::Waiting, Remedy::Now) => self.list_leases(),
            (Step::Looking | Step::Waiting, Remedy::Later) => self.set_timer(),
            (Step::Looking | Step::Waiting, Remedy::None) => self.fail(error.into()),
            _ => {}
        }
    }

    fn counted(&mut self, taken: usize) {
        self.own.taken = Some(taken);
        self.go_on_if_there_is_room();
    }

    pub(super) fn look_at_maximum(&mut self) {
        if self.letting_go {
            return;
        }
        let path = below(&self.loan.contest.directory, "max");
        let look = self.submit(Operation::watch_data(path));
        let old = self.own.look.replace(look);
        self.unwatch(old);
    }

    fn looked(&mut self, result: Result<Reply, Error>) {
        let maximum = match result {
            Ok(reply) => match reply.decode::<GetDataResponse<'_>>() {
                Ok(response) => Loan::read_maximum(response.data.unwrap_or_default()),
                Err(error) => return self.fail(error.into()),
            },
            Err(Error::Server(ErrorCode::NO_NODE)) => {
                let look = self.own.look.take();
                self.unwatch(look);
                return match self.loan.maximum {
                    _ if matches!(self.step, Step::Looking) => self.enter(),
                    Some(maximum) => {
                        let path = below(&self.loan.contest.directory, "max");
                        let acl = self.loan.contest.parent_acl.clone();
                        let create = Operation::create_maximum(path, maximum, acl);
                        self.own.create_maximum = Some(self.submit(create));
                    }
                    None => self.fail(LockError::NoMaximum),
                };
            }
            Err(error) => {
                let look = self.own.look.take();
                self.unwatch(look);
                return self.retry_look(error);
            }
        };
        let is_first = self.own.maximum.is_none();
        match (maximum, self.loan.maximum) {
            (None, _) => self.fail(LockError::NoMaximum),
            (Some(maximum), Some(expected)) if is_first && maximum != expected => {
                self.fail(LockError::OtherMaximum { maximum });
            }
            (maximum, _) => {
                self.own.maximum = maximum;
                self.go_on_if_there_is_room();
            }
        }
    }

    fn retry_look(&mut self, error: Error) {
        match Remedy::of(&error) {
            Remedy::Now => self.look_at_maximum(),
            Remedy::Later => self.set_timer(),
            Remedy::None => self.fail(error.into()),
        }
    }

    pub(super) fn unwatch_own(&mut self) {
        let watches = [self.own.list.take(), self.own.look.take()];
        watches.into_iter().for_each(|watch| self.unwatch(watch));
    }

    fn unwatch(&mut self, watch: Option<OpId>) {
        self.outputs.extend(watch.map(Output::Unwatch));
    }

    // ---- Again ---------------------------------------------------------------------------------

    fn retry_or_fail(&mut self, error: Error) {
        match Remedy::of(&error) {
            Remedy::Now => self.repeat(),
            Remedy::Later => self.set_timer(),
            Remedy::None => self.creation_failed(error.into()),
        }
    }

    /// Takes the present step again. That is never wrong.
    pub(super) fn repeat(&mut self) {
        match self.step {
            Step::Creating { .. } | Step::Resolving { .. } | Step::Adopting { .. } => {
                self.resolve();
            }
            Step::Looking | Step::Waiting => self.list_leases(),
            Step::Queueing | Step::Held | Step::Leaving | Step::Done => return,
            Step::MakingParents { .. } => {}
        }
        if self.own.look.is_none() && self.own.create_maximum.is_none() {
            self.look_at_maximum();
        }
    }

    fn set_timer(&mut self) {
        self.outputs.push_back(Output::SetTimer(RETRY_AFTER));
    }

    fn submit(&mut self, operation: Operation) -> OpId {
        self.own.last_op += 1;
        let op = OpId(self.own.last_op);
        self.outputs.push_back(Output::Submit { op, operation });
        op
    }
}
