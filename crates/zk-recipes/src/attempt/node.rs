//! A node that an attempt has created.

use core::fmt;
use core::ops::Deref;

use zk_session::proto::{Zxid, path};
use zk_session::sync::Arc;

/// A lock node of this contender.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) czxid: Zxid,
    /// Whether its deletion was noticed while our own transaction may have been the cause.
    pub(crate) is_gone: bool,
}

impl Node {
    pub(crate) fn new(path: impl Into<Arc<str>>, czxid: Zxid) -> Self {
        Self { name: NodeName::of(path.into()), czxid, is_gone: false }
    }

    pub(crate) fn path(&self) -> &Arc<str> {
        &self.name.path
    }
}

/// The name of a node that an attempt has created. All clones share its memory.
#[derive(Clone)]
pub struct NodeName {
    path: Arc<str>,
    /// The offset of the name in the path. The name is read often.
    start: usize,
}

impl NodeName {
    /// Returns the name of the node at this path.
    fn of(path: Arc<str>) -> Self {
        Self { start: path.len() - path::name(&path).len(), path }
    }
}

impl Deref for NodeName {
    type Target = str;

    fn deref(&self) -> &str {
        self.path.get(self.start..).unwrap_or_default()
    }
}

impl From<&str> for NodeName {
    fn from(name: &str) -> Self {
        Self::of(name.into())
    }
}

impl PartialEq for NodeName {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for NodeName {}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

zk_session::proto::formatted_by_debug! {
    [] NodeName;
}
