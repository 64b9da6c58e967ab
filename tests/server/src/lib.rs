#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

pub mod oracle;
pub mod ports;
pub mod proxy;
#[cfg(feature = "real")]
pub mod real;
pub mod serve;
pub mod server;
pub mod skipped;
