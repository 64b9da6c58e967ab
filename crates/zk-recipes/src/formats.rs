//! `defmt::Format` for what recipes share, and for locks. Each other recipe has its own line.

zk_session::proto::formatted_by_debug! {
    [] crate::machine::AccessList;
    [] crate::machine::AttemptConfig;
    [] crate::machine::Contender;
    [] crate::machine::FastPathHint;
    [] crate::machine::Name<'_>;
    [M: core::fmt::Debug, O: core::fmt::Debug] crate::machine::OnSession<M, O>;
    [] crate::machine::QueuedNode<'_>;
    [] crate::machine::Renewal;
    [M: core::fmt::Debug] crate::machine::Requeuing<M>;
    [] crate::machine::Turn<'_>;
    [] crate::machine::UnknownNodePolicy;
    [] crate::machine::Watches;
}
