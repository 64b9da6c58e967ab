//! Bugs that can be injected into a simulated client.

/// A bug of a client that the simulator must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Sends requests again that were lost with their connection, although they may be applied.
    ResendsLostRequests,
    /// Sends zxid 0 in the handshake, so that a lagging server does not refuse the session.
    ForgetsLastZxid,
    /// Searches for the node of a lost create without a `sync` first.
    SearchesWithoutSync,
    /// Locks take a disconnect for the watch event that they wait for.
    TakesDisconnectForEvent,
    /// Receives watch events and delivers none.
    DropsEvents,
    /// Locks watch the parent node instead of their predecessor.
    WatchesParent,
    /// Locks ignore all other contenders in the list of children.
    IgnoresContenders,
    /// Does not report that persistent watches may have missed events. Caches do not read the tree
    /// again on a new connection.
    HidesGaps,
    /// Requests with a deadline wait for ever.
    IgnoresDeadlines,
    /// Reports a request whose deadline has passed as not applied, even if it was sent.
    TakesDeadlineForNotApplied,
    /// Accepts read-only servers without having been configured to.
    AlwaysAcceptsReadOnly,
    /// Locks do not renew watches that stay silent.
    NeverRenewsWatches,
    /// Stays on a read-only server when another one has a quorum.
    StaysReadOnly,
    /// Backs off between rounds of connection attempts, up to 5 s, whatever the session timeout.
    SleepsThroughOutages,
    /// Takes the renewal of a session for the resumption of the old one, and ignores the end of the
    /// lease, so that locks stay held.
    KeepsLocksAcrossSessions,
    /// Waiters do not learn of the session that follows theirs, so they never queue again.
    ForgetsWaiters,
    /// Gives a connection up if it answers nothing within half a second.
    GivesUpSlowConnections,
    /// Locks wait for a request that an access control list has refused.
    IgnoresRefusals,
    /// Locks ignore the deletion of their own node.
    IgnoresOwnDeletion,
    /// Locks ignore contenders whose names have the form of other implementations.
    IgnoresForeigners,
    /// Locks consider only the first hundred names of a list, and their own.
    ReadsShortLists,
    /// An attempt shares a list that was submitted before its creation.
    SharesEarlyLists,
    /// Mutexes take the order of a list for that of the queue: they ignore all names behind their own.
    ForgetsToSort,
    /// Has a clock that is slower than those of the servers by a fifth.
    RunsSlow,
    /// Claims that the authentication exchange has ended before it begins.
    SkipsAuthentication,
    /// Locks stay held when the lease has ended.
    IgnoresLeases,
    /// Sets its timers a second late.
    WakesLate,
    /// Locks take a disconnect for the end of the lease.
    TakesDisconnectForLeaseEnd,
    /// Locks take a disconnect for the deletion of their own node.
    TakesDisconnectForDeletion,
    /// Acquires several locks in any order.
    AcquiresInAnyOrder,
    /// Takes the first of several locks for all of them.
    HoldsOneForAll,
    /// Those that hold a lock, or are inside a double barrier, see nobody else there.
    IgnoresOthersInside,
    /// A reader that holds a lock sees one more reader in each list, which does not exist.
    SeesAnotherInside,
    /// A reader that upgrades does not see its own writer's node in a list.
    OverlooksOwnWriter,
    /// A reader that upgrades takes the reply to the creation of its node for a lost connection.
    TakesUpgradesForLost,
    /// Never reports that a conversion has failed.
    LosesRefusals,
    /// Does not check in a write that its lock still exists.
    WritesUnfenced,
    /// Sees everybody twice in a list.
    CountsTwice,
    /// Takes a closed barrier for an open one.
    IgnoresBarriers,
    /// Takes the textbook lock of another for its own.
    TakesLocksOfOthers,
    /// Names nodes by GUIDs that other sessions use as well.
    SharesGuids,
    /// Reports the end of a hold only when the servers have confirmed it.
    ReportsReleasesLate,
    /// Does not follow the configuration of the ensemble.
    IgnoresConfig,
    /// A task holds a lock although it is told to wait for another task of its client.
    HoldsWithoutTurn,
    /// Tasks pass a lock on among themselves that was lost.
    PassesOnLostLocks,
    /// Tasks delete the node of a lock that they pass on.
    ReleasesWhatIsPassedOn,
    /// Tasks that wait for another task of their client are not woken.
    ForgetsLocalWaiters,
    /// Tasks that keep a lock do not learn of contenders of other clients.
    KeepsFromOthers,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 48] = [
        Self::ResendsLostRequests,
        Self::ForgetsLastZxid,
        Self::SearchesWithoutSync,
        Self::TakesDisconnectForEvent,
        Self::DropsEvents,
        Self::WatchesParent,
        Self::IgnoresContenders,
        Self::HidesGaps,
        Self::IgnoresDeadlines,
        Self::TakesDeadlineForNotApplied,
        Self::AlwaysAcceptsReadOnly,
        Self::NeverRenewsWatches,
        Self::StaysReadOnly,
        Self::SleepsThroughOutages,
        Self::KeepsLocksAcrossSessions,
        Self::ForgetsWaiters,
        Self::GivesUpSlowConnections,
        Self::IgnoresRefusals,
        Self::IgnoresOwnDeletion,
        Self::IgnoresForeigners,
        Self::ReadsShortLists,
        Self::SharesEarlyLists,
        Self::ForgetsToSort,
        Self::RunsSlow,
        Self::SkipsAuthentication,
        Self::IgnoresLeases,
        Self::WakesLate,
        Self::TakesDisconnectForLeaseEnd,
        Self::TakesDisconnectForDeletion,
        Self::AcquiresInAnyOrder,
        Self::HoldsOneForAll,
        Self::IgnoresOthersInside,
        Self::SeesAnotherInside,
        Self::OverlooksOwnWriter,
        Self::TakesUpgradesForLost,
        Self::LosesRefusals,
        Self::WritesUnfenced,
        Self::CountsTwice,
        Self::IgnoresBarriers,
        Self::TakesLocksOfOthers,
        Self::SharesGuids,
        Self::ReportsReleasesLate,
        Self::IgnoresConfig,
        Self::HoldsWithoutTurn,
        Self::PassesOnLostLocks,
        Self::ReleasesWhatIsPassedOn,
        Self::ForgetsLocalWaiters,
        Self::KeepsFromOthers,
    ];
}
