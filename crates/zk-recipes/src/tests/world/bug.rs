//! Injected bugs, which the explorer must find.

/// A bug of the servers, the session or the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A server answers a sync at once, as if the machine had not sent one.
    NoSync,
    /// The same, only in the search for the reader of a downgrade.
    NoSyncForReader,
    /// A sync that was lost counts as answered.
    LostSyncTrusted,
    /// The watch on the machine's own node is confirmed, but never set.
    NoWatchOnOwnNode,
    /// A waiter does not notice a reconnect.
    ReconnectUnnoticed,
    /// Every node that is found seems to belong to the session that looks.
    OwnerUnchecked,
    /// A node that is searched for cannot be identified by its name, nor by its data.
    NamesWithoutGuid,
    /// A watch on a missing node is confirmed, as `exists` does it.
    ExistsForWatch,
    /// Readers also wait for writers behind them.
    ReadersWatchHigherWriters,
    /// A downgrade puts the reader's node at the end of the queue.
    DowngradeToTheEnd,
    /// All waiters watch the holder.
    Herd,
    /// The reader of a list in pieces drops another contender's name where the first cut splits it.
    SplitNameDropped,
    /// The reader of a list in pieces keeps those of a list that was lost.
    LostPiecesKept,
    /// The permits of others are counted before the contender creates its own.
    CountedBeforeCreated,
    /// Only one permit node is watched: the one this many before ours.
    OnePermitWatched(usize),
    /// A watch on data is confirmed, but never set.
    DataUnwatched,
    /// The announcement of a double barrier does not depend on who is still there.
    AnnouncesUnchecked,
    /// The last participant of a double barrier deletes `ready` even if it has been changed since.
    RetractsAnyVersion,
    /// The session sends a deletion again that was lost with its connection.
    ResendsDeletions,
}
