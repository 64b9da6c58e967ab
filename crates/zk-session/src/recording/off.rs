//! No recorder, without a client.

use core::any::Any;

use zk_proto::recording::{Fields, Kind};
use zk_proto::{Request, Xid, frame::FrameError};

use crate::dispatch::port::AnySession;
use crate::dispatch::{Attached, Host, Input, Key, Submission};
use crate::session::{Action, Event, Session};
use crate::time::Instant;

#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(());

pub(crate) trait Recorded {}

impl<T> Recorded for Session<T> {}

impl dyn AnySession + '_ {
    #[inline]
    pub(crate) const fn recorder(&self) -> Recorder {
        Recorder::OFF
    }
}

impl Recorder {
    pub(crate) const OFF: Self = Self(());

    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) const fn begin(&self, _: Kind, _: Instant, _: &[u64]) {}

    #[inline]
    pub(crate) const fn attached(&self, _: Instant, _: &dyn Attached) {}

    #[inline]
    pub(crate) const fn commanded(
        &self,
        _: Instant,
        _: Key,
        _: Option<&dyn Attached>,
        _: &mut dyn Any,
    ) {
    }

    #[inline]
    pub(crate) const fn end(&self) {}

    #[inline]
    pub(crate) const fn input(&self, _: Kind, _: Option<Instant>, _: &[u64]) {}

    #[inline]
    pub(crate) const fn output(&self, _: Kind, _: &[u64]) {}

    #[inline]
    pub(crate) const fn connected(&self, _: Instant) {}

    #[inline]
    pub(crate) const fn sent(&self, _: Instant, _: &[u8]) {}

    #[inline]
    pub(crate) const fn received(&self, _: Instant, _: &[u8]) {}

    #[inline]
    pub(crate) const fn rest(&self, _: Instant, _: &[u8]) {}

    #[inline]
    pub(crate) const fn bad_frame(&self, _: Instant, _: FrameError) {}

    #[inline]
    pub(crate) const fn update_servers(&self, _: Instant, _: &[Option<usize>], _: usize, _: bool) {}

    #[inline]
    pub(crate) const fn oversized(&self, _: Instant, _: &[u8], _: usize) {}

    #[inline]
    pub(crate) const fn addresses(&self, _: &[usize]) {}

    #[inline]
    pub(crate) const fn submitted(
        &self,
        _: &Request<'_>,
        _: Option<Instant>,
        _: bool,
        _: Option<Xid>,
    ) {
    }

    #[inline]
    pub(crate) const fn authenticate(&self, _: &Request<'_>) {}

    #[inline]
    pub(crate) const fn add_auth(&self, _: &str, _: &[u8]) {}

    #[inline]
    pub(crate) const fn action(&self, _: Option<&Action>) {}

    #[inline]
    pub(crate) const fn event<T>(&self, _: Option<&Event<T>>) {}

    #[inline]
    pub(crate) const fn called(&self, _: Key, _: Option<&Input>) {}

    #[inline]
    pub(crate) fn see<T, const N: usize>(
        _: &mut dyn Host,
        _: u64,
        seen: Option<T>,
        _: impl FnOnce(&T) -> [u64; N],
        _: impl FnOnce([u64; N]) -> Option<T>,
    ) -> Option<T> {
        seen
    }

    #[inline]
    pub(crate) const fn note(_: &mut dyn Host, _: &dyn Fn(&mut Fields<'_>)) {}

    #[inline]
    pub(crate) const fn sees(&self, _: u64, is_seen: bool, _: &mut [u64]) -> bool {
        is_seen
    }

    #[inline]
    pub(crate) const fn notes(&self, _: &dyn Fn(&mut Fields<'_>)) {}

    #[inline]
    pub(crate) const fn machine_submits(&self, _: u64, _: Submission) {}

    #[inline]
    pub(crate) const fn machine_sets_timer(&self, _: Option<Instant>) {}
}
