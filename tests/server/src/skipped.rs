//! Tests that need what a machine may lack.

use core::fmt::Display;
use std::io::{self, Write};
use std::thread;

/// Reports why the running test skips its checks, or some of them. The line begins
/// with `SKIPPED`, so that they can be counted.
pub fn skip(reason: impl Display) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // The harness hides what passing tests print by `eprintln!`. One write is not torn apart. With
    // one thread, the harness has begun a line already.
    let line = format!("\nSKIPPED {test}: {reason}\n");
    let _ = io::stderr().write_all(line.as_bytes());
}
