//! Numbers that are unique in this process.

/// Returns a number that it has not returned before.
#[cfg(target_has_atomic = "64")]
pub(crate) fn next() -> u64 {
    use core::sync::atomic::{AtomicU64, Ordering};

    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Returns a number that it has not returned before: on MIPS, PowerPC and old Arm, which add no 64
/// bits at once.
#[cfg(not(target_has_atomic = "64"))]
pub(crate) fn next() -> u64 {
    use std::sync::{Mutex, PoisonError};

    static COUNT: Mutex<u64> = Mutex::new(0);
    let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    *count += 1;
    *count
}
