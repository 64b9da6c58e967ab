//! Getting a node into the queue: exactly one, whatever happens to the connection.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use zk_session::proto::{Create2Response, ErrorCode, ExistsResponse, GetChildrenResponse};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::super::operation::own_names;
use super::super::parents::Verdict;
use super::super::phase::{Node, Phase};
use super::super::queue::QueueReader;
use super::super::retry_policy::RetryPolicy;
use super::super::{AttemptConfig, Event, LockMode, Name, OpId, Operation, UnknownNodePolicy};
use super::Contender;
#[cfg(test)]
use super::Mistake;
use crate::error::LockError;

impl Contender {
    // ---- Is it free? ---------------------------------------------------------------------------

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

    // ---- Creation ------------------------------------------------------------------------------

    pub(super) fn create(&mut self) {
        if self.is_releasing {
            return self.leave();
        }
        let create = self.submit_creation(self.config.mode);
        let expects_nobody = self.config.hint.is_some_and(|it| it.expects_nobody());
        let list = (!expects_nobody).then(|| self.list());
        self.phase = Phase::Creating { create, list };
    }

    pub(super) fn submit_creation(&mut self, mode: LockMode) -> OpId {
        let config = &self.config;
        let prefix = config.scheme.prefix(mode, config.guid, config.session);
        let (data, acl) = (config.data.clone(), config.acl.clone());
        self.submit(Operation::create_node(self.path_of(&prefix), data, acl))
    }

    pub(super) fn created(&mut self, list: Option<OpId>, result: Result<Reply, Error>) {
        match node_created(result) {
            Ok(node) => {
                self.followed = self.followed_by(&node);
                self.enqueued(node, list);
            }
            Err(Error::Server(ErrorCode::NO_NODE)) => self.make_parents(),
            // Nothing is left behind, and whoever limits the time wants to know when it is over.
            Err(error @ (Error::NoConnection | Error::DeadlinePassed { .. }))
                if error.outcome() == Outcome::NotApplied =>
            {
                self.fail(error.into());
            }
            Err(error) => self.retry_or_fail(error),
        }
    }

    fn enqueued(&mut self, node: Node, list: Option<OpId>) {
        if !self.concluded {
            self.tell(Event::Enqueued { node: node.name().to_string(), token: node.czxid });
        }
        self.node = Some(node);
        match list {
            _ if self.is_releasing => self.leave(),
            Some(list) => self.phase = Phase::Deciding { list },
            None if self.followed > 0 => self.acquired(),
            None => self.decide(),
        }
    }

    /// How many contenders in a row have found nobody, if this is our node.
    fn followed_by(&self, node: &Node) -> u32 {
        let before = self.config.hint.filter(|_| self.follows_precedent(node));
        before.map_or(0, |before| before.followed.saturating_add(1))
    }

    fn follows_precedent(&self, node: &Node) -> bool {
        let AttemptConfig { scheme, unknown_nodes, hint, .. } = &self.config;
        let name = scheme.parse(node.name()).filter(Name::tells_order);
        let (Some(before), Some(Name { mode, sequence, .. })) = (hint, name) else {
            return false;
        };
        #[cfg(test)]
        match self.mistake {
            Some(Mistake::PrecedentForAnyNumber) => return true,
            Some(Mistake::PrecedentForEver) => return sequence.0 == before.number.0 + 1,
            Some(Mistake::ShortcutAmongReaders) | None => {}
        }
        // A stranger's node that counts may stand anywhere, whenever it has come.
        before.unknown_nodes == *unknown_nodes
            && *unknown_nodes != UnknownNodePolicy::Count
            && before.is_followed_by(mode, sequence, node.czxid)
    }

    // ---- Directories ---------------------------------------------------------------------------

    fn make_parents(&mut self) {
        if self.is_releasing {
            return self.leave();
        }
        // Numbers begin anew.
        self.config.hint = None;
        let first = OpId(self.last_op.0 + 1);
        let (lock_path, acl) = (&self.config.lock_path, &self.config.parent_acl);
        for operation in self.parents.attempt(lock_path, acl) {
            self.submit(operation);
        }
        if first > self.last_op {
            return self.fail(Error::Server(ErrorCode::NO_NODE).into());
        }
        self.phase = Phase::MakingParents { first, last: self.last_op };
    }

    pub(super) fn made_parent(&mut self, is_last: bool, result: Result<Reply, Error>) {
        match self.parents.answered(is_last, result) {
            Verdict::Wait => {}
            Verdict::Made => self.create(),
            Verdict::Again => self.make_parents(),
            Verdict::Failed(error) => self.fail(error.into()),
        }
    }

    // ---- Was it created? -----------------------------------------------------------------------

    pub(super) fn resolve(&mut self) {
        let sync = self.sync();
        let list = self.list();
        self.phase = Phase::Resolving { sync, list, synced: false, unread: None };
    }

    pub(super) fn resolved(&mut self, result: Result<Reply, Error>) {
        if let Phase::Resolving { unread: unread @ Some(_), .. } = &mut self.phase
            && let Some(unread) = unread.take()
        {
            return self.found_own(unread, result);
        }
        let reply = match result {
            Ok(reply) => reply,
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.create(),
            Err(error @ Error::ReplyTooLarge { .. }) => {
                let own = self.list_own(self.config.mode);
                if let Phase::Resolving { list, unread, .. } = &mut self.phase {
                    (*list, *unread) = (own, Some(error));
                }
                return;
            }
            Err(error) => return self.retry_or_fail(error),
        };
        let children = match reply.decode::<GetChildrenResponse<'_>>() {
            Ok(response) => response.children,
            Err(error) => return self.fail(error.into()),
        };
        let found = self.queue_reader().ours(children.iter());
        let mut found = found.into_iter().map(|name| self.path_of(name)).collect::<VecDeque<_>>();
        // The server has created none, or one; more if somebody plays tricks. The lowest counts.
        match found.pop_front() {
            Some(path) => {
                let stat = self.submit(Operation::stat(path.clone()));
                self.phase = Phase::Adopting { stat, path };
                found.into_iter().for_each(|stray| self.delete(stray));
            }
            None => self.create(),
        }
    }

    /// The list of all is too long, so the place is given up. That takes to know its node.
    fn found_own(&mut self, unread: Error, result: Result<Reply, Error>) {
        let found = result.and_then(|reply| self.own_paths(self.queue_reader(), &reply));
        match found {
            Ok(paths) => {
                paths.into_iter().for_each(|path| self.delete(path));
                self.fail(unread.into());
            }
            Err(error) if RetryPolicy::of(&error) == RetryPolicy::Never => self.fail(unread.into()),
            Err(error) => self.retry_or_fail(error),
        }
    }

    /// Lists what an attempt at a creation may have left, whoever else is there.
    pub(super) fn list_own(&mut self, mode: LockMode) -> OpId {
        let config = &self.config;
        let prefix = config.scheme.prefix(mode, config.guid, config.session);
        self.submit(Operation::list_own(self.path_of(&prefix)))
    }

    /// Which nodes that answer are ours.
    pub(super) fn own_paths(
        &self,
        queue_reader: QueueReader,
        reply: &Reply,
    ) -> Result<Vec<String>, Error> {
        let names = own_names(&self.config.lock_path, reply)?;
        Ok(queue_reader
            .ours(names.into_iter())
            .into_iter()
            .map(|name| self.path_of(name))
            .collect())
    }

    pub(super) fn adopted(&mut self, path: String, result: Result<Reply, Error>) {
        let stat = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => response.stat,
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.create(),
            Err(error) => {
                if RetryPolicy::of(&error) == RetryPolicy::Never {
                    self.delete(path);
                }
                return self.retry_or_fail(error);
            }
        };
        if stat.ephemeral_owner == self.config.session {
            self.enqueued(Node::new(path, stat.czxid), None);
        } else {
            // Of another session, which will take it along when it ends. It is not the lock.
            self.delete(path);
            self.create();
        }
    }
}

/// The node that was created. An answer that cannot be read leaves it open what was.
pub(super) fn node_created(result: Result<Reply, Error>) -> Result<Node, Error> {
    let reply = result?;
    let Create2Response { path, stat } = reply.decode()?;
    Ok(Node::new(path, stat.czxid))
}
