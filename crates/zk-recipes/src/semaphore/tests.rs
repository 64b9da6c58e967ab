//! Tests of the semaphore's machine. Outputs are compared as lines of text, in order.
//!
//! Our own permit nodes read `leases/own-3`, those of others `leases/a-1`.

mod borrowing;
mod exploring;
mod failing;
mod harness;
mod other_locks;
mod table;
