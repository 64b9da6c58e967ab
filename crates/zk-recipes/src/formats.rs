//! `defmt::Format` for the types that need no code of their own.

zk_session::proto::formatted_by_debug! {
    [] crate::attempt::AccessList;
    [] crate::attempt::AttemptConfig;
    [] crate::barrier::BarrierWait;
    [] crate::cache::CacheConfig;
    [] crate::cache::CacheEvent;
    [] crate::cache::CacheMachine;
    [] crate::cache::CacheOutput;
    [] crate::cache::CacheRequest;
    [] crate::cache::CacheState;
    [] crate::cache::CacheTree;
    [] crate::cache::CachedNode;
    [] crate::lock::Contender;
    [] crate::election::ElectionMachine;
    [] crate::ephemeral::EphemeralMachine;
    [] crate::lock::FastPathHint;
    [] crate::attempt::Input;
    [] crate::attempt::Name<'_>;
    [M: core::fmt::Debug, O: core::fmt::Debug] crate::attempt::OnSession<M, O>;
    [] crate::attempt::QueuedNode<'_>;
    [] crate::attempt::Renewal;
    [M: core::fmt::Debug] crate::attempt::Requeuing<M>;
    [] crate::attempt::Turn<'_>;
    [] crate::attempt::UnknownNodePolicy;
    [] crate::attempt::Watches;
    [] crate::multi_lock::Input;
    [] crate::multi_lock::LockSpec;
    [] crate::multi_lock::Mode;
    [] crate::multi_lock::MultiAcquire;
    [] crate::multi_lock::Output;
}

zk_session::proto::formatted_by_debug! {
    [C: core::fmt::Debug] crate::lock::HintingContender<C>;
}

#[cfg(feature = "full")]
zk_session::proto::formatted_by_debug! {
    [] crate::double_barrier::Participant;
    [] crate::semaphore::PermitRequest;
    [] crate::semaphore::SemaphoreMachine;
}

#[cfg(feature = "study")]
zk_session::proto::formatted_by_debug! {
    [] crate::textbook::simple::SimpleContender;
}
