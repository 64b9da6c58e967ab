//! Tests that need a real ZooKeeper.

mod action;
mod chaos;
mod clickhouse;
mod conformance;
mod explained;
mod facts;
mod following;
#[path = "../../../crates/zk-proto/examples/fuzz_client.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod fuzz_client;
#[path = "../../../crates/zk-proto/examples/fuzz_server.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod fuzz_server;
mod generators;
mod interop;
mod invalid;
#[cfg(feature = "gssapi")]
mod kerberos;
mod launcher;
mod line;
mod lock;
mod operations;
mod player;
mod postgresql;
mod random;
mod recipes;
mod reconnect;
mod render;
mod sasl;
mod script;
mod slow_links;
mod survival;
mod tls;
