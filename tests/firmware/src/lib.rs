//! What the programs share: the board, and its line to the servers.

#![no_std]

pub mod board;
#[cfg(target_arch = "arm")]
mod division;
#[cfg(feature = "embassy")]
pub mod embassy;
#[cfg(feature = "defmt")]
mod formats;
#[cfg(feature = "lock")]
pub mod heap;
#[cfg(feature = "embassy")]
pub mod io_async;
pub mod line;
#[cfg(target_arch = "arm")]
mod memory;
