//! What is broken on purpose, to see that it would be noticed.

/// A mistake of servers or of the session, or what comes to the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Flaw {
    /// A sync is answered without waiting, as if the list were not sent behind one.
    NoSync,
    /// The same, but only where a downgrade is looked for.
    NoSyncForReader,
    /// A sync that was lost passes for one that was answered.
    LostSyncTrusted,
    /// The watch on a node of one's own is never set, although it is confirmed.
    NoWatchOnOwnNode,
    /// A waiter does not learn that its connection was replaced.
    ReconnectUnnoticed,
    /// Whatever is found looks as if it belonged to the session that looks.
    OwnerUnchecked,
    /// Nothing in a name tells whose node it is, when it is looked for.
    NamesWithoutGuid,
    /// A watch on a node that is not there is confirmed, as `exists` does it.
    ExistsForWatch,
    /// Readers see all writers before them.
    ReadersWatchHigherWriters,
    /// The reader's node of a downgrade comes at the end of the queue.
    DowngradeToTheEnd,
    /// Everybody watches the holder.
    Herd,
    /// The permits of others are counted before our own are created, not behind.
    CountedBeforeCreated,
    /// Of all permits only the one so many before ours is watched.
    OnePermitWatched(usize),
    /// A watch on data is confirmed and never set.
    DataUnwatched,
}
