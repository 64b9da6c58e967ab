//! The observers of an attempt: its log and metrics, with the features `tracing` and `metrics`.
//! They receive the machine's events, as its owner does.
//!
//! They run user code after the session is unlocked, in the order of the events.

#[cfg_attr(not(feature = "tracing"), path = "observed/no_log.rs")]
mod log;
#[cfg_attr(not(feature = "metrics"), path = "observed/no_meter.rs")]
mod meter;

use alloc::boxed::Box;
use alloc::vec::Vec;

pub(crate) use self::meter::register;
use crate::attempt::Observer;

type AnyObserver = Box<dyn Observer + Send>;

pub(crate) type Observers = Vec<AnyObserver>;

/// Begins to observe an attempt. Runs user code.
pub(crate) fn observers(recipe: &'static str, path: &str) -> Observers {
    [log::observer(recipe, path), meter::observer(recipe)].into_iter().flatten().collect()
}
