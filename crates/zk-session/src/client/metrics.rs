//! The metrics that the clients give to the recorder of the crate [`metrics`].
//!
//! The metrics whose labels are known exist from the first report of a client on, with the value 0:
//! all but those of requests.
//!
//! Install a recorder, for example an exporter for Prometheus, before the first client. Recorders
//! run after the session is unlocked; they must not wait for the client. Without a recorder, each
//! request costs a few atomic operations and one allocation.

use core::fmt;

pub use ::metrics::Unit;

/// A metric, as [`METRICS`] lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name. A recorder may change it to what its format allows.
    pub name: &'static str,
    /// What it measures, and how values combine.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: Unit,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it measures.
    pub help: &'static str,
}

/// How the values of a metric combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It grows and shrinks.
    Gauge,
    /// The distribution of its values counts.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

impl Metric {
    /// Makes the description of a metric.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        unit: Unit,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind, unit, labels, help }
    }

    /// Describes the metric to the recorder of the process.
    pub fn describe(&self) {
        match self.kind {
            Kind::Counter => ::metrics::describe_counter!(self.name, self.unit, self.help),
            Kind::Gauge => ::metrics::describe_gauge!(self.name, self.unit, self.help),
            Kind::Histogram => ::metrics::describe_histogram!(self.name, self.unit, self.help),
        }
    }
}

/// Describes all metrics to the recorder of the process. Call it once, after the recorder is
/// installed.
pub fn describe() {
    METRICS.iter().for_each(Metric::describe);
}

pub(crate) mod names {
    pub(crate) const REQUESTS: &str = "zk_client_requests_total";
    pub(crate) const LATENCY: &str = "zk_client_request_seconds";
    pub(crate) const CONNECTED: &str = "zk_client_connected";
    pub(crate) const CONNECTIONS: &str = "zk_client_connections_total";
    pub(crate) const RECONNECTS: &str = "zk_client_reconnects_total";
    pub(crate) const FAILURES: &str = "zk_client_connection_failures_total";
    pub(crate) const EXPIRIES: &str = "zk_client_expiries_total";
    pub(crate) const RENEWALS: &str = "zk_client_renewals_total";
    pub(crate) const WATCHES: &str = "zk_client_watches";
    pub(crate) const WATCH_EVENTS: &str = "zk_client_watch_events_total";
}

/// All metrics of this crate. Each is about all clients of the process together.
pub const METRICS: &[Metric] = {
    use Kind::{Counter, Gauge, Histogram};
    use Unit::{Count, Seconds};
    &[
        Metric::new(
            names::REQUESTS,
            Counter,
            Count,
            &["operation", "outcome"],
            "requests, of callers and of locks, that were answered or have failed",
        ),
        Metric::new(
            names::LATENCY,
            Histogram,
            Seconds,
            &["operation"],
            "time from sending a request to its reply",
        ),
        Metric::new(names::CONNECTED, Gauge, Count, &[], "sessions that a server serves"),
        Metric::new(
            names::CONNECTIONS,
            Counter,
            Count,
            &["server"],
            "connections on which a server has served a session",
        ),
        Metric::new(
            names::RECONNECTS,
            Counter,
            Count,
            &[],
            "connections that have resumed a session",
        ),
        Metric::new(
            names::FAILURES,
            Counter,
            Count,
            &["server"],
            "connections, and attempts to connect, that have failed",
        ),
        Metric::new(names::EXPIRIES, Counter, Count, &[], "sessions that have expired"),
        Metric::new(names::RENEWALS, Counter, Count, &[], "expired sessions that were renewed"),
        Metric::new(
            names::WATCHES,
            Gauge,
            Count,
            &[],
            "watches that clients have set or asked for",
        ),
        Metric::new(names::WATCH_EVENTS, Counter, Count, &[], "watch events received"),
    ]
};
