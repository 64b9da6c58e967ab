//! Methods that send several requests, one after the other.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use zk_proto::{
    Acl, Decode as _, Encode as _, ErrorCode, List, NodeKind, OpCode, Reader, Request, Stat, path,
};

use super::driver::Driver;
use super::read::Read;
use super::{Answer, Client, decode};
use crate::error::{Error, RequestError};

/// How many deletions are sent before their answers are awaited.
const DELETE_BATCH: usize = 1000;

/// # Several nodes
///
/// These methods send one request after the other: the first ones at the call, and the others while
/// the answer is awaited. None is atomic: after an error, or when the answer is dropped, some of the
/// nodes may have been created or deleted.
impl<D: Driver> Client<D> {
    /// Creates a node and its missing ancestors, including the [`chroot`](Self::chroot). The
    /// ancestors are persistent nodes without data. All have the ACL "world:anyone". Waits
    /// while the client's queue is full. Returns what [`create`](Self::create) returns.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create). Created ancestors stay.
    pub fn create_all(&self, path: &str, data: &[u8], kind: NodeKind) -> Answer<(String, Stat), D> {
        self.create_all_with(path, data, kind, &[Acl::OPEN], NodeKind::Persistent)
    }

    /// Creates a node and its missing ancestors like [`create_all`](Self::create_all), with an
    /// access control list for all of them. `ancestors` is the kind of the ancestors:
    /// [`Persistent`](NodeKind::Persistent), or [`Container`](NodeKind::Container), which the
    /// server deletes some time after its last child.
    ///
    /// # Errors
    ///
    /// Those of [`create_with_acl`](Self::create_with_acl). Created ancestors stay.
    pub fn create_all_with(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
        acl: &[Acl<'_>],
        ancestors: NodeKind,
    ) -> Answer<(String, Stat), D> {
        let (path, data) = (path.to_string(), data.to_vec());
        let (node, ancestors) = (NodeTemplate::new(kind, acl), NodeTemplate::new(ancestors, acl));
        self.several(async move |client| create_all(&client, &path, &data, node, ancestors).await)
    }

    /// Creates a node and its ancestors, including the [`chroot`](Self::chroot), unless they
    /// exist: as persistent nodes without data, with the ACL "world:anyone". Sends all requests
    /// at once, as far as the client's queue has room.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create), but for nodes that exist.
    pub fn ensure_path(&self, path: &str) -> Answer<(), D> {
        self.ensure_path_with(path, NodeKind::Persistent, &[Acl::OPEN])
    }

    /// Creates a node and its ancestors like [`ensure_path`](Self::ensure_path), of this kind
    /// and with this access control list. See [`create_all_with`](Self::create_all_with) for
    /// the kinds.
    ///
    /// # Errors
    ///
    /// Those of [`create_with_acl`](Self::create_with_acl), but for nodes that exist.
    pub fn ensure_path_with(&self, path: &str, kind: NodeKind, acl: &[Acl<'_>]) -> Answer<(), D> {
        let (path, missing) = (path.to_string(), NodeTemplate::new(kind, acl));
        self.several(async move |client| ensure_path(&client, &path, &missing).await)
    }

    /// Deletes a node and all nodes below it, from the bottom up, until none is left, while other
    /// clients may create and delete nodes there. Succeeds if the node does not exist. The root
    /// and `/zookeeper` stay. Waits while the client's queue is full.
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Self::delete). Nodes that were deleted stay deleted; none of them has
    /// left a child behind.
    pub fn delete_all(&self, path: &str) -> Answer<(), D> {
        let path = path.to_string();
        self.several(async move |client| delete_all(&client, &path).await)
    }

    fn several<T, S>(&self, steps: impl FnOnce(Self) -> S) -> Answer<T, D>
    where
        T: Send + 'static,
        S: Future<Output = Result<T, RequestError>> + Send + 'static,
    {
        Answer::of_several(self.driver().clone(), steps(self.clone()))
    }
}

/// The properties of nodes to create.
struct NodeTemplate {
    kind: NodeKind,
    /// The access control list, encoded.
    acl: Vec<u8>,
}

impl NodeTemplate {
    fn new(kind: NodeKind, acl: &[Acl<'_>]) -> Self {
        let mut encoded = Vec::new();
        List::new(acl).encode(&mut encoded);
        Self { kind, acl: encoded }
    }

    /// Returns the request that creates such a node, if it is missing. Nobody needs its stat, so a
    /// plain `create` is enough, which early ClickHouse Keepers have, too.
    fn ensure<'a>(&'a self, path: &'a str) -> Request<'a> {
        match self.create(path, b"") {
            Request::Create2(create) => Request::Create(create),
            other => other,
        }
    }

    /// Returns the request that creates such a node.
    fn create<'a>(&'a self, path: &'a str, data: &'a [u8]) -> Request<'a> {
        // Written by `new`, so it can be read.
        let acl = List::decode(&mut Reader::new(&self.acl)).unwrap_or_default();
        self.kind.create(path, Some(data), acl)
    }
}

async fn create_all<D: Driver>(
    client: &Client<D>,
    path: &str,
    data: &[u8],
    node: NodeTemplate,
    ancestors: NodeTemplate,
) -> Result<(String, Stat), RequestError> {
    let at = client.server_path_to_create(node.kind, path)?;
    let request = node.create(&at, data);
    loop {
        match in_turn(client, || client.send(&request, decode::created)).await?.await {
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
            created => return created,
        }
        let Some(parent) = parent(&at) else {
            let reason = Error::Server(ErrorCode::NO_NODE);
            return Err(RequestError::new(node.kind.opcode(), Some(path), reason));
        };
        // If another client deletes it meanwhile, it is created again.
        ensure(client, parent, &ancestors).await?;
    }
}

async fn ensure_path<D: Driver>(
    client: &Client<D>,
    path: &str,
    missing: &NodeTemplate,
) -> Result<(), RequestError> {
    ensure(client, &client.server_path(missing.kind.opcode(), path)?, missing).await
}

/// Ensures a server's path, so that the chroot is created, too.
async fn ensure<D: Driver>(
    client: &Client<D>,
    path: &str,
    missing: &NodeTemplate,
) -> Result<(), RequestError> {
    let mut creations = Vec::new();
    for node in from_the_root(path) {
        let request = missing.ensure(node);
        creations.push(in_turn(client, || client.send(&request, decode::nothing)).await?);
    }
    let mut result = Ok(());
    for created in creations {
        // The result of the deepest one counts: the client may lack the permission to create those
        // above it.
        result = created.await;
    }
    let Err(error) = result else { return Ok(()) };
    match error.code() {
        Some(ErrorCode::NODE_EXISTS) => Ok(()),
        // The deepest one may exist, too.
        Some(ErrorCode::NO_AUTH) if exists(client, path).await? => Ok(()),
        _ => Err(error),
    }
}

async fn exists<D: Driver>(client: &Client<D>, path: &str) -> Result<bool, RequestError> {
    let exists = || client.read_at(Read::Exists, path, decode::stat_if_exists);
    Ok(in_turn(client, exists).await?.await?.is_some())
}

async fn delete_all<D: Driver>(client: &Client<D>, path: &str) -> Result<(), RequestError> {
    let keep_root = client.server_path(OpCode::DELETE, path)? == "/";
    // Each node is listed once before it is deleted, and again if another client was faster.
    let mut open = Vec::from([path.to_string()]);
    while let Some(node) = open.last() {
        let is_root = keep_root && open.len() == 1;
        let mut children = children(client, node).await?;
        children.retain(|name| !is_root || name != "zookeeper");
        let children: Vec<_> = children.iter().map(|name| path::child(node, name)).collect();
        // Leaves are deleted at once; the children of the others are listed first.
        let inner = delete_leaves(client, &children).await?;
        if !inner.is_empty() {
            open.extend(inner);
        } else if is_root {
            return Ok(());
        } else if delete_leaves(client, core::slice::from_ref(node)).await?.is_empty() {
            open.pop();
        }
    }
    Ok(())
}

/// Returns the names of a node's children, or none if the node does not exist.
async fn children<D: Driver>(client: &Client<D>, path: &str) -> Result<Vec<String>, RequestError> {
    match in_turn(client, || client.get_children(path)).await?.await {
        Ok((children, _)) => Ok(children),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Deletes those nodes that have no children, and returns the others.
async fn delete_leaves<D: Driver>(
    client: &Client<D>,
    paths: &[String],
) -> Result<Vec<String>, RequestError> {
    let mut others = Vec::new();
    for batch in paths.chunks(DELETE_BATCH) {
        let mut deletions = Vec::new();
        for path in batch {
            deletions.push(in_turn(client, || client.delete(path, None)).await?);
        }
        for (path, deleted) in batch.iter().zip(deletions) {
            let Err(error) = deleted.await else { continue };
            match error.code() {
                Some(ErrorCode::NO_NODE) => {}
                Some(ErrorCode::NOT_EMPTY) => others.push(path.clone()),
                _ => return Err(error),
            }
        }
    }
    Ok(others)
}

/// Sends a request as soon as the client's queue has room for it.
async fn in_turn<D: Driver, T>(
    client: &Client<D>,
    send: impl Fn() -> Answer<T, D>,
) -> Result<Answer<T, D>, RequestError> {
    // A request that is refused again, since another caller was faster, keeps its place.
    let mut ready = None;
    loop {
        match send().sent() {
            Err(error) if error.reason.is_full() => {
                let RequestError { operation, path, .. } = error;
                let ended = |reason| RequestError { operation, path, reason };
                ready.get_or_insert_with(|| client.ready()).await.map_err(ended)?;
            }
            sent => return sent,
        }
    }
}

/// Returns the parent of a node to create, unless that is the root.
fn parent(path: &str) -> Option<&str> {
    // The path of a sequential node may end in a slash.
    let (parent, _) = path.rsplit_once('/')?;
    (!parent.is_empty()).then_some(parent)
}

/// Yields a valid path's ancestors and itself, from the root down, but without the root.
fn from_the_root(path: &str) -> impl Iterator<Item = &str> {
    let slashes = path.match_indices('/').map(|(at, _)| at).skip(1);
    let ancestors = slashes.map(|end| path.get(..end).unwrap_or(path));
    ancestors.chain((path != "/").then_some(path))
}

#[cfg(test)]
mod tests;
