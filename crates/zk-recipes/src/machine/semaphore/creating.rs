//! Creating permit nodes: so many and no more, whatever happens to the connection.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::{
    ErrorCode, ExistsResponse, GetChildrenResponse, MultiResponse, MultiResult, Zxid, path,
};
use zk_session::session::Reply;

use super::super::operation::own_names;
use super::super::parents::Verdict;
use super::super::retry_policy::RetryPolicy;
use super::super::{AttemptConfig, LockMode, OpId, Operation, Scheme};
use super::SemaphoreMachine;
use super::requests::Step;
use crate::error::LockError;

impl SemaphoreMachine {
    /// Asks for the permit nodes and, in the same round trip, how many there are and may be.
    pub(super) fn borrow(&mut self) {
        self.return_permit_nodes();
        if self.is_releasing {
            return self.nothing_was_created();
        }
        // First, since where there is no number no directory is to be made: servers do not delete
        // one that nothing was ever in.
        self.look_at_maximum_if_unknown();
        if self.own.maximum.seen.is_none() && self.request.asks_first() {
            self.step = Step::Asking;
            return;
        }
        let AttemptConfig { guid, session, data, acl, .. } = self.request.config.clone();
        let prefix = Scheme::CURATOR_LEASE.prefix(LockMode::Exclusive, guid, session);
        let prefix = path::child(&self.permits_path(), &prefix);
        let create = self.submit(Operation::create_nodes(prefix, self.request.permits, data, acl));
        self.step = Step::Creating { create };
        self.list_permit_nodes();
    }

    pub(super) fn created(&mut self, result: Result<Reply, Error>) {
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
            Ok((names, zxid)) if names.len() == self.permits() => self.found(&names, zxid),
            // An answer that makes no sense leaves it open what was created.
            Ok(_) => self.resolve_later(),
            Err(Error::Server(ErrorCode::NO_NODE)) => self.make_parents(),
            Err(error) => self.not_resolved(error),
        }
    }

    fn make_parents(&mut self) {
        if self.is_releasing {
            return self.nothing_was_created();
        }
        let first = OpId(self.own.last_op + 1);
        let (lock_path, acl) = (self.permits_path(), self.request.config.parent_acl.clone());
        for operation in self.own.parents.attempt(&lock_path, &acl) {
            self.submit(operation);
        }
        let last = OpId(self.own.last_op);
        if first > last {
            return self.creation_failed(Error::Server(ErrorCode::NO_NODE).into());
        }
        self.step = Step::MakingParents { first, last };
    }

    pub(super) fn made_parent(&mut self, is_last: bool, result: Result<Reply, Error>) {
        match self.own.parents.answered(is_last, result) {
            Verdict::Wait => {}
            Verdict::Made => self.borrow(),
            Verdict::Again => self.make_parents(),
            Verdict::Failed(error) => self.creation_failed(error.into()),
        }
    }

    // ---- Were they created? --------------------------------------------------------------------

    pub(super) fn resolve(&mut self) {
        // The list that was sent with the creation tells nothing about what is found later.
        let list = self.own.taken.take();
        self.unwatch(list);
        let lock_path = self.permits_path();
        let sync = self.submit(Operation::sync(lock_path.clone()));
        let list = self.submit(Operation::list(lock_path));
        self.step = Step::Resolving { sync, list, synced: false, unread: None };
    }

    pub(super) fn resolve_later(&mut self) {
        self.step = Step::Unresolved;
        self.set_timer();
    }

    pub(super) fn not_resolved(&mut self, error: Error) {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.resolve(),
            RetryPolicy::Later => self.resolve_later(),
            RetryPolicy::Never => self.creation_failed(error.into()),
        }
    }

    pub(super) fn resolved(&mut self, result: Result<Reply, Error>) {
        if let Step::Resolving { unread: unread @ Some(_), .. } = &mut self.step
            && let Some(unread) = unread.take()
        {
            return self.found_own(unread, result);
        }
        let names = result.and_then(|reply| {
            let children = reply.decode::<GetChildrenResponse<'_>>()?.children;
            Ok(self.permit_nodes().ours(children.iter()))
        });
        // Those of an earlier try are on their way out.
        let is_new =
            |name: &String| !self.returned.iter().any(|permit_node| permit_node.name == *name);
        match names.map(|names| names.into_iter().filter(is_new).collect::<Vec<_>>()) {
            Ok(names) => match names.first() {
                Some(first) => {
                    let path = path::child(&self.permits_path(), first);
                    let stat = self.submit(Operation::stat(path));
                    self.step = Step::Adopting { stat, names };
                }
                None => self.borrow(),
            },
            Err(Error::Server(ErrorCode::NO_NODE)) => self.borrow(),
            Err(error @ Error::ReplyTooLarge { .. }) => {
                let AttemptConfig { guid, session, .. } = self.request.config;
                let prefix = Scheme::CURATOR_LEASE.prefix(LockMode::Exclusive, guid, session);
                let prefix = path::child(&self.permits_path(), &prefix);
                let own = self.submit(Operation::list_own(prefix));
                if let Step::Resolving { list, unread, .. } = &mut self.step {
                    (*list, *unread) = (own, Some(error));
                }
            }
            Err(error) => self.not_resolved(error),
        }
    }

    /// The list of all is too long, so nobody can count. Ours are given back.
    fn found_own(&mut self, unread: Error, result: Result<Reply, Error>) {
        let names = result.and_then(|reply| {
            let names = own_names(&self.permits_path(), &reply)?;
            Ok(self.permit_nodes().ours(names.into_iter()))
        });
        match names {
            Ok(names) => {
                let is_new = |name: &String| !self.returned.iter().any(|it| it.name == *name);
                let names: Vec<_> = names.into_iter().filter(is_new).collect();
                self.adopt_permit_nodes(&names, Zxid::ZERO);
                self.creation_failed(unread.into());
            }
            Err(error) if RetryPolicy::of(&error) == RetryPolicy::Never => {
                self.creation_failed(unread.into());
            }
            Err(error) => self.not_resolved(error),
        }
    }

    pub(super) fn adopted(&mut self, names: &[String], result: Result<Reply, Error>) {
        let stat = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => response.stat,
            // One is gone; those that are left are found when the list is repeated.
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.resolve(),
            Err(error) => {
                if RetryPolicy::of(&error) == RetryPolicy::Never {
                    self.adopt_permit_nodes(names, Zxid::ZERO);
                }
                return self.not_resolved(error);
            }
        };
        if names.len() == self.permits() && stat.ephemeral_owner == self.request.config.session {
            self.found(names, stat.czxid);
        } else {
            self.adopt_permit_nodes(names, stat.czxid);
            self.borrow();
        }
    }

    /// These permit nodes exist, and are ours.
    fn found(&mut self, names: &[String], czxid: Zxid) {
        self.adopt_permit_nodes(names, czxid);
        if self.is_releasing {
            self.return_permit_nodes();
            return self.nothing_was_created();
        }
        self.step = Step::Waiting;
        // The list that was sent with the creation is on its way, unless it took a detour.
        self.ask_for_what_is_missing();
    }

    fn creation_failed(&mut self, error: LockError) {
        self.step = Step::Leaving;
        self.fail(error);
    }

    /// There is nothing that we do not know of.
    fn nothing_was_created(&mut self) {
        self.step = Step::Leaving;
    }
}
