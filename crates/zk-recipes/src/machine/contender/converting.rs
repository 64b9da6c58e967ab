//! From writer to reader, and back.
//!
//! *Down*: the writer's node is replaced by a reader's with the same number, in one transaction.
//! So nobody who waits behind it comes in between: writers find a reader in its place, readers
//! are let in.
//!
//! *Up*: a second node, a writer's, is created at the end of the queue while the reader's is
//! kept. If nobody else is before the new one, the lock is held exclusively, for whoever comes
//! later waits behind it, and the old node goes. Otherwise the new one goes. So two readers that
//! try at once both fail, rather than wait for each other for ever.

use alloc::string::String;

use zk_session::proto::{
    ErrorCode, ExistsResponse, GetChildrenResponse, MultiResponse, Sequence, Zxid,
};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::super::phase::{Conversion, Node, Phase};
use super::super::remedy::Remedy;
use super::super::view::{Eyes, LAST_SAFE, View};
use super::super::{Claim, Event, OpId, Operation};
use super::entering::node_created;
use super::{Contender, RETRY_AFTER};
use crate::error::{LockError, Loss};

/// A reader that took a writer's number does not stand where its transaction would put it. So
/// nobody may become one where others might soon go by transactions.
const LAST_TO_DOWNGRADE: i32 = LAST_SAFE - (1 << 20);

impl Contender {
    pub(super) fn convert(&mut self, claim: Claim) {
        match (&self.conversion, &self.node) {
            (None, Some(node)) if self.is_held() => {
                if claim == self.contest.claim {
                    let node = node.clone();
                    self.tell_converted(&node);
                } else if !self.contest.scheme.has_readers() {
                    self.tell(Event::NotConverted(LockError::NoReaders));
                } else if claim == Claim::Exclusive {
                    self.upgrade();
                } else {
                    self.downgrade();
                }
            }
            // Its end was told, or will be.
            _ => {}
        }
    }

    pub(super) fn handle_conversion(&mut self, op: OpId, result: Result<Reply, Error>) {
        match &mut self.conversion {
            Some(Conversion::Downgrading { replace }) if *replace == op => self.replaced(result),
            Some(Conversion::FindingReader { sync, synced, .. })
            | Some(Conversion::FindingWriter { sync, synced, .. })
                if *sync == op =>
            {
                match result {
                    Ok(_) => *synced = true,
                    Err(error) => self.retry_conversion(error),
                }
            }
            Some(Conversion::FindingReader { stat, synced: true, .. }) if *stat == op => {
                self.found_reader(result);
            }
            Some(Conversion::FindingWriter { list, synced: true, .. }) if *list == op => {
                self.found_writer(result);
            }
            // Told before the sync is, so it was refused before it was sent.
            Some(Conversion::FindingReader { stat: second, .. })
            | Some(Conversion::FindingWriter { list: second, .. })
                if *second == op =>
            {
                self.set_timer(RETRY_AFTER);
            }
            Some(Conversion::Upgrading { create, created, .. }) if *create == op => {
                match node_created(result) {
                    Ok(node) => *created = Some(node),
                    Err(error) if error.outcome() == Outcome::NotApplied => {
                        self.not_converted(error.into());
                    }
                    Err(_) => self.find_writer(),
                }
            }
            Some(Conversion::Upgrading { list, created, .. }) if *list == op => {
                match created.take() {
                    Some(writer) => self.upgraded(writer, result),
                    // Told before the creation is, so it was refused before it was sent.
                    None => self.find_writer(),
                }
            }
            _ => {}
        }
    }

    /// Only what looks for an outcome is repeated.
    pub(super) fn repeat_conversion(&mut self) {
        match self.conversion {
            Some(Conversion::FindingReader { .. }) => self.find_reader(),
            Some(Conversion::FindingWriter { .. }) => self.find_writer(),
            _ => {}
        }
    }

    /// Whether it is open which node is ours.
    pub(super) const fn is_replacing_node(&self) -> bool {
        matches!(
            self.conversion,
            Some(Conversion::Downgrading { .. } | Conversion::FindingReader { .. })
        )
    }

    fn retry_conversion(&mut self, error: Error) {
        match Remedy::of(&error) {
            Remedy::Now => self.repeat_conversion(),
            Remedy::Later => self.set_timer(RETRY_AFTER),
            Remedy::None => self.not_converted(error.into()),
        }
    }

    // ---- Down ----------------------------------------------------------------------------------

    fn downgrade(&mut self) {
        let (Some(writer), Some(reader)) = (self.node.clone(), self.reader_path()) else {
            return self.not_converted(LockError::SequenceExhausted);
        };
        // Its end is no loss now.
        self.unwatch_self();
        let (data, acl) = (self.contest.data.clone(), self.contest.acl.clone());
        let replace = self.submit(Operation::replace(writer.path, reader, data, acl));
        self.conversion = Some(Conversion::Downgrading { replace });
    }

    /// The node that takes the place of our writer's.
    fn reader_path(&self) -> Option<String> {
        let contest = &self.contest;
        let node = self.node.as_ref()?;
        let number = contest.scheme.parse(node.name())?.sequence;
        let prefix = contest.scheme.prefix(Claim::Shared, contest.guid, contest.session);
        let is_safe = (0..=LAST_TO_DOWNGRADE).contains(&number.0);
        is_safe.then(|| self.path_of(&Self::numbered(prefix, number)))
    }

    fn numbered(mut prefix: String, number: Sequence) -> String {
        use core::fmt::Write as _;
        // Writing to a string does not fail.
        let _ = write!(prefix, "{number}");
        prefix
    }

    fn replaced(&mut self, result: Result<Reply, Error>) {
        let answer = result.and_then(|reply| {
            let failure = reply.decode::<MultiResponse<'_>>()?.failure();
            failure.map_or(Ok(reply.zxid), |(_, code)| Err(Error::Server(code)))
        });
        match answer {
            Ok(zxid) => self.replaced_at(zxid),
            // Our own node is missing.
            Err(Error::Server(ErrorCode::NO_NODE)) => self.lost_while_replacing(),
            Err(error) if error.outcome() == Outcome::NotApplied => match Remedy::of(&error) {
                Remedy::Now if self.is_held() => self.downgrade(),
                _ => self.not_converted(error.into()),
            },
            Err(_) => self.find_reader(),
        }
    }

    fn replaced_at(&mut self, czxid: Zxid) {
        if let Some(path) = self.reader_path() {
            self.converted(Node { path, czxid }, Claim::Shared);
        }
    }

    fn find_reader(&mut self) {
        match self.reader_path() {
            Some(reader) => {
                let sync = self.sync();
                let stat = self.submit(Operation::stat(reader));
                self.conversion = Some(Conversion::FindingReader { sync, stat, synced: false });
            }
            None => self.not_converted(LockError::SequenceExhausted),
        }
    }

    fn found_reader(&mut self, result: Result<Reply, Error>) {
        match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => self.replaced_at(response.stat.czxid),
            Err(Error::Server(ErrorCode::NO_NODE)) if self.is_held() => self.downgrade(),
            Err(Error::Server(ErrorCode::NO_NODE)) => self.end_conversion(),
            Err(error) => self.retry_conversion(error),
        }
    }

    fn lost_while_replacing(&mut self) {
        self.conversion = None;
        if self.is_held() {
            self.node = None;
            self.lose(Loss::NodeDeleted);
        } else {
            self.finish_leaving();
        }
    }

    // ---- Up ------------------------------------------------------------------------------------

    fn upgrade(&mut self) {
        let create = self.submit_creation(Claim::Exclusive);
        let list = self.list();
        self.conversion = Some(Conversion::Upgrading { create, list, created: None });
    }

    fn upgraded(&mut self, writer: Node, result: Result<Reply, Error>) {
        let view = result.and_then(|reply| {
            let children = reply.decode::<GetChildrenResponse<'_>>()?.children;
            Ok(self.eyes_of_writer().see(writer.name(), children.iter()))
        });
        let error = match view {
            Ok(View::First) if self.is_held() => {
                self.unwatch_self();
                if let Some(reader) = self.node.take() {
                    self.delete(reader.path);
                }
                return self.converted(writer, Claim::Exclusive);
            }
            Ok(View::First | View::Behind { .. }) => LockError::NotAlone,
            Ok(View::Absent) => LockError::NodeVanished,
            Ok(View::Exhausted) => LockError::SequenceExhausted,
            Err(error) => error.into(),
        };
        self.delete(writer.path);
        self.not_converted(error);
    }

    fn find_writer(&mut self) {
        let sync = self.sync();
        let list = self.list();
        self.conversion = Some(Conversion::FindingWriter { sync, list, synced: false });
    }

    fn found_writer(&mut self, result: Result<Reply, Error>) {
        let strays = result.and_then(|reply| {
            let children = reply.decode::<GetChildrenResponse<'_>>()?.children;
            let strays = self.eyes_of_writer().ours(children.iter()).into_iter();
            Ok(strays.map(|stray| self.path_of(stray)).collect())
        });
        let strays: alloc::vec::Vec<_> = match strays {
            Ok(strays) => strays,
            Err(Error::Server(ErrorCode::NO_NODE)) => alloc::vec::Vec::new(),
            Err(error) => return self.retry_conversion(error),
        };
        strays.into_iter().for_each(|stray| self.delete(stray));
        self.not_converted(Error::ConnectionLost.into());
    }

    const fn eyes_of_writer(&self) -> Eyes {
        Eyes { claim: Claim::Exclusive, ..self.eyes() }
    }

    // ---- The end of it -------------------------------------------------------------------------

    fn converted(&mut self, node: Node, claim: Claim) {
        if matches!(self.phase, Phase::Leaving) {
            self.delete(node.path);
            return self.end_conversion();
        }
        self.contest.claim = claim;
        self.tell_converted(&node);
        self.node = Some(node);
        self.end_conversion();
    }

    fn not_converted(&mut self, error: LockError) {
        if self.is_held() {
            self.tell(Event::NotConverted(error));
        }
        self.end_conversion();
    }

    fn tell_converted(&mut self, node: &Node) {
        let (claim, name) = (self.contest.claim, node.name().into());
        self.tell(Event::Converted { claim, node: name, token: node.czxid });
    }

    fn end_conversion(&mut self) {
        self.conversion = None;
        match self.phase {
            Phase::Held { suspended: true } if self.connected => self.watch_self(),
            Phase::Held { .. } => self.watch_self_in_time(),
            _ => self.finish_leaving(),
        }
    }
}
