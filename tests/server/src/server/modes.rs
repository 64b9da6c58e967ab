//! How a connection watches a path.

use zk_proto::EventType;

/// One way to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Once.
    Standard = 1,
    /// Until it is removed.
    Persistent = 2,
    /// Until it is removed, and everything below too.
    Recursive = 4,
}

/// A set of modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modes(u8);

impl From<Mode> for Modes {
    fn from(mode: Mode) -> Self {
        Self(mode as u8)
    }
}

impl Modes {
    pub(super) fn contains(self, mode: Mode) -> bool {
        self.0 & mode as u8 != 0
    }

    pub(super) fn insert(&mut self, mode: Mode) {
        self.0 |= mode as u8;
    }

    pub(super) fn remove(&mut self, mode: Mode) {
        self.0 &= !(mode as u8);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the number of recursive modes: 0 or 1.
    pub(super) fn recursive(self) -> usize {
        usize::from(self.contains(Mode::Recursive))
    }

    /// Returns whether one of the modes reports an event on the path itself. A recursive watch
    /// reports what happens to children, not changes of the list of children.
    pub(super) fn report(self, kind: EventType) -> bool {
        self.contains(Mode::Standard)
            || self.contains(Mode::Persistent)
            || (self.contains(Mode::Recursive) && kind != EventType::NODE_CHILDREN_CHANGED)
    }
}
