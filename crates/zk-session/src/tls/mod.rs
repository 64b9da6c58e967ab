//! TLS, for both clients. Each driver runs it over the transports that it has.

#[cfg(feature = "tls")]
pub(crate) mod config;
mod error;

pub use self::error::TlsError;
