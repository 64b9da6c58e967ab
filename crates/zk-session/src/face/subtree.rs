//! More than one node at a time. None of this is atomic.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use zk_proto::{Acl, ErrorCode, ExistsRequest, NodeKind, OpCode, Request, Stat, path};

use super::{Face, answers, operations, server_path, server_path_to_create, stripped};
use crate::error::{Error, RequestError};

/// How many nodes to delete before waiting for what became of them.
const AT_ONCE: usize = 1000;

/// What nodes are made like.
#[derive(Clone, Copy)]
pub(crate) struct Like<'a> {
    pub(crate) kind: NodeKind,
    pub(crate) acl: &'a [Acl<'a>],
}

impl Like<'_> {
    pub(crate) const PERSISTENT: Self = Self { kind: NodeKind::Persistent, acl: &[Acl::OPEN] };
}

/// Creates a node, and before it whichever of its ancestors is missing.
pub(crate) async fn create_all<F: Face>(
    face: &F,
    path: &str,
    data: &[u8],
    node: Like<'_>,
    parents: Like<'_>,
) -> Result<(String, Stat), RequestError> {
    let opcode = node.kind.opcode();
    let at = server_path_to_create(face.chroot(), opcode, path, node.kind.is_sequential())?;
    loop {
        let creation = || operations::create(face, path, data, node.kind, node.acl);
        match F::wait(in_turn(face, creation).await?).await {
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
            created => return created.map_err(|error| error.at(path)),
        }
        let Some(parent) = parent(&at) else {
            let reason = Error::Server(ErrorCode::NO_NODE);
            return Err(RequestError::new(opcode, Some(path), reason));
        };
        // Whoever deletes it meanwhile has it created again.
        ensure(face, parent, parents).await?;
    }
}

/// Sees to it that a node exists, and all of its ancestors.
pub(crate) async fn ensure_path<F: Face>(
    face: &F,
    path: &str,
    missing: Like<'_>,
) -> Result<(), RequestError> {
    ensure(face, &server_path(face.chroot(), missing.kind.opcode(), path)?, missing).await
}

/// The same by the server's path, so that what callers take for the root is made, too.
async fn ensure<F: Face>(face: &F, path: &str, missing: Like<'_>) -> Result<(), RequestError> {
    let mut creations = Vec::new();
    for node in from_the_root(path) {
        let request = missing.kind.create(node, Some(b""), missing.acl.into());
        creations.push(in_turn(face, || face.send(&request, answers::nothing)).await?);
    }
    let mut result = Ok(());
    for created in creations {
        // The deepest one decides: what is above it may not be ours to create.
        result = F::wait(created).await;
    }
    let Err(error) = result else { return Ok(()) };
    match error.code() {
        Some(ErrorCode::NODE_EXISTS) => Ok(()),
        // Nor may the deepest be, and yet be there.
        Some(ErrorCode::NO_AUTH) if exists(face, path).await? => Ok(()),
        _ => Err(error.at(stripped(face.chroot(), path))),
    }
}

async fn exists<F: Face>(face: &F, path: &str) -> Result<bool, RequestError> {
    let request = Request::Exists(ExistsRequest { path, watch: false });
    let stat = in_turn(face, || face.send(&request, answers::stat_if_exists)).await?;
    let stat = F::wait(stat).await.map_err(|error| error.at(stripped(face.chroot(), path)))?;
    Ok(stat.is_some())
}

/// Deletes a node and all below it, from the bottom up, until none of it is left.
pub(crate) async fn delete_all<F: Face>(face: &F, path: &str) -> Result<(), RequestError> {
    let keep_root = server_path(face.chroot(), OpCode::DELETE, path)? == "/";
    // Each node is listed once before it is deleted, and again if somebody was faster.
    let mut open = Vec::from([path.to_string()]);
    while let Some(node) = open.last() {
        let is_root = keep_root && open.len() == 1;
        let mut children = children(face, node).await?;
        children.retain(|name| !is_root || name != "zookeeper");
        let children: Vec<_> = children.iter().map(|name| path::child(node, name)).collect();
        // Leaves go at once; those with something below them are looked into.
        let inner = delete_leaves(face, &children).await?;
        if !inner.is_empty() {
            open.extend(inner);
        } else if is_root {
            return Ok(());
        } else if delete_leaves(face, core::slice::from_ref(node)).await?.is_empty() {
            open.pop();
        }
    }
    Ok(())
}

/// The names of a node's children; none if there is no such node.
async fn children<F: Face>(face: &F, path: &str) -> Result<Vec<String>, RequestError> {
    match F::wait(in_turn(face, || operations::get_children(face, path)).await?).await {
        Ok((children, _)) => Ok(children),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(Vec::new()),
        Err(error) => Err(error.at(path)),
    }
}

/// Deletes those nodes that have nothing below them, and yields the others.
async fn delete_leaves<F: Face>(face: &F, paths: &[String]) -> Result<Vec<String>, RequestError> {
    let mut others = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        let mut deletions = Vec::new();
        for path in some {
            deletions.push(in_turn(face, || operations::delete(face, path, None)).await?);
        }
        for (path, deleted) in some.iter().zip(deletions) {
            let Err(error) = F::wait(deleted).await else { continue };
            match error.code() {
                Some(ErrorCode::NO_NODE) => {}
                Some(ErrorCode::NOT_EMPTY) => others.push(path.clone()),
                _ => return Err(error.at(path)),
            }
        }
    }
    Ok(others)
}

/// Sends a request as soon as there is room for it.
async fn in_turn<F: Face, T>(
    face: &F,
    send: impl Fn() -> Result<F::Answer<T>, RequestError>,
) -> Result<F::Answer<T>, RequestError> {
    // A request that is refused again, since somebody was faster, keeps its place.
    let mut line = None;
    loop {
        match send() {
            Err(error) if error.reason.is_full() => {
                let RequestError { operation, path, .. } = error;
                let ended = |reason| RequestError { operation, path, reason };
                let line = line.get_or_insert_with(|| face.line());
                face.enter(line).await.map_err(ended)?;
            }
            sent => return sent,
        }
    }
}

/// Where a node belongs that is to be created, unless that is the root.
fn parent(path: &str) -> Option<&str> {
    // The path of a sequential node may end in a slash.
    let (parent, _) = path.rsplit_once('/')?;
    (!parent.is_empty()).then_some(parent)
}

/// A valid path's ancestors and itself, from the root down, but without the root.
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
