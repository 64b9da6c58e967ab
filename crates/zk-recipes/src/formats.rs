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
    [] crate::machine::Name<'_>;
    [M: core::fmt::Debug, O: core::fmt::Debug] crate::machine::OnSession<M, O>;
    [] crate::machine::HerdContender;
    [] crate::machine::QueuedNode<'_>;
    [] crate::machine::Renewal;
    [] crate::machine::SimpleContender;
    [M: core::fmt::Debug] crate::machine::Requeuing<M>;
    [] crate::machine::Turn<'_>;
    [] crate::machine::UnknownNodePolicy;
    [] crate::machine::Watches;
    [] crate::multi_lock::Input;
    [] crate::multi_lock::LockSpec;
    [] crate::multi_lock::Mode;
    [] crate::multi_lock::MultiAcquire;
    [] crate::multi_lock::Output;
}

#[cfg(feature = "full")]
zk_session::proto::formatted_by_debug! {
    [] crate::machine::Participant;
    [] crate::machine::PermitRequest;
    [] crate::machine::SemaphoreMachine;
}
