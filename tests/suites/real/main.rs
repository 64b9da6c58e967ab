//! Tests that need a real ZooKeeper.

mod action;
mod chaos;
mod conformance;
mod generators;
mod interop;
mod invalid;
#[cfg(feature = "gssapi")]
mod kerberos;
mod launcher;
mod lock;
mod operations;
mod player;
mod random;
mod recipes;
mod reconnect;
mod render;
mod sasl;
mod script;
mod survival;
mod tls;
