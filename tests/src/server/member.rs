//! One member: a replica of the tree, and the watches of the connections to it.

use bytes::Bytes;
use zk_proto::{
    Create2Response, CreateResponse, Encode, ErrorCode, ErrorResponse, EventType, ExistsResponse,
    GetChildren2Response, GetChildrenResponse, GetDataResponse, KeeperState, List, Multi,
    MultiResult, OpCode, ReplyHeader, Request, SetDataResponse, SetWatches, WatcherEvent, Xid,
    Zxid,
};

use super::ConnId;
use super::log::{Entry, Txn};
use super::outbox::frame;
use super::tree::{Applied, Event, Tree};
use super::watches::{Listeners, Watches};

/// Servers before 3.9 do not tell the transaction of an event.
const NO_ZXID: Zxid = Zxid(-1);

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
}

/// What applying an entry leads to: what to tell watchers, and the answer to who asked for it.
#[derive(Debug, Default)]
pub(super) struct Consequences {
    pub(super) notifications: Vec<(Listeners, Bytes)>,
    pub(super) reply: Bytes,
}

impl Member {
    pub(super) fn new() -> Self {
        Self {
            tree: Tree::new(),
            watches: Watches::default(),
            zxid: Zxid::ZERO,
            applied: 0,
            is_alive: true,
            is_held: false,
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
        let notifications =
            events.iter().map(|event| (self.watches.fire(event), notification(event))).collect();
        let reply = match (entry.origin, &entry.txn) {
            (Some(_), Txn::CreateSession { answer }) => answer.clone(),
            (Some(origin), _) if is_multi => self.reply_to_multi(origin.xid, &results),
            (Some(origin), _) => self.reply_to_write(origin.xid, &results),
            (None, _) => Bytes::new(),
        };
        Consequences { notifications, reply }
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
            Some(Applied::Refused(err)) => self.refusal(xid, *err),
            Some(Applied::Deleted | Applied::Checked) | None => self.refusal(xid, ErrorCode::OK),
        }
    }

    fn reply_to_multi(&self, xid: Xid, results: &[Applied]) -> Bytes {
        let results: Vec<_> = results.iter().map(multi_result).collect();
        self.reply(xid, &Multi::new(&results))
    }

    /// Answers a request that only concerns this member: a read, or one about watches.
    pub(super) fn answer(&mut self, conn: ConnId, xid: Xid, request: &Request<'_>) -> Bytes {
        self.try_answer(conn, xid, request).unwrap_or_else(|err| self.refusal(xid, err))
    }

    fn try_answer(
        &mut self,
        conn: ConnId,
        xid: Xid,
        request: &Request<'_>,
    ) -> Result<Bytes, ErrorCode> {
        match request {
            Request::Exists(request) => {
                if request.path.contains('\0') {
                    return Err(ErrorCode::BAD_ARGUMENTS);
                }
                // The watch is set whether there is a node or not.
                if request.watch {
                    self.watches.data.add(request.path, conn);
                }
                let node = self.tree.get(request.path).ok_or(ErrorCode::NO_NODE)?;
                Ok(self.reply(xid, &ExistsResponse { stat: node.stat() }))
            }
            Request::GetData(request) => {
                let node = self.tree.get(request.path).ok_or(ErrorCode::NO_NODE)?;
                if request.watch {
                    self.watches.data.add(request.path, conn);
                }
                Ok(self.reply(xid, &GetDataResponse { data: node.data(), stat: node.stat() }))
            }
            Request::GetChildren(list) | Request::GetChildren2(list) => {
                let node = self.tree.get(list.path).ok_or(ErrorCode::NO_NODE)?;
                if list.watch {
                    self.watches.child.add(list.path, conn);
                }
                let names: Vec<_> = node.children().collect();
                let children = List::new(&names);
                Ok(match request {
                    Request::GetChildren(_) => self.reply(xid, &GetChildrenResponse { children }),
                    _ => self.reply(xid, &GetChildren2Response { children, stat: node.stat() }),
                })
            }
            Request::RemoveWatches(request) => {
                self.watches.remove(conn, request.path, request.watcher_type)?;
                Ok(self.reply(xid, &()))
            }
            _ => Err(ErrorCode::UNIMPLEMENTED),
        }
    }

    /// Sets watches again after a reconnect. The events that they missed since then come first.
    pub(super) fn set_watches(&mut self, conn: ConnId, request: &SetWatches<'_>) -> Vec<Bytes> {
        let since = request.relative_zxid;
        let mut missed = Vec::new();
        let mut miss = |kind, path: &str| missed.push(Event { kind, path: path.to_string() });
        for path in request.data_watches.iter() {
            match self.tree.get(path).map(|node| node.stat().mzxid) {
                None => miss(EventType::NODE_DELETED, path),
                Some(mzxid) if mzxid > since => {
                    miss(EventType::NODE_DATA_CHANGED, path);
                }
                Some(_) => self.watches.data.add(path, conn),
            }
        }
        for path in request.exist_watches.iter() {
            match self.tree.get(path) {
                Some(_) => miss(EventType::NODE_CREATED, path),
                None => self.watches.data.add(path, conn),
            }
        }
        for path in request.child_watches.iter() {
            match self.tree.get(path).map(|node| node.stat().pzxid) {
                None => miss(EventType::NODE_DELETED, path),
                Some(pzxid) if pzxid > since => {
                    miss(EventType::NODE_CHILDREN_CHANGED, path);
                }
                Some(_) => self.watches.child.add(path, conn),
            }
        }
        missed.iter().map(notification).collect()
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
        Applied::DataSet(stat) => MultiResult::SetData(SetDataResponse { stat: *stat }),
        Applied::Deleted => MultiResult::Delete(()),
        Applied::Checked => MultiResult::Check(()),
        Applied::Refused(err) => MultiResult::Error(ErrorResponse { err: *err }),
    }
}

fn notification(event: &Event) -> Bytes {
    let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: NO_ZXID, err: ErrorCode::OK };
    let event = WatcherEvent {
        event_type: event.kind,
        state: KeeperState::SYNC_CONNECTED,
        path: &event.path,
    };
    frame(&(header, event))
}
