//! Tests that need a real ZooKeeper.

mod action;
mod chaos;
mod conformance;
mod facts;
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
mod random;
mod recipes;
mod reconnect;
mod render;
mod sasl;
mod script;
mod survival;
mod tls;
