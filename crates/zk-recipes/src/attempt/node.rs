//! A node that an attempt has created.

use zk_session::proto::{Zxid, path};
use zk_session::sync::Arc;

/// A lock node of this contender.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) path: Arc<str>,
    /// The offset of the name in the path. The name is read often.
    name: usize,
    pub(crate) czxid: Zxid,
    /// Whether its deletion was noticed while our own transaction may have been the cause.
    pub(crate) is_gone: bool,
}

impl Node {
    pub(crate) fn new(path: impl Into<Arc<str>>, czxid: Zxid) -> Self {
        let path = path.into();
        Self { name: path.len() - path::name(&path).len(), path, czxid, is_gone: false }
    }

    pub(crate) fn name(&self) -> &str {
        self.path.get(self.name..).unwrap_or_default()
    }
}
