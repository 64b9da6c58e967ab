//! Downgrade from writer to reader, and upgrade from reader to writer.
//!
//! *Downgrade*: one transaction replaces the writer's node by a reader's node with the same
//! sequence number. So no contender behind it can come in between: waiting readers proceed, and
//! writers wait for the new node. The fencing token stays. The czxid of the new node would be
//! greater than those of waiting writers, and a resource that has seen it would refuse them.
//!
//! *Upgrade*: a writer's node is created at the end of the queue, beside the reader's. If no other
//! contender is before it, the lock is held exclusively, since later ones wait behind the writer's
//! node. The reader's node is deleted. Otherwise the writer's node is deleted. So two readers that
//! upgrade at once both fail, instead of waiting for each other for ever.

use alloc::boxed::Box;
use alloc::string::String;

use zk_session::proto::{
    CreateMode, DeleteRequest, ErrorCode, ExistsResponse, Multi, MultiOp, Request, SequenceNumber,
};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::Contender;
use crate::attempt::creation::{Creation, Owner, Progress, created_node, submit_create};
use crate::attempt::listing::{Listing, each};
use crate::attempt::phase::{Node, Phase};
use crate::attempt::queue::{LAST_SAFE_SEQUENCE, QueuePosition, QueueReader};
use crate::attempt::requests::create;
use crate::attempt::retry_policy::{RETRY_AFTER, RetryPolicy};
use crate::attempt::synced_read::{Synced, SyncedRead};
use crate::attempt::transaction::refusal;
use crate::attempt::{AttemptConfig, Event, LockMode, OpId, Turn};
use crate::error::{LockError, Loss, ModeError};

/// The progress of an upgrade or downgrade. It is independent of the phase: meanwhile the lock is
/// held, or being released.
#[derive(Clone, Debug)]
pub(super) enum Conversion {
    /// Replaces the writer's node by a reader's node with the same sequence number. `None`: the
    /// server failed to answer, and the outcome is searched for later.
    Downgrading { replace: Option<OpId> },
    /// Reads the stat of the reader's node because the outcome of the replacement is unknown.
    FindingReader(SyncedRead),
    /// Creates a writer's node beside the reader's, and lists the queue.
    Upgrading { create: OpId, list: OpId, created: Option<Node>, listing: Option<Box<Listing>> },
    /// Searches for the writer's node of a failed upgrade, to delete it.
    FindingWriter { search: Creation, error: Error },
}

/// The highest sequence number of a writer that may downgrade.
///
/// The reader's node is younger than its number suggests. Close to the end of the range, other
/// contenders may soon go by transactions and would put it elsewhere.
const LAST_SEQUENCE_TO_DOWNGRADE: i32 = LAST_SAFE_SEQUENCE - (1 << 20);

impl Contender {
    pub(super) fn begin_conversion(&mut self, mode: LockMode, turn: &mut Turn<'_>) {
        match (&self.conversion, &self.node) {
            (None, Some(node)) if self.is_held() => {
                if mode == self.config.mode {
                    let node = node.clone();
                    self.report_converted(&node, turn);
                } else if !self.config.scheme.has_readers() {
                    turn.report(Event::NO_READERS);
                } else {
                    // Our other node may take the next sequence number, so the hint would be wrong.
                    self.hint.set_valid(false);
                    match mode {
                        LockMode::Exclusive => self.upgrade(turn),
                        LockMode::Shared => self.downgrade(turn),
                    }
                }
            }
            // The caller has received the end of the lock, or will.
            _ => {}
        }
    }

    pub(super) fn handle_conversion(
        &mut self,
        op: OpId,
        result: Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) {
        match self.conversion.as_deref_mut() {
            Some(Conversion::Downgrading { replace }) if *replace == Some(op) => {
                self.replaced(result, turn);
            }
            Some(Conversion::FindingReader(stat)) => match stat.handle_reply(op, result) {
                Synced::Pending => {}
                Synced::Read(result) => self.found_reader(result, turn),
                Synced::Failed(error) => self.retry_finding_reader(error, turn),
            },
            Some(Conversion::FindingWriter { .. }) => self.found_writer(op, result, turn),
            Some(Conversion::Upgrading { create, created, .. }) if *create == op => {
                match created_node(result) {
                    Ok(node) => *created = Some(node),
                    Err(error) if error.outcome() == Outcome::NotApplied => {
                        self.not_converted(LockError::from(error), turn);
                    }
                    Err(error) => self.find_writer(error, turn),
                }
            }
            Some(Conversion::Upgrading { list, created, .. }) if *list == op => {
                match (created, result) {
                    (Some(_), result) => self.upgraded(result, turn),
                    // Answered before the creation, so it was refused before it was sent.
                    (None, Err(error)) => self.find_writer(error, turn),
                    (None, Ok(_)) => {}
                }
            }
            _ => {}
        }
    }

    /// Repeats the search for an unknown outcome. Nothing else is repeated.
    pub(super) fn repeat_conversion(&mut self, turn: &mut Turn<'_>) {
        match self.conversion.as_deref_mut() {
            Some(Conversion::Downgrading { replace: None }) => self.find_reader(turn),
            Some(Conversion::FindingWriter { search, .. }) => {
                search.handle_timer(&self.config, turn);
            }
            _ => {}
        }
    }

    /// Returns whether it is unknown which of the two nodes exists.
    pub(super) fn is_replacing_node(&self) -> bool {
        matches!(
            self.conversion.as_deref(),
            Some(Conversion::Downgrading { .. } | Conversion::FindingReader(_))
        )
    }

    // ---- Downgrade -----------------------------------------------------------------------------

    fn downgrade(&mut self, turn: &mut Turn<'_>) {
        let (Some(writer), Some(reader)) = (self.node.clone(), self.reader_path()) else {
            return self.not_converted(LockError::SequenceExhausted, turn);
        };
        let AttemptConfig { data, acl, .. } = &self.config;
        let new = create(&reader, data, CreateMode::EPHEMERAL, acl);
        let old = DeleteRequest { path: writer.path(), version: -1 };
        let both = [MultiOp::Create(new), MultiOp::Delete(old)];
        let replace = Some(turn.submit(&Request::Multi(Multi::new(&both))));
        self.set_conversion(Conversion::Downgrading { replace });
    }

    /// Returns the path of the reader's node that replaces our writer's node.
    fn reader_path(&self) -> Option<String> {
        let config = &self.config;
        let node = self.node.as_ref()?;
        let number = config.scheme.parse(&node.name)?.sequence;
        let prefix = config.scheme.prefix(LockMode::Shared, config.own_guid(), config.session);
        let is_safe = (0..=LAST_SEQUENCE_TO_DOWNGRADE).contains(&number.0);
        is_safe.then(|| self.path_of(&numbered(prefix, number)))
    }

    fn replaced(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let answer = result.and_then(|reply| match refusal(&reply, 2)? {
            Some((_, code)) => Err(Error::Server(code)),
            None => Ok(()),
        });
        match answer {
            Ok(()) => self.downgraded(turn),
            Err(error) if error.outcome() == Outcome::NotApplied => {
                if self.is_gone() || matches!(error, Error::Server(ErrorCode::NO_NODE)) {
                    self.lose_node(turn);
                } else {
                    self.not_converted(LockError::from(error), turn);
                }
            }
            Err(error) if RetryPolicy::of(&error) == RetryPolicy::Now => self.find_reader(turn),
            Err(_) => self.find_reader_later(turn),
        }
    }

    fn downgraded(&mut self, turn: &mut Turn<'_>) {
        if let (Some(path), Some(writer)) = (self.reader_path(), &self.node) {
            let czxid = writer.czxid;
            // Mostly the watch has fired by now, which spares the server a request.
            self.unwatch_self(turn);
            self.converted(Node::new(path, czxid), LockMode::Shared, None, turn);
        }
    }

    fn find_reader(&mut self, turn: &mut Turn<'_>) {
        if let Some(reader) = self.reader_path() {
            let path = &self.config.lock_path;
            let stat = SyncedRead::submit(path, |turn| turn.stat(&reader), turn);
            self.set_conversion(Conversion::FindingReader(stat));
        }
    }

    fn find_reader_later(&mut self, turn: &mut Turn<'_>) {
        self.set_conversion(Conversion::Downgrading { replace: None });
        turn.set_timer(RETRY_AFTER);
    }

    fn retry_finding_reader(&mut self, error: Error, turn: &mut Turn<'_>) {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.find_reader(turn),
            RetryPolicy::Later => self.find_reader_later(turn),
            RetryPolicy::Never => self.lose(Loss::NodeDeleted, turn),
        }
    }

    fn found_reader(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let owner = result
            .and_then(|reply| reply.decode::<ExistsResponse>())
            .map(|response| response.stat.ephemeral_owner);
        match owner {
            Ok(owner) if owner == self.config.session => self.downgraded(turn),
            // Reading it is forbidden, so it exists.
            Err(Error::Server(ErrorCode::NO_AUTH)) => self.downgraded(turn),
            // Neither of our two nodes exists.
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) if self.is_gone() => {
                self.lose_node(turn);
            }
            // If it belongs to another session, the repeated transaction will be refused.
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) => self.downgrade(turn),
            Err(error) => self.retry_finding_reader(error, turn),
        }
    }

    /// Deletes the reader's node of a pending downgrade, whatever the outcome of its transaction.
    /// The caller deletes the writer's node. So neither remains.
    pub(super) fn delete_replaced(&mut self, turn: &mut Turn<'_>) {
        if self.is_replacing_node() {
            let reader = self.reader_path();
            self.conversion = None;
            reader.into_iter().for_each(|path| self.delete(path, turn));
        }
    }

    // ---- Upgrade -------------------------------------------------------------------------------

    fn upgrade(&mut self, turn: &mut Turn<'_>) {
        let config = &self.config;
        let create = submit_create(LockMode::Exclusive, None, config, turn);
        let list = turn.list_in_pieces(&self.config.lock_path);
        self.set_conversion(Conversion::Upgrading { create, list, created: None, listing: None });
    }

    fn upgraded(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let queue_reader = QueueReader { mode: LockMode::Exclusive, ..self.queue_reader() };
        let own = self.node.as_ref().map_or("", |node| &node.name);
        let Some(Conversion::Upgrading { created, listing, .. }) = self.conversion.as_deref_mut()
        else {
            return;
        };
        let Some(writer) = created else { return };
        let seen = result.and_then(|reply| {
            Listing::read(listing, &reply, &mut |seen, names| {
                seen.has_reader |= each(names).any(|name| name == own);
                queue_reader.observe(&writer.name, each(names), seen);
            })
        });
        let Some(seen) = seen.transpose() else { return };
        let writer = writer.clone();
        let seen = seen.map(|mut seen| (seen.refusal.take(), seen.has_reader, seen.position()));
        let error = match seen {
            // Another contender may have held the lock in between.
            Ok((_, false, _)) if self.is_held() => {
                self.delete(writer.path().clone(), turn);
                return self.lose_node(turn);
            }
            Ok((Some(error), ..)) => error.into(),
            Ok((None, _, QueuePosition::First)) if self.is_held() => {
                self.unwatch_self(turn);
                let reader = self.node.take();
                return self.converted(writer, LockMode::Exclusive, reader, turn);
            }
            Ok((None, _, QueuePosition::First | QueuePosition::Behind { .. })) => {
                ModeError::NotAlone
            }
            Ok((None, _, QueuePosition::Absent)) => LockError::NodeVanished.into(),
            Ok((None, _, QueuePosition::Exhausted)) => LockError::SequenceExhausted.into(),
            Err(error) => LockError::from(error).into(),
        };
        self.delete(writer.path().clone(), turn);
        self.not_converted(error, turn);
    }

    fn find_writer(&mut self, error: Error, turn: &mut Turn<'_>) {
        let config = &self.config;
        let search = Creation::search(LockMode::Exclusive, config, turn);
        self.set_conversion(Conversion::FindingWriter { search, error });
    }

    /// Deletes the writer's node, since an unknown one would block all later contenders.
    fn found_writer(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let Some(Conversion::FindingWriter { search, error }) = self.conversion.as_deref_mut()
        else {
            return;
        };
        let config = &self.config;
        let owner = Owner { config, is_leaving: &|_| false };
        let progress = search.handle_reply(op, result, owner, turn);
        let (strays, error) = (search.take_strays(), error.clone());
        strays.into_iter().for_each(|stray| self.delete(stray, turn));
        match progress {
            Progress::Pending => {}
            Progress::Failed(error) => self.not_converted(error, turn),
            _ => self.not_converted(LockError::from(error), turn),
        }
    }

    // ---- The result ----------------------------------------------------------------------------

    fn converted(
        &mut self,
        node: Node,
        mode: LockMode,
        discarded: Option<Node>,
        turn: &mut Turn<'_>,
    ) {
        self.config.mode = mode;
        self.reads_own_data = self.config.revocable;
        self.report_converted(&node, turn);
        // Afterwards: no owner relies on a node whose deletion is on its way.
        if let Some(discarded) = discarded {
            self.delete(discarded.path().clone(), turn);
        }
        self.node = Some(node);
        self.end_conversion(turn);
    }

    /// Loses the lock: no node of ours holds it any longer.
    fn lose_node(&mut self, turn: &mut Turn<'_>) {
        (self.conversion, self.node) = (None, None);
        self.lose(Loss::NodeDeleted, turn);
    }

    fn not_converted(&mut self, error: impl Into<ModeError>, turn: &mut Turn<'_>) {
        if self.is_held() {
            turn.report(Event::NotConverted(error.into()));
        }
        self.end_conversion(turn);
    }

    fn report_converted(&mut self, node: &Node, turn: &mut Turn<'_>) {
        let (mode, name) = (self.config.mode, node.name.clone());
        turn.report(Event::Converted { mode, node: name, token: node.czxid });
    }

    fn set_conversion(&mut self, conversion: Conversion) {
        self.conversion = Some(Box::new(conversion));
    }

    fn end_conversion(&mut self, turn: &mut Turn<'_>) {
        self.conversion = None;
        match self.phase {
            Phase::Held { suspended: true } => self.verify_if_needed(turn),
            Phase::Held { .. } => self.watch_self_in_time(turn),
            _ => self.finish_leaving(turn),
        }
    }
}

fn numbered(mut prefix: String, number: SequenceNumber) -> String {
    prefix.push_str(number.encode(&mut [0; 11]));
    prefix
}
