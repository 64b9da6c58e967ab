//! Without the feature `full`, each attempt has a node of its own, and none of these values exists.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::convert::Infallible;
use core::task::{Context, Poll};
use std::time::Instant;

use super::deadlocks::Mark;
use super::held_lock::SpecialHolder;
use super::report::HeldNode;
use super::session_client::TimeLimit;
use super::status::SharedStatus;
use crate::attempt::{LockMode, WaitPolicy};
use crate::error::{LockError, RecipeError};

#[derive(Clone, Debug, Default)]
pub(crate) struct LocalOptions;

impl LocalOptions {
    pub(crate) const fn start(&self, _: fn() -> Instant) -> Option<Arc<LocalLock>> {
        None
    }

    pub(crate) fn mark(
        &self,
        _: Option<&Arc<str>>,
        _: impl FnOnce() -> Arc<str>,
        _: LockMode,
    ) -> Option<Mark> {
        None
    }
}

pub(crate) struct LocalLock(Infallible);

impl LocalLock {
    pub(crate) fn enter(
        self: Arc<Self>,
        _: LockMode,
        _: WaitPolicy,
        _: Option<Mark>,
    ) -> Result<Box<LocalAttempt>, LockError> {
        match self.0 {}
    }

    pub(crate) const fn held(&self) -> Option<(String, usize)> {
        match self.0 {}
    }

    pub(crate) const fn waiting(&self) -> usize {
        match self.0 {}
    }
}

pub(crate) struct LocalAttempt(Infallible);

impl LocalAttempt {
    pub(crate) const fn status(&self) -> Option<Arc<SharedStatus>> {
        match self.0 {}
    }

    pub(crate) fn poll_turn(&mut self, _: &mut Context<'_>) -> Poll<()> {
        match self.0 {}
    }

    pub(crate) fn poll_held<E>(
        &mut self,
        _: &E,
        _: &mut TimeLimit,
        _: &mut Context<'_>,
    ) -> Poll<Result<(HeldNode, Box<SpecialHolder>), RecipeError>> {
        match self.0 {}
    }
}
