//! What an operator sees of the clients in this process: a page of metrics, and the log.

use alloc::collections::VecDeque;
use core::fmt;
use std::io::{self, Write};
use std::string::String;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::fmt::MakeWriter;

/// The most lines of the log that are kept.
const MAX_LINES: usize = 100_000;

/// The metrics and the log of this process.
#[derive(Clone)]
pub struct Observed {
    metrics: PrometheusHandle,
    log: Log,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").finish_non_exhaustive()
    }
}

impl Observed {
    /// Starts to observe all clients of the process, for ever.
    ///
    /// # Panics
    ///
    /// If the process has a recorder of metrics, or a subscriber of `tracing`, already.
    #[must_use]
    pub fn start() -> Self {
        let builder = PrometheusBuilder::new().set_quantiles(&[0.5, 0.99, 1.0]);
        let metrics = builder.and_then(PrometheusBuilder::install_recorder).expect("the first one");
        zk_recipes::metrics::describe();
        let log = Log::default();
        let lines = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        tracing::subscriber::set_global_default(lines).expect("the first one");
        Self { metrics, log }
    }

    /// Returns the page that Prometheus would fetch. Fetch it from time to time: the values of
    /// histograms are kept until then.
    #[must_use]
    pub fn page(&self) -> String {
        self.metrics.render()
    }

    /// Returns the number of lines of the log.
    #[must_use]
    pub fn position(&self) -> u64 {
        let lines = self.log.lock();
        lines.dropped + lines.kept.len() as u64
    }

    /// Returns the lines of the log from a position on, unless they are too many.
    #[must_use]
    pub fn lines_since(&self, position: u64) -> Vec<String> {
        let lines = self.log.lock();
        let skipped = position.saturating_sub(lines.dropped);
        lines.kept.iter().skip(skipped as usize).cloned().collect()
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    kept: VecDeque<String>,
    /// The number of older lines.
    dropped: u64,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Log {
    /// Takes a whole line, as the formatter of `tracing-subscriber` gives it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.lock();
        if lines.kept.len() == MAX_LINES {
            lines.kept.pop_front();
            lines.dropped += 1;
        }
        lines.kept.push_back(String::from_utf8_lossy(line).trim_end().to_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
