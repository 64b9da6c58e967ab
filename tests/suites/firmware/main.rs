//! The programs in `tests/firmware`, in QEMU: their scenes, their sizes, and where
//! they can panic.
//!
//! `ZK_FIRMWARE=require` makes it an error if QEMU or a target of Rust is missing.

mod board;
mod image;
mod modem;
mod panics;
mod scenes;
mod sizes;
