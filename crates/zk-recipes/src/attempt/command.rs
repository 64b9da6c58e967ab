//! The commands from the owner of a machine.

#[cfg(feature = "full")]
use super::name::LockMode;

/// A command from the owner of a machine. For an attached one it is the
/// [message](zk_session::dispatch::Attached::command).
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Changes the mode of the held lock.
    ///
    /// [`Event::Converted`](super::Event::Converted) or
    /// [`Event::NotConverted`](super::Event::NotConverted) answers. Give no second one before that.
    #[cfg(feature = "full")]
    Convert(LockMode),
    /// Leaves when the recipe allows it. A [`Participant`](crate::machine::Participant) waits for the
    /// others; any other machine acts as for `Release`.
    Leave,
    /// Releases the lock, or stops waiting for it.
    Release,
    /// Fails if the attempt still waits for the node that
    /// [`Event::Waiting`](super::Event::Waiting) named: this client has
    /// [abandoned](super::Event::Abandoned) that node, so waiting for it is useless.
    BehindAbandoned,
    /// Reports the end of the lease to the machine, if the lease has ended. Every other command
    /// does that as well.
    CheckLease,
}
