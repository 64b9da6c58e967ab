//! Checks writes against the leader's tree and turns them into changes
//! (`PrepRequestProcessor.java`). The order of the checks decides which error a client sees.

use alloc::collections::BTreeMap;

use bytes::Bytes;
use zk_proto::{
    CheckVersionRequest, CreateMode, CreateRequest, DeleteRequest, ErrorCode, MultiOp,
    MultiRequest, OpCode, Sequence, SessionId, SetDataRequest, path,
};

use super::acl;
use super::log::{Change, Create};
use super::tree::Tree;

/// Nodes that every server has and that cannot be deleted.
const RESERVED: [&str; 4] = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];

/// The tree as it will be after the changes prepared so far. The tree itself stays as it is, so a
/// multi is rolled back by dropping its draft.
pub(super) struct Draft<'t> {
    tree: &'t Tree,
    session: SessionId,
    /// What the changes made of the nodes they touch; `None` is deleted.
    touched: BTreeMap<String, Option<Facts>>,
}

/// What later checks need to know of a node.
#[derive(Clone, Copy, Default)]
struct Facts {
    version: i32,
    /// How many children were ever created.
    cversion: i32,
    children: i32,
    is_ephemeral: bool,
}

impl<'t> Draft<'t> {
    /// A draft of what `session` writes.
    pub(super) fn new(tree: &'t Tree, session: SessionId) -> Self {
        Self { tree, session, touched: BTreeMap::new() }
    }

    /// Checks one write.
    pub(super) fn prepare(&mut self, op: MultiOp<'_>) -> Result<Change, ErrorCode> {
        match op {
            MultiOp::Create(request) => self.create(OpCode::CREATE, &request),
            MultiOp::Create2(request) => self.create(OpCode::CREATE2, &request),
            MultiOp::CreateContainer(request) => self.create(OpCode::CREATE_CONTAINER, &request),
            MultiOp::Delete(request) => self.delete(&request),
            MultiOp::SetData(request) => self.set_data(&request),
            MultiOp::Check(request) => self.check(&request),
            _ => Err(ErrorCode::UNIMPLEMENTED),
        }
    }

    /// Checks the writes of a multi, all or none. On failure there is a code for each: nothing was
    /// wrong before the culprit, and nothing was tried after it.
    pub(super) fn prepare_all(
        &mut self,
        ops: &MultiRequest<'_>,
    ) -> Result<Vec<Change>, Vec<ErrorCode>> {
        let mut changes = Vec::new();
        for op in ops.iter() {
            match self.prepare(as_part_of_multi(op)) {
                Ok(change) => changes.push(change),
                Err(err) => {
                    let mut errs = vec![ErrorCode::OK; changes.len()];
                    errs.push(err);
                    errs.resize(ops.iter().count(), ErrorCode::RUNTIME_INCONSISTENCY);
                    return Err(errs);
                }
            }
        }
        Ok(changes)
    }

    fn create(&mut self, opcode: OpCode, request: &CreateRequest<'_>) -> Result<Change, ErrorCode> {
        let mode = request.mode;
        // Beyond these are only the modes with a time to live, which these operations lack.
        if !(CreateMode::PERSISTENT..=CreateMode::CONTAINER).contains(&mode) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let parent_path = parent_of(request.path)?;
        let acl = acl::accept(request.acl)?;
        let mut parent = self.facts(parent_path)?;
        let path = match mode.is_sequential() {
            true => format!("{}{}", request.path, Sequence(parent.cversion)),
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
        // A container is one whatever its mode says (`DataTree.processTxn`).
        let is_ephemeral = mode.is_ephemeral() && opcode != OpCode::CREATE_CONTAINER;
        self.touched.insert(parent_path.to_string(), Some(parent));
        self.touched.insert(path.clone(), Some(Facts { is_ephemeral, ..Facts::default() }));
        Ok(Change::Create(Create {
            opcode,
            path,
            data: request.data.map(Bytes::copy_from_slice),
            acl,
            owner: if is_ephemeral { self.session } else { SessionId::NONE },
            parent_cversion: parent.cversion,
        }))
    }

    fn delete(&mut self, request: &DeleteRequest<'_>) -> Result<Change, ErrorCode> {
        if RESERVED.contains(&request.path) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let parent_path = parent_of(request.path)?;
        let mut parent = self.facts(parent_path)?;
        let node = self.facts(request.path)?;
        node.expect_version(request.version)?;
        if node.children > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        parent.children -= 1;
        self.touched.insert(parent_path.to_string(), Some(parent));
        self.touched.insert(request.path.to_string(), None);
        Ok(Change::Delete { path: request.path.to_string() })
    }

    fn set_data(&mut self, request: &SetDataRequest<'_>) -> Result<Change, ErrorCode> {
        validate(request.path)?;
        let mut node = self.facts(request.path)?;
        node.expect_version(request.version)?;
        node.version = node.version.wrapping_add(1);
        self.touched.insert(request.path.to_string(), Some(node));
        Ok(Change::SetData {
            path: request.path.to_string(),
            data: request.data.map(Bytes::copy_from_slice),
        })
    }

    fn check(&self, request: &CheckVersionRequest<'_>) -> Result<Change, ErrorCode> {
        validate(request.path)?;
        self.facts(request.path)?.expect_version(request.version)?;
        Ok(Change::Check)
    }

    fn facts(&self, path: &str) -> Result<Facts, ErrorCode> {
        let facts = match self.touched.get(path) {
            Some(facts) => *facts,
            None => self.tree.get(path).map(|node| {
                let stat = node.stat();
                Facts {
                    version: stat.version,
                    cversion: node.next_sequence(),
                    children: stat.num_children,
                    is_ephemeral: stat.ephemeral_owner != SessionId::NONE,
                }
            }),
        };
        facts.ok_or(ErrorCode::NO_NODE)
    }
}

impl Facts {
    fn expect_version(&self, version: i32) -> Result<(), ErrorCode> {
        match version == -1 || version == self.version {
            true => Ok(()),
            false => Err(ErrorCode::BAD_VERSION),
        }
    }
}

/// Inside a multi the mode makes a container, outside it is the operation
/// (`MultiOperationRecord.java`).
fn as_part_of_multi(op: MultiOp<'_>) -> MultiOp<'_> {
    match op {
        MultiOp::Create(request) | MultiOp::Create2(request)
            if request.mode == CreateMode::CONTAINER =>
        {
            MultiOp::CreateContainer(request)
        }
        _ => op,
    }
}

fn validate(path: &str) -> Result<(), ErrorCode> {
    path::validate(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)
}

/// The path before the last slash. Everything else about the path is checked only later, when it
/// is known that the parent exists.
fn parent_of(path: &str) -> Result<&str, ErrorCode> {
    match path.rsplit_once('/') {
        Some(_) if path.contains('\0') => Err(ErrorCode::BAD_ARGUMENTS),
        Some(("", _)) => Ok("/"),
        Some((parent, _)) => Ok(parent),
        None => Err(ErrorCode::BAD_ARGUMENTS),
    }
}
