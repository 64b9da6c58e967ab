//! No recorder, without a client.

#[path = "recorder.rs"]
mod recorder;

use zk_proto::recording::Fields;

pub(crate) use self::recorder::Recorder;
use crate::dispatch::Host;
use crate::dispatch::port::AnySession;
use crate::session::{Event, Session};

type Slot = core::convert::Infallible;

pub(crate) trait Recorded {}

impl<T> Recorded for Session<T> {}

impl dyn AnySession + '_ {
    #[inline]
    pub(crate) const fn recorder(&self) -> Recorder {
        Recorder::OFF
    }
}

impl Recorder {
    pub(crate) const OFF: Self = Self(None);

    #[inline]
    pub(crate) const fn event<T>(&self, _: Option<&Event<T>>) {}

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
}
