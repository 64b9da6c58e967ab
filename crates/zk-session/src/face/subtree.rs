//! More than one node at a time. None of this is atomic.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use zk_proto::{Acl, CreateMode, ErrorCode, ExistsRequest, Request, Stat, path};

use super::{Face, answers, operations, server_path, server_path_to_create};
use crate::error::{Error, Invalid};

/// How many nodes to delete before waiting for what became of them.
const AT_ONCE: usize = 1000;

/// What nodes are made like.
#[derive(Clone, Copy)]
pub(crate) struct Like<'a> {
    pub(crate) mode: CreateMode,
    pub(crate) acl: &'a [Acl<'a>],
}

impl Like<'_> {
    pub(crate) const PERSISTENT: Self = Self { mode: CreateMode::PERSISTENT, acl: &[Acl::OPEN] };
}

/// Creates a node, and before it whichever of its ancestors is missing.
pub(crate) async fn create_all<F: Face>(
    face: &F,
    path: &str,
    data: &[u8],
    node: Like<'_>,
    parents: Like<'_>,
) -> Result<(String, Stat), Error> {
    let at = server_path_to_create(face.chroot(), path, node.mode.is_sequential())?;
    loop {
        let creation = || operations::create(face, path, data, node.mode, node.acl);
        match F::wait(in_turn(face, creation).await?).await {
            Err(Error::Server(ErrorCode::NO_NODE)) => {}
            created => return created,
        }
        let Some(parent) = parent(&at) else {
            return Err(Error::Server(ErrorCode::NO_NODE));
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
) -> Result<(), Error> {
    ensure(face, &server_path(face.chroot(), path)?, missing).await
}

/// The same by the server's path, so that what callers take for the root is made, too.
async fn ensure<F: Face>(face: &F, path: &str, missing: Like<'_>) -> Result<(), Error> {
    let mut creations = Vec::new();
    for node in from_the_root(path) {
        let request = operations::creation(node, b"", missing.mode, missing.acl);
        creations.push(in_turn(face, || face.send(&request, answers::nothing)).await?);
    }
    let mut result = Ok(());
    for created in creations {
        // The deepest one decides: what is above it may not be ours to create.
        result = F::wait(created).await;
    }
    match result {
        Err(Error::Server(ErrorCode::NODE_EXISTS)) => Ok(()),
        // Nor may the deepest be, and yet be there.
        Err(Error::Server(ErrorCode::NO_AUTH)) if exists(face, path).await? => Ok(()),
        result => result,
    }
}

async fn exists<F: Face>(face: &F, path: &str) -> Result<bool, Error> {
    let request = Request::Exists(ExistsRequest { path, watch: false });
    let stat = in_turn(face, || face.send(&request, answers::stat_if_exists)).await?;
    Ok(F::wait(stat).await?.is_some())
}

/// Deletes a node and all below it, from the bottom up, until none of it is left.
pub(crate) async fn delete_all<F: Face>(face: &F, path: &str) -> Result<(), Error> {
    let keep_root = server_path(face.chroot(), path)? == "/";
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
async fn children<F: Face>(face: &F, path: &str) -> Result<Vec<String>, Error> {
    match F::wait(in_turn(face, || operations::get_children(face, path)).await?).await {
        Ok((children, _)) => Ok(children),
        Err(Error::Server(ErrorCode::NO_NODE)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Deletes those nodes that have nothing below them, and yields the others.
async fn delete_leaves<F: Face>(face: &F, paths: &[String]) -> Result<Vec<String>, Error> {
    let mut others = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        let mut deletions = Vec::new();
        for path in some {
            deletions.push(in_turn(face, || operations::delete(face, path, None)).await?);
        }
        for (path, deleted) in some.iter().zip(deletions) {
            match F::wait(deleted).await {
                Ok(()) | Err(Error::Server(ErrorCode::NO_NODE)) => {}
                Err(Error::Server(ErrorCode::NOT_EMPTY)) => others.push(path.clone()),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(others)
}

/// Sends a request as soon as there is room for it.
async fn in_turn<F: Face, T>(
    face: &F,
    send: impl Fn() -> Result<F::Answer<T>, Error>,
) -> Result<F::Answer<T>, Error> {
    loop {
        match send() {
            Err(Error::Invalid(Invalid::QueueFull { .. })) => face.ready().await?,
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
