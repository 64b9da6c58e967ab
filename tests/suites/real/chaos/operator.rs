//! What an operator sees of the run: its metrics and its log. With the feature `observed`.

#[cfg(not(feature = "observed"))]
pub(super) use self::nothing::{Operator, service};
#[cfg(feature = "observed")]
pub(super) use self::observed::{Operator, service};

#[cfg(feature = "observed")]
mod observed {
    use std::sync::Mutex;

    use tracing::Instrument as _;
    use zk_testkit::observed::Observed;

    /// The most lines of the log that are printed.
    const EXCERPT: usize = 60;

    pub(in super::super) struct Operator {
        observed: Observed,
        /// Where the log was when the sessions of the services were ended last.
        ended_at: Mutex<Option<u64>>,
    }

    impl Operator {
        pub(in super::super) fn start() -> Self {
            Self { observed: Observed::start(), ended_at: Mutex::default() }
        }

        pub(in super::super) fn sessions_end(&self) {
            *self.ended_at.lock().expect("no panic") = Some(self.observed.position());
        }

        /// Fetches the metrics, as Prometheus does each minute.
        pub(in super::super) fn pause(&self) {
            drop(self.observed.page());
        }

        pub(in super::super) fn print(&self) {
            if let Some(ended_at) = *self.ended_at.lock().expect("no panic") {
                let lines = self.observed.lines_since(ended_at);
                // Only the lines about sessions belong to no service.
                let shown = ["service{number=0}", "session expired", "session renewed"];
                let is_shown = |line: &&String| shown.iter().any(|part| line.contains(part));
                println!("\nThe log of service 0, and all renewals, from when they began last:");
                lines.iter().filter(is_shown).take(EXCERPT).for_each(|line| println!("{line}"));
            }
            println!("\nThe metrics:\n{}", self.observed.page());
        }
    }

    /// Names the service in the log of what it does.
    pub(in super::super) fn service<F: Future>(
        number: usize,
        future: F,
    ) -> impl Future<Output = F::Output> {
        future.instrument(tracing::info_span!("service", number))
    }
}

#[cfg(not(feature = "observed"))]
mod nothing {
    pub(in super::super) struct Operator;

    impl Operator {
        pub(in super::super) fn start() -> Self {
            Self
        }

        pub(in super::super) fn sessions_end(&self) {}

        pub(in super::super) fn pause(&self) {}

        pub(in super::super) fn print(&self) {}
    }

    pub(in super::super) fn service<F: Future>(_: usize, future: F) -> F {
        future
    }
}
