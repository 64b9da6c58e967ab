//! The programs in `tests/firmware`, in QEMU: their scenes and their sizes.
//!
//! `ZK_FIRMWARE=require` makes it an error if QEMU or a target of Rust is missing.

mod board;
mod image;
mod modem;
mod scenes;
mod sizes;
