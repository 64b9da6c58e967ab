//! Without the feature `full`, each attempt has a node of its own, and none of these values exists.

use alloc::string::String;
use alloc::sync::Arc;
use core::convert::Infallible;
use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::AtomicBool;
use core::task::{Context, Poll};

use crate::client::guard::Guard;
use crate::client::queue::Entrance;
use crate::client::session_client::TimeLimit;
use crate::client::status::{Handle, OnLoss, SharedStatus};
use crate::error::RecipeError;
use crate::options::Options;

#[derive(Clone, Debug, Default)]
pub(crate) struct LocalOptions;

pub(crate) struct LocalLock<C>(Infallible, PhantomData<C>);

impl<C> LocalLock<C> {
    pub(crate) const fn of(options: &Options) -> Option<Arc<Self>> {
        let LocalOptions = options.local;
        None
    }

    pub(crate) const fn held(&self) -> Option<(String, usize)> {
        match self.0 {}
    }

    pub(crate) const fn waiting(&self) -> usize {
        match self.0 {}
    }
}

pub(crate) struct LocalAttempt<C>(Infallible, PhantomData<C>);

impl<C> LocalAttempt<C> {
    pub(crate) fn enter(_: Entrance<C>, local: Arc<LocalLock<C>>) -> Result<Self, RecipeError> {
        match local.0 {}
    }

    pub(crate) const fn status(&self) -> Option<Arc<SharedStatus>> {
        match self.0 {}
    }

    pub(crate) fn poll_turn(&mut self, _: &mut Context<'_>) -> Poll<()> {
        match self.0 {}
    }

    pub(crate) fn poll_held(
        &mut self,
        _: &mut TimeLimit,
        _: &mut Context<'_>,
    ) -> Poll<Result<Guard<C>, RecipeError>> {
        match self.0 {}
    }
}

pub(crate) struct LocalTurn<C>(Infallible, PhantomData<C>);

impl<C> LocalTurn<C> {
    pub(crate) const fn number(&self) -> u32 {
        match self.0 {}
    }

    pub(crate) const fn end(self) -> Option<Handle> {
        match self.0 {}
    }

    pub(crate) const fn signal(&self) -> Arc<AtomicBool> {
        match self.0 {}
    }

    pub(crate) const fn until_end(&self, _: OnLoss) -> OnLoss {
        match self.0 {}
    }
}

impl<C> Deref for LocalTurn<C> {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        match self.0 {}
    }
}
