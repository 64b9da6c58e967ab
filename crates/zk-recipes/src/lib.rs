#![doc = include_str!("../README.md")]
#![no_std]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

extern crate alloc;
#[cfg(any(test, feature = "tokio"))]
extern crate std;

mod error;
#[cfg(feature = "tokio")]
mod face;
pub mod machine;

pub use error::{LockError, Loss, RecipeError, Unconfirmed};
#[cfg(feature = "tokio")]
pub use face::*;
pub use zk_session as session;
