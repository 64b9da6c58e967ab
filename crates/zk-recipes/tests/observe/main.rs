//! What the observers of a process learn: spans and events of `tracing`.
//!
//! The subscriber is that of the process, since the threads of blocking clients report to it, too.
//! Each test finds its own lines by its path or its server.

mod tracing;
