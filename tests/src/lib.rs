//! What this workspace is tested with. Pick the cheapest tool that can show the fault:
//!
//! | tool | shows | costs |
//! |---|---|---|
//! | [`fuzz`] | what bytes from anywhere do to the decoder | microseconds |
//! | [`server`] | what a server answers to which bytes, with time and failures at will | microseconds |
//! | [`sim`] | what whole clients make of it when anything may fail, by seed | milliseconds |
//! | [`serve`] | the same over TCP: what a client makes of it | milliseconds |
//! | [`real`] | what a real ZooKeeper does | seconds, and Java |

extern crate alloc;

pub mod contention;
pub mod fuzz;
pub mod fuzz_session;
pub mod herd;
pub mod oracle;
pub mod paced;
pub mod peers;
pub mod raw;
pub mod real;
pub mod scenes;
pub mod scripted;
pub mod serve;
pub mod server;
pub mod sim;
pub mod suite;
pub mod watchdog;
pub mod watchers;
pub mod wire;

/// The examples in the README of the repository compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
