//! Descriptions of machines in a recording.

use core::fmt;
use core::ops::{Deref, DerefMut};

use super::{FieldReader, Fields, Malformed};

/// Describes what a machine was made with, so that a replay can make it again.
///
/// The fields are the name of the machine, its path, and then its own. Those of `zk-recipes`
/// follow. The seed is 0, or 1 and the seed of the renewals of watches. A machine inside another
/// has the prefix `requeuing ` or `election ` before its name.
///
/// | name | its own fields |
/// |---|---|
/// | `contender`, `herd`, `simple`, `ephemeral` | config, seed |
/// | `participant` | config, members, seed |
/// | `semaphore` | config, permits, maximum plus 1 or 0, whether it refuses other locks, seed |
/// | `barrier` | wait policy, seed |
/// | `idle watch` | name of the held node, nanoseconds to keep it, seed |
/// | `cache` | whether recursive, whether persistent, most nodes, bytes and requests |
/// | `lookout` | 0, or 1 and nanoseconds to wait; whether it minds the loss of the connection |
///
/// The config is: length of the chroot, scheme, mode, GUID, session, data as a message, access
/// control lists of the node and its parents, kind of parents, wait policy, disconnect policy,
/// policy for unknown nodes, whether revocable. An access control list is 0, or its length
/// plus 1, and for each entry permissions, scheme, and 0 or the length of the id plus 1.
/// Enumerations are numbers in the order of their variants.
#[derive(Debug)]
pub struct Description<'o> {
    fields: Fields<'o>,
    keeps_data: bool,
    prefix: &'static str,
    has_name: bool,
}

impl<'o> Description<'o> {
    /// Appends to these fields. Zeros stand for node data, unless it is kept.
    pub fn new(fields: &'o mut Fields<'_>, keeps_data: bool) -> Self {
        Self { fields: Fields(fields.0), keeps_data, prefix: "", has_name: false }
    }

    /// Sets the prefix of the name, for a machine inside another.
    pub fn inside(&mut self, prefix: &'static str) -> &mut Self {
        self.prefix = prefix;
        self
    }

    /// Begins a description, with the name and the path.
    pub fn machine(&mut self, name: &str, path: &str) {
        self.has_name = true;
        self.fields.number((self.prefix.len() + name.len()) as u64);
        self.fields.fields(self.prefix.as_bytes());
        self.fields.fields(name.as_bytes());
        self.fields.bytes(path.as_bytes());
    }

    /// Returns whether the description has begun.
    pub const fn has_name(&self) -> bool {
        self.has_name
    }

    /// Appends the data of a node.
    pub fn data(&mut self, data: &[u8]) {
        let is_left_out = !self.keeps_data && !data.is_empty();
        self.fields.message(data, is_left_out.then_some(0..data.len()).as_slice());
    }
}

impl<'o> Deref for Description<'o> {
    type Target = Fields<'o>;

    fn deref(&self) -> &Fields<'o> {
        &self.fields
    }
}

impl DerefMut for Description<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.fields
    }
}

/// A [`Description`] that was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Described<'r> {
    /// The name of the machine.
    pub name: &'r str,
    /// The path that it works at.
    pub path: &'r str,
    /// Its own fields.
    pub fields: FieldReader<'r>,
}

impl<'r> Described<'r> {
    /// Reads a description. Returns `None` if the machine has none.
    ///
    /// # Errors
    ///
    /// If it has no name or path.
    pub fn read(description: &'r [u8]) -> Result<Option<Self>, Malformed> {
        if description.is_empty() {
            return Ok(None);
        }
        let mut fields = FieldReader(description);
        Ok(Some(Self { name: fields.text()?, path: fields.text()?, fields }))
    }
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.path)
    }
}
