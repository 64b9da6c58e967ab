//! A limit for tests that would wait for ever.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Longer than any test takes on a machine that is busy with others.
const LIMIT: Duration = Duration::from_secs(600);

/// Ends the process if it is not dropped within ten minutes, and names the test.
///
/// A thread that waits for what never comes cannot be ended in any other way. Fixtures whose other
/// end is served by the test itself have one: when that side fails, nothing hangs up.
#[derive(Debug)]
pub struct Watchdog {
    _until_dropped: Sender<()>,
}

impl Watchdog {
    /// Begins to count. The thread that calls it gives the test its name.
    #[must_use]
    pub fn start() -> Self {
        Self::with_limit(LIMIT)
    }

    fn with_limit(limit: Duration) -> Self {
        let (_until_dropped, dropped) = channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Not by a macro: what tests print by those is shown at their end, which never
                // comes.
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
    fn a_test_that_hangs_ends_and_is_named() {
        if std::env::var_os(HANGS).is_some() {
            let _watchdog = Watchdog::with_limit(Duration::from_millis(1));
            loop {
                thread::park();
            }
        }
        drop(Watchdog::with_limit(Duration::MAX));
        let name = "watchdog::tests::a_test_that_hangs_ends_and_is_named";
        let mut again = Command::new(std::env::current_exe().expect("this program"));
        // One thread would have the name of the program.
        again.args(["--exact", name, "--test-threads", "2"]).env(HANGS, "yes");
        let output = again.output().expect("it runs");
        assert_eq!(output.status.code(), None, "it is ended by a signal");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("{name} takes longer")), "{said}");
    }
}
