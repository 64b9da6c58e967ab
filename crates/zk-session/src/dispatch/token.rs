//! The tokens of requests: who receives a reply.

/// Identifies an attached machine. Keys are not reused after a machine is detached.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub(crate) place: u32,
    pub(crate) generation: u32,
}

/// Identifies a request and the receiver of its reply.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<T> {
    /// The dispatcher's owner receives the reply, as an
    /// [`Event::Reply`](crate::session::Event::Reply) of
    /// [`poll_event`](super::Dispatcher::poll_event) with this token.
    Caller(T),
    /// An attached machine receives the reply, with this tag. [`Port::submit`](super::Port::submit)
    /// makes these.
    Machine(Key, u64),
}

impl<T> Token<T> {
    /// Returns the token once more, for a piece of a reply to a machine.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Caller(_) => None,
            Self::Machine(key, tag) => Some(Self::Machine(*key, *tag)),
        }
    }
}
