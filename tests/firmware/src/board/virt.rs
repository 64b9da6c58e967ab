//! QEMU's `virt` with a 32-bit RISC-V processor.
//!
//! No interrupt is ever taken: one that is pending wakes the processor all the same.

use riscv::asm::wfi;
use riscv::register::mie;
use riscv_rt as _;
use semihosting::io::{Write, stdout};
use semihosting::process;
use semihosting::sys::arm_compat::{sys_clock, sys_time};

use super::{read, write};

const UART: usize = 0x1000_0000;
const UART_DATA: usize = UART;
const UART_INTERRUPTS: usize = UART + 1;
const UART_FIFO_CONTROL: usize = UART + 2;
const UART_STATE: usize = UART + 5;
const RECEIVED: u8 = 1;
const SEND_EMPTY: u8 = 1 << 5;
/// The number of bytes that fit in the FIFO of the UART.
pub const FIFO: usize = 16;

const TIME_COMPARED: usize = 0x0200_4000;
const TIME: usize = 0x0200_bff8;
const TICKS_PER_MILLISECOND: u64 = 10_000;

const INTERRUPTS: usize = 0x0c00_0000;
const INTERRUPTS_ENABLED: usize = INTERRUPTS + 0x2000;
const INTERRUPT_CLAIMED: usize = INTERRUPTS + 0x20_0004;
const UART_INTERRUPT: usize = 10;

/// Starts the UART, and lets it and the timer wake the processor.
pub fn start() {
    write(UART_FIFO_CONTROL, 1u8);
    write(UART_INTERRUPTS, RECEIVED);
    write(INTERRUPTS + 4 * UART_INTERRUPT, 1u32);
    write(INTERRUPTS_ENABLED, 1u32 << UART_INTERRUPT);
    // SAFETY: these interrupts are never taken.
    unsafe {
        mie::set_mtimer();
        mie::set_mext();
    }
}

fn ticks() -> u64 {
    loop {
        let high: u32 = read(TIME + 4);
        let low: u32 = read(TIME);
        // The lower half may have begun anew in between.
        if read::<u32>(TIME + 4) == high {
            return u64::from(high) << 32 | u64::from(low);
        }
    }
}

/// Returns the time since the start in milliseconds, from a counter that runs freely.
pub fn milliseconds() -> u64 {
    ticks() / TICKS_PER_MILLISECOND
}

/// Sleeps until bytes arrive, for 5 ms at most.
pub fn sleep() {
    let until = ticks() + 5 * TICKS_PER_MILLISECOND;
    write(TIME_COMPARED, until as u32);
    write(TIME_COMPARED + 4, (until >> 32) as u32);
    wfi();
    // The interrupt of the UART is pending until it is claimed, and again until its FIFO is empty.
    match read::<u32>(INTERRUPT_CLAIMED) {
        0 => {}
        interrupt => write(INTERRUPT_CLAIMED, interrupt),
    }
}

/// Returns the next byte that has arrived.
pub fn receive() -> Option<u8> {
    (read::<u8>(UART_STATE) & RECEIVED != 0).then(|| read(UART_DATA))
}

/// Returns whether [`FIFO`] bytes can be sent at once.
pub fn can_send() -> bool {
    read::<u8>(UART_STATE) & SEND_EMPTY != 0
}

/// Sends a byte.
pub fn send(byte: u8) {
    write(UART_DATA, byte);
}

/// Prints on the console of QEMU.
pub fn print(text: &str) {
    if let Ok(mut console) = stdout() {
        // There is nobody to tell if that fails.
        let _ = console.write_all(text.as_bytes());
    }
}

/// Returns bits that differ with each start. A real board has a generator of random numbers.
pub fn seed() -> u64 {
    let (time, clock) = (sys_time().unwrap_or(0), sys_clock().unwrap_or(0));
    (time as u64) << 32 | clock as u64
}

/// Ends QEMU.
pub fn exit(is_success: bool) -> ! {
    process::exit(i32::from(!is_success))
}
