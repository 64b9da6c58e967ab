//! The metrics that the recipes give to the recorder of the crate [`metrics`], besides
//! those of their [sessions](zk_session::metrics).
//!
//! Gauges and counters exist from the creation of a recipe on, with the value 0.

use zk_session::metrics::{Kind, Metric, Unit};

/// Describes all metrics, those of the sessions included, to the recorder of the process. Call it
/// once, after the recorder is installed.
pub fn describe() {
    zk_session::metrics::describe();
    METRICS.iter().for_each(Metric::describe);
}

pub(crate) mod names {
    pub(crate) const WAITING: &str = "zk_lock_waiting";
    pub(crate) const HELD: &str = "zk_lock_held";
    pub(crate) const CLEANUPS: &str = "zk_lock_cleanups_pending";
    pub(crate) const LOST: &str = "zk_lock_lost_total";
    pub(crate) const WAIT: &str = "zk_lock_wait_seconds";
    pub(crate) const HAND_OVER: &str = "zk_lock_handover_seconds";
    pub(crate) const HOLD: &str = "zk_lock_hold_seconds";
}

/// All metrics of this crate. The label `recipe` is `mutex`, `rw_lock`, `leader_election` and so
/// on. There is no label for lock paths, since there may be any number of them.
pub const METRICS: &[Metric] = {
    use Kind::{Counter, Gauge, Histogram};
    use Unit::{Count, Seconds};
    const RECIPE: &[&str] = &["recipe"];
    &[
        Metric::new(names::WAITING, Gauge, Count, RECIPE, "attempts that wait for their lock"),
        Metric::new(names::HELD, Gauge, Count, RECIPE, "locks held, terms led, nodes kept alive"),
        Metric::new(
            names::CLEANUPS,
            Gauge,
            Count,
            RECIPE,
            "attempts that are over, and whose nodes are not known to be deleted",
        ),
        Metric::new(names::LOST, Counter, Count, RECIPE, "locks that were lost, not released"),
        Metric::new(
            names::WAIT,
            Histogram,
            Seconds,
            RECIPE,
            "time from the beginning of an attempt until it holds the lock",
        ),
        Metric::new(
            names::HAND_OVER,
            Histogram,
            Seconds,
            RECIPE,
            "time from the last watch event of a waiter until it holds the lock; mostly 0, \
             because the event decides",
        ),
        Metric::new(
            names::HOLD,
            Histogram,
            Seconds,
            RECIPE,
            "time from the acquisition until the lock is released or lost",
        ),
    ]
};
