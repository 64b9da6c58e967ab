//! The console and the clock of QEMU's Arm boards: those of the host.

use cortex_m_semihosting::{debug, hio, syscall};

/// Prints on the console of QEMU.
pub fn print(text: &str) {
    if let Ok(mut console) = hio::hstdout() {
        // There is nobody to tell if that fails.
        let _ = console.write_all(text.as_bytes());
    }
}

/// Returns bits that differ with each start. A real board has a generator of random numbers.
pub fn seed() -> u64 {
    // SAFETY: these calls take no address.
    let (time, clock) = unsafe { (syscall!(TIME), syscall!(CLOCK)) };
    (time as u64) << 32 | clock as u64
}

/// Ends QEMU.
pub fn exit(is_success: bool) -> ! {
    loop {
        debug::exit(if is_success { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}
