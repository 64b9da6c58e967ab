//! Node.js, which runs WebAssembly. `boards/node/run.mjs` implements what is imported here.

mod imported {
    #[link(wasm_import_module = "board")]
    unsafe extern "C" {
        pub(super) safe fn milliseconds() -> u64;
        pub(super) safe fn seed() -> u64;
        pub(super) safe fn sleep();
        pub(super) safe fn send(byte: u32);
        pub(super) safe fn receive() -> i32;
        pub(super) fn print(text: *const u8, length: usize);
        pub(super) safe fn exit(code: i32) -> !;
    }
}

/// The number of bytes that can be sent at once.
pub const FIFO: usize = 16;

/// Does nothing: the process has started already.
pub fn start() {}

/// Returns the time since the start in milliseconds.
pub fn milliseconds() -> u64 {
    imported::milliseconds()
}

/// Sleeps for a millisecond.
pub fn sleep() {
    imported::sleep();
}

/// Returns the next byte that has arrived.
pub fn receive() -> Option<u8> {
    u8::try_from(imported::receive()).ok()
}

/// Returns whether [`FIFO`] bytes can be sent at once.
pub fn can_send() -> bool {
    true
}

/// Sends a byte.
pub fn send(byte: u8) {
    imported::send(byte.into());
}

/// Prints on the console.
pub fn print(text: &str) {
    // SAFETY: the host only reads these bytes.
    unsafe { imported::print(text.as_ptr(), text.len()) }
}

/// Returns bits that differ with each start.
pub fn seed() -> u64 {
    imported::seed()
}

/// Ends the process.
pub fn exit(is_success: bool) -> ! {
    imported::exit(i32::from(!is_success))
}

#[cfg(feature = "lock")]
mod critical_section {
    use critical_section::{Impl, RawRestoreState, set_impl};

    struct OneThread;

    set_impl!(OneThread);

    // SAFETY: there is one thread, and nothing interrupts it.
    unsafe impl Impl for OneThread {
        unsafe fn acquire() -> RawRestoreState {}

        unsafe fn release(_: RawRestoreState) {}
    }
}
