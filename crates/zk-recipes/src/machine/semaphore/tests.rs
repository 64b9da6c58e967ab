//! Borrowers, fed by hand.
//!
//! What a contender wants is compared as lines of text, in order: requests as `list locks` or
//! `watch max`, events as `Suspended`; its place in the queue is `locks/own-7`, its permit nodes are
//! `permit nodes/own-3` and so on, those of others `permit nodes/a-1`.

mod borrowing;
mod failing;
mod harness;
mod table;
