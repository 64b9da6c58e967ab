//! Shared pointers, also on processors without atomic operations.
//!
//! On a Cortex-M0 or a RISC-V without the extension A, `alloc` has no `Arc`. There, [`Arc`] is the one of
//! `portable-atomic-util`, and your program provides an implementation of `critical-section`.

#[cfg(target_has_atomic = "ptr")]
pub use alloc::sync::Arc;
#[cfg(not(target_has_atomic = "ptr"))]
pub use portable_atomic_util::Arc;
