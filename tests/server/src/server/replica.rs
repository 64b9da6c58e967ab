//! One server: a replica of the tree, and the watches of the connections to it.

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

/// The zxid of events that do not report their transaction.
pub(super) const NO_ZXID: Zxid = Zxid(-1);

#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) tree: Tree,
    pub(super) watches: Watches,
    /// The last applied transaction.
    pub(super) zxid: Zxid,
    /// The number of applied entries of the log.
    pub(super) applied: usize,
    pub(super) is_alive: bool,
    /// Whether it is isolated from the others.
    pub(super) is_cut_off: bool,
    /// Whether it applies nothing new from the log.
    pub(super) is_held: bool,
    /// Whether it is a member of the ensemble no more.
    pub(super) has_left: bool,
    pub(super) version: Version,
}

/// The outputs of applying an entry.
#[derive(Debug)]
pub(super) struct Consequences {
    /// Events for watchers.
    pub(super) notifications: Vec<Notification>,
    /// The reply to the client that made the request.
    pub(super) reply: Option<Bytes>,
}

/// The results of a transaction.
enum Results<'a> {
    None,
    Session(&'a Bytes),
    One(Applied<'a>),
    Many(Vec<Applied<'a>>),
}

/// An event, and its receivers.
#[derive(Debug)]
pub(super) struct Notification {
    pub(super) listeners: Listeners,
    /// Only receivers with read permission receive it, if set.
    pub(super) guard: Option<Arc<[Grant]>>,
    pub(super) frame: Bytes,
}

impl Replica {
    pub(super) fn new(version: Version, members: Bytes) -> Self {
        Self {
            tree: Tree::new(version, members),
            watches: Watches::new(version),
            zxid: Zxid::ZERO,
            applied: 0,
            is_alive: true,
            is_cut_off: false,
            is_held: false,
            has_left: false,
            version,
        }
    }

    /// Returns a new server with the same data.
    pub(super) fn copy(&self) -> Self {
        let watches = Watches::new(self.version);
        Self { watches, is_held: false, has_left: false, ..self.clone() }
    }

    /// Returns whether it is alive and connected to the others.
    pub(super) fn is_in_touch(&self) -> bool {
        self.is_alive && !self.is_cut_off
    }

    /// Applies the next entry of the log. `asked` is the xid of the request, if it came through
    /// this server.
    pub(super) fn apply(&mut self, entry: &Entry, asked: Option<Xid>) -> Consequences {
        self.applied += 1;
        self.zxid = entry.zxid;
        let Self { tree, watches, version, .. } = self;
        let mut notifications = Vec::new();
        let mut notify = |event: Event<'_>| {
            let listeners = watches.fire(&event);
            if !listeners.is_empty() {
                let guard = version.withholds_events().then(|| event.acl.clone());
                let zxid = if version.reports_event_zxids() { entry.zxid } else { NO_ZXID };
                let frame = notification(event.kind, event.path, zxid);
                notifications.push(Notification { listeners, guard, frame });
            }
        };
        let mut apply = |change| tree.apply(change, entry.zxid, entry.time, &mut notify);
        let results = match &entry.txn {
            Txn::NewEpoch => Results::None,
            Txn::CreateSession { answer } => Results::Session(answer),
            Txn::CloseSession(session) => {
                tree.end_session(*session, entry.zxid, &mut notify);
                Results::None
            }
            Txn::Write(change) => Results::One(apply(change)),
            Txn::Multi(changes) => Results::Many(changes.iter().map(apply).collect()),
            Txn::Refused(err) => Results::One(Applied::Refused(*err)),
            Txn::RefusedMulti(errs) => {
                Results::Many(errs.iter().copied().map(Applied::Refused).collect())
            }
        };
        let reply = asked.map(|xid| match &results {
            Results::None => self.refusal(xid, ErrorCode::OK),
            Results::Session(answer) => Bytes::clone(answer),
            Results::One(applied) => self.reply_to_write(xid, applied),
            Results::Many(all) => self.reply_to_multi(xid, all),
        });
        Consequences { notifications, reply }
    }

    /// Encodes a reply with a body.
    pub(super) fn reply(&self, xid: Xid, body: &impl Encode) -> Bytes {
        frame(&(ReplyHeader { xid, zxid: self.zxid, err: ErrorCode::OK }, body))
    }

    /// Encodes a reply without a body: an error, or a success of such an operation.
    pub(super) fn refusal(&self, xid: Xid, err: ErrorCode) -> Bytes {
        frame(&ReplyHeader { xid, zxid: self.zxid, err })
    }

    fn reply_to_write(&self, xid: Xid, result: &Applied<'_>) -> Bytes {
        match result {
            Applied::Created { opcode: OpCode::CREATE, path, .. } => {
                self.reply(xid, &CreateResponse { path })
            }
            Applied::Created { path, stat, .. } => {
                self.reply(xid, &Create2Response { path, stat: *stat })
            }
            Applied::DataSet(stat) => self.reply(xid, &SetDataResponse { stat: *stat }),
            Applied::AclSet(stat) => self.reply(xid, &SetAclResponse { stat: *stat }),
            Applied::Refused(err) => self.refusal(xid, *err),
            Applied::Deleted | Applied::Checked => self.refusal(xid, ErrorCode::OK),
        }
    }

    fn reply_to_multi(&self, xid: Xid, results: &[Applied<'_>]) -> Bytes {
        let results: Vec<_> = results.iter().map(multi_result).collect();
        self.reply(xid, &Multi::new(&results))
    }
}

fn multi_result<'a>(applied: &Applied<'a>) -> MultiResult<'a> {
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

/// Encodes a watch event.
pub(super) fn notification(event_type: EventType, path: &str, zxid: Zxid) -> Bytes {
    let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: ErrorCode::OK };
    let event = WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path };
    frame(&(header, event))
}
