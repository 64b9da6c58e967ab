//! A time limit for tests that could wait for ever.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Ends the process, and names the test, if it is not dropped within ten minutes.
///
/// A thread that waits for ever can be ended in no other way. Fixtures whose other side is served
/// by the test itself have a watchdog: when that side fails, the connection stays open.
#[derive(Debug)]
pub struct Watchdog {
    _until_dropped: Sender<()>,
}

impl Watchdog {
    /// Starts the watchdog. The calling thread gives the test its name.
    #[must_use]
    pub fn start() -> Self {
        Self::with_limit(LIMIT)
    }

    fn with_limit(limit: Duration) -> Self {
        let (_until_dropped, dropped) = channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Not by `eprintln!`: its output is captured until the test ends, which never
                // happens.
                let _ = writeln!(std::io::stderr(), "{test} takes longer than {limit:?}");
                std::process::abort();
            }
        });
        Self { _until_dropped }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const HANGS: &str = "ZK_TESTKIT_HANGS";

    #[test]
    fn a_hanging_test_is_ended_and_named() {
        if std::env::var_os(HANGS).is_some() {
            let _watchdog = Watchdog::with_limit(Duration::from_millis(1));
            loop {
                thread::park();
            }
        }
        drop(Watchdog::with_limit(Duration::MAX));
        let name = "watchdog::tests::a_hanging_test_is_ended_and_named";
        let mut again = Command::new(std::env::current_exe().expect("this program"));
        // With one thread, the thread would have the name of the program.
        again.args(["--exact", name, "--test-threads", "2"]).env(HANGS, "yes");
        let output = again.output().expect("the test runs");
        assert_eq!(output.status.code(), None, "not ended by a signal");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("{name} takes longer")), "{said}");
    }
}
