//! Checks writes against the leader's tree, and turns them into changes
//! (`PrepRequestProcessor.java`). The order of the checks decides which error a client receives.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use bytes::Bytes;
use zk_proto::{
    CheckVersionRequest, CreateMode, CreateTtlRequest, DeleteRequest, ErrorCode, MultiOp,
    MultiRequest, OpCode, Perms, SequenceNumber, SessionId, SetAclRequest, SetDataRequest, Ttl,
    path,
};

use super::acl::{self, Grant};
use super::auth::Identity;
use super::creation;
use super::log::{Change, Create, Txn};
use super::tree::{Life, Tree};
use super::version::Version;

/// Nodes that every server has and that cannot be deleted.
const RESERVED: [&str; 4] = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];

/// The client that writes, and the rules that apply.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    pub(super) session: SessionId,
    pub(super) identities: &'a [Identity],
    pub(super) version: Version,
    pub(super) has_extended_types: bool,
}

/// The tree after the changes prepared so far. The tree itself is unchanged, so dropping the draft
/// rolls a multi back.
pub(super) struct Draft<'t> {
    tree: &'t Tree,
    writer: Writer<'t>,
    /// The nodes touched by these changes; `None` is deleted.
    touched: BTreeMap<String, Option<Facts>>,
}

/// The properties of a node that later checks need.
#[derive(Clone)]
struct Facts {
    version: i32,
    aversion: i32,
    /// The number of children ever created.
    cversion: i32,
    children: i32,
    is_ephemeral: bool,
    acl: Arc<[Grant]>,
}

impl<'t> Draft<'t> {
    pub(super) fn new(tree: &'t Tree, writer: Writer<'t>) -> Self {
        Self { tree, writer, touched: BTreeMap::new() }
    }

    /// Checks one write.
    pub(super) fn prepare(&mut self, op: MultiOp<'_>) -> Result<Change, ErrorCode> {
        match op {
            MultiOp::Create(request) => self.create(OpCode::CREATE, &creation::plain(request)),
            MultiOp::Create2(request) => self.create(OpCode::CREATE2, &creation::plain(request)),
            MultiOp::CreateContainer(request) => {
                self.create(OpCode::CREATE_CONTAINER, &creation::plain(request))
            }
            MultiOp::CreateTtl(request) => self.create(OpCode::CREATE_TTL, &request),
            MultiOp::Delete(request) => self.delete(&request),
            MultiOp::SetData(request) => self.set_data(&request),
            MultiOp::Check(request) => self.check(&request),
            _ => Err(ErrorCode::UNIMPLEMENTED),
        }
    }

    /// Checks the writes of a multi: all or none are applied. On failure each has a code: OK before
    /// the failed one, and another for those that were not tried. If a real server throws an
    /// exception, all have the same code.
    pub(super) fn prepare_all(&mut self, ops: &MultiRequest<'_>) -> Txn {
        let mut changes = Vec::new();
        let version = self.writer.version;
        if !ops.iter().all(|op| creation::is_decodable(&op, version)) {
            return Txn::Refused(ErrorCode::MARSHALLING_ERROR);
        }
        for op in ops.iter() {
            match creation::as_part_of_multi(op, version).and_then(|op| self.prepare(op)) {
                Ok(change) => changes.push(change),
                Err(err @ ErrorCode::MARSHALLING_ERROR) => return Txn::Refused(err),
                Err(err) => {
                    let mut errs = vec![ErrorCode::OK; changes.len()];
                    errs.push(err);
                    errs.resize(ops.iter().count(), ErrorCode::RUNTIME_INCONSISTENCY);
                    return Txn::RefusedMulti(errs);
                }
            }
        }
        Txn::Multi(changes)
    }

    fn create(
        &mut self,
        opcode: OpCode,
        request: &CreateTtlRequest<'_>,
    ) -> Result<Change, ErrorCode> {
        let mode = request.mode;
        if !creation::is_known(mode, self.writer.version) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        self.check_ttl(mode, request.ttl)?;
        let parent_path = parent_of(request.path)?;
        let acl = acl::accept(request.acl, self.writer.identities, self.writer.version)?;
        let mut parent = self.facts(parent_path)?;
        parent.expect(Perms::CREATE, &self.writer)?;
        let path = match mode.is_sequential() {
            true => format!("{}{}", request.path, SequenceNumber(parent.cversion)),
            false => request.path.to_string(),
        };
        validate(&path)?;
        if self.facts(&path).is_ok() {
            return Err(ErrorCode::NODE_EXISTS);
        }
        if parent.is_ephemeral {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        parent.cversion = parent.cversion.wrapping_add(1);
        parent.children += 1;
        let create = Create {
            opcode,
            path: path.as_str().into(),
            data: request.data.map(Bytes::copy_from_slice),
            acl: acl.clone(),
            life: creation::life(opcode, mode, request.ttl, self.writer.session),
            parent_cversion: parent.cversion,
        };
        let is_ephemeral = matches!(create.life, Life::Ephemeral(_));
        let node = Facts { version: 0, aversion: 0, cversion: 0, children: 0, is_ephemeral, acl };
        self.touched.insert(parent_path.to_string(), Some(parent));
        self.touched.insert(path, Some(node));
        Ok(Change::Create(create))
    }

    /// Checks that there is a time to live exactly if the mode has one.
    fn check_ttl(&self, mode: CreateMode, ttl: i64) -> Result<(), ErrorCode> {
        let is_valid = match creation::has_ttl(mode) {
            true if !self.writer.has_extended_types => return Err(ErrorCode::UNIMPLEMENTED),
            true => Ttl::from_millis(ttl).is_some(),
            false => ttl < 0,
        };
        match is_valid {
            true => Ok(()),
            false => Err(ErrorCode::BAD_ARGUMENTS),
        }
    }

    fn delete(&mut self, request: &DeleteRequest<'_>) -> Result<Change, ErrorCode> {
        let (parent_path, parent, node) =
            self.doomed(request.path, |parent, writer| parent.expect(Perms::DELETE, writer))?;
        expect_version(request.version, node.version)?;
        if node.children > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        Ok(self.remove(request.path, parent_path, parent))
    }

    /// Checks the deletion of a container or another node that is not ephemeral. It needs no
    /// permission.
    pub(super) fn delete_container(&mut self, path: &str) -> Result<Change, ErrorCode> {
        let (parent_path, parent, node) = self.doomed(path, |_, _| Ok(()))?;
        if node.children > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        if node.is_ephemeral {
            return Err(ErrorCode::BAD_VERSION);
        }
        Ok(self.remove(path, parent_path, parent))
    }

    /// Returns a node to be deleted, and its parent.
    fn doomed<'p>(
        &self,
        path: &'p str,
        check_parent: impl FnOnce(&Facts, &Writer<'_>) -> Result<(), ErrorCode>,
    ) -> Result<(&'p str, Facts, Facts), ErrorCode> {
        if RESERVED.contains(&path) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let parent_path = parent_of(path)?;
        let parent = self.facts(parent_path)?;
        check_parent(&parent, &self.writer)?;
        Ok((parent_path, parent, self.facts(path)?))
    }

    fn remove(&mut self, path: &str, parent_path: &str, mut parent: Facts) -> Change {
        parent.children -= 1;
        self.touched.insert(parent_path.to_string(), Some(parent));
        self.touched.insert(path.to_string(), None);
        Change::Delete { path: path.to_string() }
    }

    fn set_data(&mut self, request: &SetDataRequest<'_>) -> Result<Change, ErrorCode> {
        validate(request.path)?;
        let mut node = self.facts(request.path)?;
        node.expect(Perms::WRITE, &self.writer)?;
        expect_version(request.version, node.version)?;
        node.version = node.version.wrapping_add(1);
        self.touched.insert(request.path.to_string(), Some(node));
        Ok(Change::SetData {
            path: request.path.to_string(),
            data: request.data.map(Bytes::copy_from_slice),
        })
    }

    /// Checks a new access control list. A multi cannot include this.
    pub(super) fn set_acl(&self, request: &SetAclRequest<'_>) -> Result<Change, ErrorCode> {
        validate(request.path)?;
        let acl = acl::accept(request.acl, self.writer.identities, self.writer.version)?;
        let node = self.facts(request.path)?;
        node.expect(Perms::ADMIN, &self.writer)?;
        expect_version(request.version, node.aversion)?;
        Ok(Change::SetAcl { path: request.path.to_string(), acl })
    }

    fn check(&self, request: &CheckVersionRequest<'_>) -> Result<Change, ErrorCode> {
        validate(request.path)?;
        let node = self.facts(request.path)?;
        node.expect(Perms::READ, &self.writer)?;
        expect_version(request.version, node.version)?;
        Ok(Change::Check)
    }

    fn facts(&self, path: &str) -> Result<Facts, ErrorCode> {
        let facts = match self.touched.get(path) {
            Some(facts) => facts.clone(),
            None => self.tree.get(path).map(|node| {
                let stat = node.stat();
                Facts {
                    version: stat.version,
                    aversion: stat.aversion,
                    cversion: node.next_sequence(),
                    children: stat.num_children,
                    is_ephemeral: node.is_ephemeral(),
                    acl: node.shared_acl(),
                }
            }),
        };
        facts.ok_or(ErrorCode::NO_NODE)
    }
}

impl Facts {
    fn expect(&self, perms: Perms, writer: &Writer<'_>) -> Result<(), ErrorCode> {
        acl::check(&self.acl, perms, writer.identities)
    }
}

fn expect_version(expected: i32, actual: i32) -> Result<(), ErrorCode> {
    match expected == -1 || expected == actual {
        true => Ok(()),
        false => Err(ErrorCode::BAD_VERSION),
    }
}

fn validate(path: &str) -> Result<(), ErrorCode> {
    path::validate(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)
}

/// Returns the path before the last slash. The rest of the path is checked later, once the parent
/// is known to exist.
fn parent_of(path: &str) -> Result<&str, ErrorCode> {
    match path.rsplit_once('/') {
        Some(_) if path.contains('\0') => Err(ErrorCode::BAD_ARGUMENTS),
        Some(("", _)) => Ok("/"),
        Some((parent, _)) => Ok(parent),
        None => Err(ErrorCode::BAD_ARGUMENTS),
    }
}
