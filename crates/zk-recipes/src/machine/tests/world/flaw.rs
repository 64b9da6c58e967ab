//! What is broken on purpose, to see that it would be noticed.

use super::super::super::contender::Mistake;

/// A mistake that somebody has made, here or elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Flaw {
    /// A sync is answered without waiting, as if the list were not sent behind one.
    NoSync,
    /// The same, but only where a downgrade is looked for.
    NoSyncForReader,
    /// A sync that was lost passes for one that was answered.
    LostSyncTrusted,
    /// The watch on our own node is never set, although it is confirmed.
    NoWatchOnOwnNode,
    /// A waiter does not hear that its connection was replaced.
    ReconnectUnnoticed,
    /// Whatever is found looks as if it belonged to our session.
    OwnerUnchecked,
    /// Nothing in a name tells whose node it is, when it is looked for.
    NamesWithoutGuid,
    /// A watch on a node that is not there is confirmed, as `exists` does it.
    ExistsForWatch,
    /// Readers see all writers before them.
    ReadersWatchHigherWriters,
    /// The reader's node of a downgrade comes at the end of the queue.
    DowngradeToTheEnd,
    /// Numbers that are used up go unnoticed.
    EndOfNumbersUnnoticed,
    /// The second in line takes over without a list, even where there are readers.
    ShortcutAmongReaders,
    /// Who has had the lock last takes it again, whatever number it gets.
    PrecedentForAnyNumber,
    /// A number that is the next one counts, however long ago the one before was.
    PrecedentForEver,
    /// After a reader a writer looks for others as little as another reader.
    PrecedentOfReader,
    /// Everybody watches the holder.
    Herd,
}

impl Flaw {
    /// If it is one of the machine.
    pub(super) const fn mistake(self) -> Option<Mistake> {
        match self {
            Self::ShortcutAmongReaders => Some(Mistake::ShortcutAmongReaders),
            Self::PrecedentForAnyNumber => Some(Mistake::PrecedentForAnyNumber),
            Self::PrecedentForEver => Some(Mistake::PrecedentForEver),
            _ => None,
        }
    }
}
