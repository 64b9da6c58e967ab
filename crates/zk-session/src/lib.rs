#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

extern crate alloc;
#[cfg(any(test, feature = "blocking"))]
extern crate std;

mod chroot;
mod connect_string;
pub mod dispatch;
mod end;
mod error;
pub mod event_loop;
#[cfg(all(feature = "defmt", target_os = "none"))]
mod formats;
mod recorder;
#[cfg(feature = "blocking")]
pub mod recording;
pub mod sasl;
pub mod session;
pub mod sync;
#[cfg(feature = "blocking")]
#[doc(hidden)]
pub mod threads;
pub mod time;

// The page of the client begins with what both clients have.
#[cfg(feature = "blocking")]
mod client;
#[cfg(feature = "blocking")]
mod tls;

#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "tokio")]
mod tokio;

pub use bytes;
pub use chroot::Chroot;
pub use connect_string::{ConnectString, ConnectStringError, DEFAULT_PORT, ServerAddress};
pub use end::End;
pub use error::{Error, Fault, Invalid, Outcome, RequestError};
pub use session::{ServerKind, SessionTicket, State, WatchedEvent};
pub use zk_proto as proto;

#[cfg(feature = "blocking")]
pub use self::client::exports::*;
#[cfg(feature = "tokio")]
pub use self::tokio::exports::*;
