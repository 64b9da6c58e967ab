//! The observers of an attempt: its log and metrics, with the features `tracing` and `metrics`.
//! They receive the machine's events, as its owner does.
//!
//! They run user code after the session is unlocked, in the order of the events.

#[cfg(feature = "tracing")]
mod log;
#[cfg(feature = "metrics")]
mod meter;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::attempt::Observer;

pub(crate) type Observers = Vec<Box<dyn Observer + Send>>;

/// Begins to observe an attempt. Runs user code.
#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(unused_variables))]
pub(crate) fn observers(recipe: &'static str, path: &str) -> Observers {
    Vec::from([
        #[cfg(feature = "tracing")]
        (Box::new(log::Log::new(recipe, path)) as _),
        #[cfg(feature = "metrics")]
        (Box::new(meter::Meter::new(recipe)) as _),
    ])
}

/// Registers the metrics of a recipe. Runs user code.
pub(crate) fn register(_recipe: &'static str) {
    #[cfg(feature = "metrics")]
    meter::register(_recipe);
}
