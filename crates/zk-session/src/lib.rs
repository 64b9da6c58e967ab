#![doc = include_str!("../README.md")]
#![no_std]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

extern crate alloc;
#[cfg(any(test, feature = "tokio", feature = "blocking"))]
extern crate std;

mod chroot;
mod connect_string;
pub mod dispatch;
mod error;
pub mod session;
pub mod time;

#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod driver;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod face;

pub use chroot::Chroot;
pub use connect_string::{ConnectString, ConnectStringError, DEFAULT_PORT, Member};
pub use error::{Error, Invalid, Outcome, RequestError};
pub use session::{End, Resume, State, WatchedEvent};
pub use zk_proto as proto;

#[cfg(feature = "tokio")]
pub use client::{Answer, Client, PersistentWatch, Watch};
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use dispatch::Attachment;
#[cfg(feature = "tokio")]
pub use driver::{Connect, TcpConnect, Transport};
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use face::{
    ClientBuilder, ConnectError, MultiRead, Notice, ReadResult, Transaction, TransactionResult,
};
