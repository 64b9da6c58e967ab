#![doc = include_str!("../README.md")]
#![no_std]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

extern crate alloc;
#[cfg(any(test, feature = "tokio", feature = "blocking"))]
extern crate std;

#[cfg(feature = "blocking")]
pub mod blocking;
mod error;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod face;
pub mod machine;

pub use error::{LockError, Loss, RecipeError, Unconfirmed};
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use face::*;
pub use zk_session as session;
