//! Access control lists that own their data.

use core::fmt;

use alloc::vec::Vec;
use zk_session::proto::{Acl, Decode, Encode, List, Reader};
use zk_session::sync::Arc;

/// An owned access control list, kept in its encoded form.
#[derive(Clone)]
pub struct AccessList(Option<(Arc<[u8]>, ReadList)>);

/// Decodes a list. Behind a pointer, so that the linker drops it where nobody makes a list.
type ReadList = for<'a> fn(&'a [u8]) -> List<'a, Acl<'a>>;

fn read(bytes: &[u8]) -> List<'_, Acl<'_>> {
    // Written by `AccessList::new`, so it can be read.
    List::decode(&mut Reader::new(bytes)).unwrap_or_default()
}

impl AccessList {
    /// The list that allows everything to everyone (`world:anyone`).
    pub const OPEN: Self = Self(None);

    /// Creates a list of these permissions.
    pub fn new(acl: &[Acl<'_>]) -> Self {
        let mut bytes = Vec::new();
        List::new(acl).encode(&mut bytes);
        Self(Some((bytes.into(), read)))
    }

    /// Returns the permissions.
    pub fn list(&self) -> List<'_, Acl<'_>> {
        const OPEN: &[Acl<'static>] = &[Acl::OPEN];
        match &self.0 {
            None => OPEN.into(),
            Some((bytes, read)) => read(bytes),
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.0.as_ref().map(|(bytes, _)| &**bytes)
    }
}

impl PartialEq for AccessList {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for AccessList {}

impl Default for AccessList {
    fn default() -> Self {
        Self::OPEN
    }
}

impl fmt::Debug for AccessList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list().fmt(f)
    }
}

#[cfg(test)]
mod tests;
