//! The modules that need the feature `tools`, which lie beside this file.

pub mod contention;
pub mod examples;
pub mod explained;
pub mod fuzz;
pub mod fuzz_machine;
pub mod fuzz_server;
pub mod fuzz_session;
pub mod fuzz_text;
pub mod guide;
pub mod herd;
pub mod kerberos;
pub mod linearizable;
pub mod oracle;
pub mod paced;
pub mod peers;
pub mod raw;
pub mod real;
pub mod scenarios;
pub mod scripted;
pub mod sim;
pub mod suite;
pub mod tls;
pub mod turns;
pub mod watchdog;
pub mod watchers;
pub mod wire;
