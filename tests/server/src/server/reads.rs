//! Requests that one server answers by itself: reads, and requests about watches
//! (`FinalRequestProcessor.java`).

use bytes::Bytes;
use zk_proto::{
    AddWatchMode, Encode, ErrorCode, ErrorResponse, EventType, ExistsRequest, ExistsResponse,
    GetAclRequest, GetAclResponse, GetAllChildrenNumberResponse, GetChildren2Response,
    GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
    GetEphemeralsResponse, List, Multi, MultiHeader, MultiReadOp, MultiReadRequest,
    MultiReadResult, OpCode, Perms, Request, SessionId, SetWatches2, Sink, WhoAmIResponse, Xid,
    frame,
};

use super::ConnId;
use super::acl::{self, Grant};
use super::auth::Identity;
use super::replica::{NO_ZXID, Replica, notification};
use super::tree::{Node, Tree};

/// Bytes that are encoded already.
struct Encoded<'b>(&'b [u8]);

impl Encode for Encoded<'_> {
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        out.put(self.0);
    }
}

/// The client that reads.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) conn: ConnId,
    pub(super) session: SessionId,
    pub(super) identities: &'a [Identity],
}

impl Replica {
    /// Answers a request that concerns only this server.
    pub(super) fn answer(&mut self, reader: Reader<'_>, xid: Xid, request: &Request<'_>) -> Bytes {
        self.try_answer(reader, xid, request).unwrap_or_else(|err| self.refusal(xid, err))
    }

    fn try_answer(
        &mut self,
        reader: Reader<'_>,
        xid: Xid,
        request: &Request<'_>,
    ) -> Result<Bytes, ErrorCode> {
        match request {
            Request::Exists(request) => self.exists(reader, xid, request),
            Request::GetData(request) => self.get_data(reader, xid, request),
            Request::GetChildren(request) => self.get_children(reader, xid, request, false),
            Request::GetChildren2(request) => self.get_children(reader, xid, request, true),
            Request::GetAcl(request) => self.get_acl(reader, xid, request),
            Request::GetAllChildrenNumber(request) => {
                readable(&self.tree, reader, request.path)?;
                let count = self.tree.descendants(request.path);
                let total_number = i32::try_from(count).unwrap_or(i32::MAX);
                Ok(self.reply(xid, &GetAllChildrenNumberResponse { total_number }))
            }
            Request::GetEphemerals(request) => {
                let prefix = match request.prefix_path.unwrap_or_default() {
                    all if all.trim() == "/" || all.trim().is_empty() => "",
                    prefix => prefix,
                };
                let paths = self.tree.ephemerals(reader.session);
                let paths: Vec<_> = paths.filter(|path| path.starts_with(prefix)).collect();
                Ok(self.reply(xid, &GetEphemeralsResponse { ephemerals: List::new(&paths) }))
            }
            Request::MultiRead(ops) => Ok(self.multi_read(reader, xid, ops)),
            Request::WhoAmI(()) => {
                let infos: Vec<_> = reader.identities.iter().map(Identity::info).collect();
                Ok(self.reply(xid, &WhoAmIResponse { client_info: List::new(&infos) }))
            }
            Request::AddWatch(request) => {
                self.watches.add(request.path, reader.conn, request.mode)?;
                Ok(self.reply(xid, &ErrorResponse { err: ErrorCode::OK }))
            }
            Request::CheckWatches(request) => {
                self.watches.check(reader.conn, request.path, request.watcher_type)?;
                Ok(self.reply(xid, &()))
            }
            Request::RemoveWatches(request) => {
                self.watches.remove(reader.conn, request.path, request.watcher_type)?;
                Ok(self.reply(xid, &()))
            }
            _ => Err(ErrorCode::UNIMPLEMENTED),
        }
    }

    fn exists(
        &mut self,
        reader: Reader<'_>,
        xid: Xid,
        request: &ExistsRequest<'_>,
    ) -> Result<Bytes, ErrorCode> {
        if request.path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let node = self.tree.get(request.path);
        if let Some(node) = node
            && self.version.checks_exists()
        {
            acl::check(node.acl(), Perms::READ, reader.identities)?;
        }
        // The watch is set whether or not the node exists.
        if request.watch {
            self.watches.watch_data(request.path, reader.conn);
        }
        Ok(self.reply(xid, &ExistsResponse { stat: node.ok_or(ErrorCode::NO_NODE)?.stat() }))
    }

    fn get_data(
        &mut self,
        reader: Reader<'_>,
        xid: Xid,
        request: &GetDataRequest<'_>,
    ) -> Result<Bytes, ErrorCode> {
        let node = readable(&self.tree, reader, request.path)?;
        if request.watch {
            self.watches.watch_data(request.path, reader.conn);
        }
        Ok(self.reply(xid, &GetDataResponse { data: node.data(), stat: node.stat() }))
    }

    fn get_children(
        &mut self,
        reader: Reader<'_>,
        xid: Xid,
        request: &GetChildrenRequest<'_>,
        with_stat: bool,
    ) -> Result<Bytes, ErrorCode> {
        let node = readable(&self.tree, reader, request.path)?;
        if request.watch {
            self.watches.watch_children(request.path, reader.conn);
        }
        let names: Vec<_> = node.children().collect();
        let (children, stat) = (List::new(&names), node.stat());
        Ok(match with_stat {
            true => self.reply(xid, &GetChildren2Response { children, stat }),
            false => self.reply(xid, &GetChildrenResponse { children }),
        })
    }

    fn get_acl(
        &self,
        reader: Reader<'_>,
        xid: Xid,
        request: &GetAclRequest<'_>,
    ) -> Result<Bytes, ErrorCode> {
        let node = self.tree.get(request.path).ok_or(ErrorCode::NO_NODE)?;
        acl::check(node.acl(), Perms::READ | Perms::ADMIN, reader.identities)?;
        let may_change = acl::permits(node.acl(), Perms::ADMIN, reader.identities);
        let shown = |grant: &Grant| if may_change { grant.clone() } else { grant.masked() };
        let grants: Vec<_> = node.acl().iter().map(shown).collect();
        let acl: Vec<_> = grants.iter().map(Grant::as_acl).collect();
        Ok(self.reply(xid, &GetAclResponse { acl: List::new(&acl), stat: node.stat() }))
    }

    fn multi_read(&self, reader: Reader<'_>, xid: Xid, ops: &MultiReadRequest<'_>) -> Bytes {
        let nodes: Vec<_> =
            ops.iter().map(|op| (op, readable(&self.tree, reader, path_of(&op)))).collect();
        let names: Vec<Vec<_>> = nodes
            .iter()
            .map(|(_, node)| node.iter().flat_map(|node| node.children()).collect())
            .collect();
        let results: Vec<_> = (nodes.iter().zip(&names))
            .map(|((op, node), names)| match (op, node) {
                (_, Err(err)) => MultiReadResult::Error(ErrorResponse { err: *err }),
                (MultiReadOp::GetChildren(_), Ok(_)) => {
                    MultiReadResult::GetChildren(GetChildrenResponse { children: List::new(names) })
                }
                (_, Ok(node)) => {
                    let (data, stat) = (node.data(), node.stat());
                    MultiReadResult::GetData(GetDataResponse { data, stat })
                }
            })
            .collect();
        self.reply(xid, &Multi::new(&results))
    }

    /// Answers the parts of a `multiRead` as ClickHouse Keeper does.
    pub(super) fn answer_reads(
        &mut self,
        reader: Reader<'_>,
        xid: Xid,
        reads: &[Request<'_>],
    ) -> Bytes {
        const HEADER: usize = frame::PREFIX_LEN + 16;

        let mut results = Vec::new();
        for read in reads {
            let answer = self.try_answer(reader, xid, read);
            let err = answer.as_ref().err().copied().unwrap_or(ErrorCode::OK);
            MultiHeader { opcode: read.opcode(), done: false, err }.encode(&mut results);
            results.extend(answer.iter().flat_map(|answer| answer.iter().skip(HEADER)));
        }
        let end = MultiHeader { opcode: OpCode::ERROR, done: true, err: ErrorCode(-1) };
        end.encode(&mut results);
        self.reply(xid, &Encoded(&results))
    }

    /// Sets watches again after a reconnect. Events that they missed come first. A null list ends
    /// it, since a real server throws an exception.
    pub(super) fn set_watches(
        &mut self,
        conn: ConnId,
        request: &SetWatches2<'_>,
    ) -> (Vec<Bytes>, ErrorCode) {
        let mut missed = Vec::new();
        let result = self.try_set_watches(conn, request, &mut |kind, path| {
            missed.push(notification(kind, path, NO_ZXID));
        });
        (missed, result.err().unwrap_or(ErrorCode::OK))
    }

    fn try_set_watches(
        &mut self,
        conn: ConnId,
        request: &SetWatches2<'_>,
        miss: &mut dyn FnMut(EventType, &str),
    ) -> Result<(), ErrorCode> {
        let since = request.relative_zxid;
        for path in not_null(request.data_watches)?.iter() {
            match self.tree.get(path).map(|node| node.stat().mzxid) {
                None => miss(EventType::NODE_DELETED, path),
                Some(mzxid) if mzxid > since => miss(EventType::NODE_DATA_CHANGED, path),
                Some(_) => self.watches.watch_data(path, conn),
            }
        }
        for path in not_null(request.exist_watches)?.iter() {
            match self.tree.get(path) {
                Some(_) => miss(EventType::NODE_CREATED, path),
                None => self.watches.watch_data(path, conn),
            }
        }
        for path in not_null(request.child_watches)?.iter() {
            match self.tree.get(path).map(|node| node.stat().pzxid) {
                None => miss(EventType::NODE_DELETED, path),
                Some(pzxid) if pzxid > since => miss(EventType::NODE_CHILDREN_CHANGED, path),
                Some(_) => self.watches.watch_children(path, conn),
            }
        }
        for path in not_null(request.persistent_watches)?.iter() {
            self.watches.add(path, conn, AddWatchMode::PERSISTENT)?;
        }
        for path in not_null(request.persistent_recursive_watches)?.iter() {
            self.watches.add(path, conn, AddWatchMode::PERSISTENT_RECURSIVE)?;
        }
        Ok(())
    }
}

fn readable<'t>(tree: &'t Tree, reader: Reader<'_>, path: &str) -> Result<&'t Node, ErrorCode> {
    let node = tree.get(path).ok_or(ErrorCode::NO_NODE)?;
    acl::check(node.acl(), Perms::READ, reader.identities)?;
    Ok(node)
}

fn not_null<'a>(list: List<'a, &'a str>) -> Result<List<'a, &'a str>, ErrorCode> {
    match list.is_null() {
        true => Err(ErrorCode::MARSHALLING_ERROR),
        false => Ok(list),
    }
}

fn path_of<'a>(op: &MultiReadOp<'a>) -> &'a str {
    match op {
        MultiReadOp::GetData(request) => request.path,
        MultiReadOp::GetChildren(request) => request.path,
        _ => "",
    }
}
