//! Methods that send several requests, one after the other.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use zk_proto::{Acl, ErrorCode, ExistsRequest, NodeKind, OpCode, Request, Stat, path};

use super::methods::methods;
use super::{Children as _, Nodes as _, RawClient, decode, stripped};
use crate::error::{Error, RequestError};

/// How many deletions are sent before their answers are awaited.
const DELETE_BATCH: usize = 1000;

methods! {
    /// # Several nodes
    ///
    /// These methods send one request after the other. None is atomic: after an error, or when a
    /// future is dropped, some of the nodes may have been created or deleted. The futures of the
    /// async client start when they are first polled.
    impl Client {
        /// Creates a node and its missing ancestors, including the [`chroot`](Self::chroot). The
        /// ancestors are persistent nodes without data. All have the ACL "world:anyone". Waits
        /// while the client's queue is full. Returns what [`create`](Self::create) returns.
        ///
        /// # Errors
        ///
        /// Those of [`create`](Self::create). Created ancestors stay.
        wait fn create_all(
            &self,
            path: &str,
            data: &[u8],
            kind: NodeKind,
        ) -> Result<(String, Stat), RequestError> {
            let node = NodeTemplate { kind, ..NodeTemplate::PERSISTENT };
            create_all(self, path, data, node, NodeTemplate::PERSISTENT).await
        }

        /// Creates a node and its missing ancestors like [`create_all`](Self::create_all), with an
        /// access control list for all of them. `ancestors` is the kind of the ancestors:
        /// [`Persistent`](NodeKind::Persistent), or [`Container`](NodeKind::Container), which the
        /// server deletes some time after its last child.
        ///
        /// # Errors
        ///
        /// Those of [`create_with_acl`](Self::create_with_acl). Created ancestors stay.
        wait fn create_all_with(
            &self,
            path: &str,
            data: &[u8],
            kind: NodeKind,
            acl: &[Acl<'_>],
            ancestors: NodeKind,
        ) -> Result<(String, Stat), RequestError> {
            let ancestors = NodeTemplate { kind: ancestors, acl };
            create_all(self, path, data, NodeTemplate { kind, acl }, ancestors).await
        }

        /// Creates a node and its ancestors, including the [`chroot`](Self::chroot), unless they
        /// exist: as persistent nodes without data, with the ACL "world:anyone". Sends all requests
        /// at once, as far as the client's queue has room.
        ///
        /// # Errors
        ///
        /// Those of [`create`](Self::create), but for nodes that exist.
        wait fn ensure_path(&self, path: &str) -> Result<(), RequestError> {
            ensure_path(self, path, NodeTemplate::PERSISTENT).await
        }

        /// Creates a node and its ancestors like [`ensure_path`](Self::ensure_path), of this kind
        /// and with this access control list. See [`create_all_with`](Self::create_all_with) for
        /// the kinds.
        ///
        /// # Errors
        ///
        /// Those of [`create_with_acl`](Self::create_with_acl), but for nodes that exist.
        wait fn ensure_path_with(
            &self,
            path: &str,
            kind: NodeKind,
            acl: &[Acl<'_>],
        ) -> Result<(), RequestError> {
            ensure_path(self, path, NodeTemplate { kind, acl }).await
        }

        /// Deletes a node and all nodes below it, from the bottom up, until none is left, while other
        /// clients may create and delete nodes there. Succeeds if the node does not exist. The root
        /// and `/zookeeper` stay. Waits while the client's queue is full.
        ///
        /// # Errors
        ///
        /// Those of [`delete`](Self::delete). Nodes that were deleted stay deleted; none of them has
        /// left a child behind.
        wait fn delete_all(&self, path: &str) -> Result<(), RequestError> {
            delete_all(self, path).await
        }
    }
}

/// The properties of nodes to create.
#[derive(Clone, Copy)]
pub(super) struct NodeTemplate<'a> {
    pub(super) kind: NodeKind,
    pub(super) acl: &'a [Acl<'a>],
}

impl NodeTemplate<'_> {
    const PERSISTENT: Self = Self { kind: NodeKind::Persistent, acl: &[Acl::OPEN] };
}

async fn create_all<C: RawClient>(
    client: &C,
    path: &str,
    data: &[u8],
    node: NodeTemplate<'_>,
    ancestors: NodeTemplate<'_>,
) -> Result<(String, Stat), RequestError> {
    let at = client.server_path_to_create(node.kind, path)?;
    let request = node.kind.create(&at, Some(data), node.acl.into());
    loop {
        match in_turn(client, || client.send(&request, decode::created)).await?.await {
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
            created => return created.map_err(|error| error.at(path)),
        }
        let Some(parent) = parent(&at) else {
            let reason = Error::Server(ErrorCode::NO_NODE);
            return Err(RequestError::new(node.kind.opcode(), Some(path), reason));
        };
        // If another client deletes it meanwhile, it is created again.
        ensure(client, parent, ancestors).await?;
    }
}

pub(super) async fn ensure_path<C: RawClient>(
    client: &C,
    path: &str,
    missing: NodeTemplate<'_>,
) -> Result<(), RequestError> {
    ensure(client, &client.server_path(missing.kind.opcode(), path)?, missing).await
}

/// Ensures a server's path, so that the chroot is created, too.
async fn ensure<C: RawClient>(
    client: &C,
    path: &str,
    missing: NodeTemplate<'_>,
) -> Result<(), RequestError> {
    let mut creations = Vec::new();
    for node in from_the_root(path) {
        let request = missing.kind.create(node, Some(b""), missing.acl.into());
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
        _ => Err(error.at(stripped(client.chroot(), path))),
    }
}

async fn exists<C: RawClient>(client: &C, path: &str) -> Result<bool, RequestError> {
    let request = Request::Exists(ExistsRequest { path, watch: false });
    let stat = in_turn(client, || client.send(&request, decode::stat_if_exists)).await?.await;
    Ok(stat.map_err(|error| error.at(stripped(client.chroot(), path)))?.is_some())
}

async fn delete_all<C: RawClient>(client: &C, path: &str) -> Result<(), RequestError> {
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
async fn children<C: RawClient>(client: &C, path: &str) -> Result<Vec<String>, RequestError> {
    match in_turn(client, || client.get_children(path)).await?.await {
        Ok((children, _)) => Ok(children),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(Vec::new()),
        Err(error) => Err(error.at(path)),
    }
}

/// Deletes those nodes that have no children, and returns the others.
async fn delete_leaves<C: RawClient>(
    client: &C,
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
                _ => return Err(error.at(path)),
            }
        }
    }
    Ok(others)
}

/// Sends a request as soon as the client's queue has room for it.
async fn in_turn<C: RawClient, T>(
    client: &C,
    send: impl Fn() -> Result<C::Answer<T>, RequestError>,
) -> Result<C::Answer<T>, RequestError> {
    // A request that is refused again, since another caller was faster, keeps its place.
    let mut waiter = None;
    loop {
        match send() {
            Err(error) if error.reason.is_full() => {
                let RequestError { operation, path, .. } = error;
                let ended = |reason| RequestError { operation, path, reason };
                let waiter = waiter.get_or_insert_with(|| client.room_waiter());
                client.wait_for_room(waiter).await.map_err(ended)?;
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
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn ancestors_come_before_their_descendants() {
        for (path, all) in [("/", &[][..]), ("/a", &["/a"]), ("/a/b/c", &["/a", "/a/b", "/a/b/c"])]
        {
            assert_eq!(from_the_root(path).collect::<Vec<_>>(), all);
        }
        for (path, above) in
            [("/a/b", Some("/a")), ("/a/", Some("/a")), ("/a", None), ("/", None), ("a", None)]
        {
            assert_eq!(parent(path), above);
        }
    }
}
