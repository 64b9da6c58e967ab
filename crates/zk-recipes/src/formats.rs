//! `defmt::Format` for the types that need no code of their own.

zk_session::proto::formatted_by_debug! {
    [] crate::machine::AccessList;
    [] crate::machine::AttemptConfig;
    [] crate::machine::BarrierWait;
    [] crate::machine::CacheConfig;
    [] crate::machine::CacheEvent;
    [] crate::machine::CacheMachine;
    [] crate::machine::CacheOutput;
    [] crate::machine::CacheRequest;
    [] crate::machine::CacheState;
    [] crate::machine::CacheTree;
    [] crate::machine::CachedNode;
    [] crate::machine::Contender;
    [] crate::machine::ElectionMachine;
    [] crate::machine::EphemeralMachine;
    [] crate::machine::FastPathHint;
    [] crate::machine::Input;
    [] crate::machine::Name<'_>;
    [M: core::fmt::Debug, O: core::fmt::Debug] crate::machine::OnSession<M, O>;
    [] crate::machine::QueuedNode<'_>;
    [] crate::machine::Renewal;
    [M: core::fmt::Debug] crate::machine::Requeuing<M>;
    [] crate::machine::Turn<'_>;
    [] crate::machine::UnknownNodePolicy;
    [] crate::machine::Watches;
    [] crate::machine::multi_lock::Input;
    [] crate::machine::multi_lock::LockSpec;
    [] crate::machine::multi_lock::Mode;
    [] crate::machine::multi_lock::MultiAcquire;
    [] crate::machine::multi_lock::Output;
}

zk_session::proto::formatted_by_debug! {
    [C: core::fmt::Debug] crate::machine::HintingContender<C>;
}

#[cfg(feature = "full")]
zk_session::proto::formatted_by_debug! {
    [] crate::machine::Participant;
    [] crate::machine::PermitRequest;
    [] crate::machine::SemaphoreMachine;
}

#[cfg(feature = "study")]
zk_session::proto::formatted_by_debug! {
    [] crate::machine::SimpleContender;
}
