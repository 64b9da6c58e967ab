//! Borrowers, fed by hand.
//!
//! What a borrower wants is compared as lines of text, in order: requests as `list locks` or
//! `watch max`, events as `Suspended`; its place in the queue is `locks/own-7`, its leases are
//! `leases/own-3` and so on, those of others `leases/a-1`.

mod borrowing;
mod failing;
mod harness;
mod table;
