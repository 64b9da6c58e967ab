//! One member: a replica of the tree, and the watches of the connections to it.

use alloc::sync::Arc;

use bytes::Bytes;
use zk_proto::{
    Create2Response, CreateResponse, Encode, ErrorCode, ErrorResponse, EventType, KeeperState,
    Multi, MultiResult, OpCode, ReplyHeader, SetAclResponse, SetDataResponse, WatcherEvent, Xid,
    Zxid,
};

use super::acl::Grant;
use super::log::{Entry, Txn};
use super::outbox::frame;
use super::tree::{Applied, Event, Tree};
use super::version::Version;
use super::watches::{Listeners, Watches};

/// For events whose transaction is not told.
pub(super) const NO_ZXID: Zxid = Zxid(-1);

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) tree: Tree,
    pub(super) watches: Watches,
    /// The last transaction it has applied.
    pub(super) zxid: Zxid,
    /// How many entries of the log it has applied.
    pub(super) applied: usize,
    pub(super) is_alive: bool,
    /// Whether it leaves what is new in the log for later.
    pub(super) is_held: bool,
    pub(super) version: Version,
}

/// What applying an entry leads to: what to tell watchers, and the answer to who asked for it.
#[derive(Debug, Default)]
pub(super) struct Consequences {
    pub(super) notifications: Vec<Notification>,
    pub(super) reply: Bytes,
}

/// An event, and whom it is for.
#[derive(Debug)]
pub(super) struct Notification {
    pub(super) listeners: Listeners,
    /// Of these, only those who may read the node are told; `None` is all.
    pub(super) guard: Option<Arc<[Grant]>>,
    pub(super) frame: Bytes,
}

impl Member {
    pub(super) fn new(version: Version) -> Self {
        Self {
            tree: Tree::new(version),
            watches: Watches::new(version),
            zxid: Zxid::ZERO,
            applied: 0,
            is_alive: true,
            is_held: false,
            version,
        }
    }

    /// Applies the next entry of the log.
    pub(super) fn apply(&mut self, entry: &Entry) -> Consequences {
        self.applied += 1;
        self.zxid = entry.zxid;
        let mut events = Vec::new();
        let mut apply = |change| self.tree.apply(change, entry.zxid, entry.time, &mut events);
        let (results, is_multi) = match &entry.txn {
            Txn::NewEpoch | Txn::CreateSession { .. } => (Vec::new(), false),
            Txn::CloseSession(session) => {
                self.tree.end_session(*session, entry.zxid, &mut events);
                (Vec::new(), false)
            }
            Txn::Write(change) => (vec![apply(change)], false),
            Txn::Multi(changes) => (changes.iter().map(apply).collect(), true),
            Txn::Refused(err) => (vec![Applied::Refused(*err)], false),
            Txn::RefusedMulti(errs) => (errs.iter().copied().map(Applied::Refused).collect(), true),
        };
        let notifications = events.iter().map(|event| self.notify(event, entry.zxid)).collect();
        let reply = match (entry.origin, &entry.txn) {
            (Some(_), Txn::CreateSession { answer }) => answer.clone(),
            (Some(origin), _) if is_multi => self.reply_to_multi(origin.xid, &results),
            (Some(origin), _) => self.reply_to_write(origin.xid, &results),
            (None, _) => Bytes::new(),
        };
        Consequences { notifications, reply }
    }

    fn notify(&mut self, event: &Event, zxid: Zxid) -> Notification {
        let guard = self.version.guards_events().then(|| event.acl.clone());
        let zxid = if self.version.tells_zxid_of_events() { zxid } else { NO_ZXID };
        let frame = notification(event.kind, &event.path, zxid);
        Notification { listeners: self.watches.fire(event), guard, frame }
    }

    /// A reply with a body.
    pub(super) fn reply(&self, xid: Xid, body: &impl Encode) -> Bytes {
        frame(&(ReplyHeader { xid, zxid: self.zxid, err: ErrorCode::OK }, body))
    }

    /// A reply that is an error, or that has no body anyway.
    pub(super) fn refusal(&self, xid: Xid, err: ErrorCode) -> Bytes {
        frame(&ReplyHeader { xid, zxid: self.zxid, err })
    }

    fn reply_to_write(&self, xid: Xid, results: &[Applied]) -> Bytes {
        match results.first() {
            Some(Applied::Created { opcode: OpCode::CREATE, path, .. }) => {
                self.reply(xid, &CreateResponse { path })
            }
            Some(Applied::Created { path, stat, .. }) => {
                self.reply(xid, &Create2Response { path, stat: *stat })
            }
            Some(Applied::DataSet(stat)) => self.reply(xid, &SetDataResponse { stat: *stat }),
            Some(Applied::AclSet(stat)) => self.reply(xid, &SetAclResponse { stat: *stat }),
            Some(Applied::Refused(err)) => self.refusal(xid, *err),
            Some(Applied::Deleted | Applied::Checked) | None => self.refusal(xid, ErrorCode::OK),
        }
    }

    fn reply_to_multi(&self, xid: Xid, results: &[Applied]) -> Bytes {
        let results: Vec<_> = results.iter().map(multi_result).collect();
        self.reply(xid, &Multi::new(&results))
    }
}

fn multi_result(applied: &Applied) -> MultiResult<'_> {
    match applied {
        Applied::Created { opcode: OpCode::CREATE, path, .. } => {
            MultiResult::Create(CreateResponse { path })
        }
        Applied::Created { path, stat, .. } => {
            MultiResult::Create2(Create2Response { path, stat: *stat })
        }
        Applied::DataSet(stat) | Applied::AclSet(stat) => {
            MultiResult::SetData(SetDataResponse { stat: *stat })
        }
        Applied::Deleted => MultiResult::Delete(()),
        Applied::Checked => MultiResult::Check(()),
        Applied::Refused(err) => MultiResult::Error(ErrorResponse { err: *err }),
    }
}

/// The frame that tells an event.
pub(super) fn notification(event_type: EventType, path: &str, zxid: Zxid) -> Bytes {
    let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: ErrorCode::OK };
    let event = WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path };
    frame(&(header, event))
}
