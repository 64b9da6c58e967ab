//! QEMU's `microbit`: a Cortex-M0.
//!
//! No interrupt is ever taken: one that is pending wakes the processor all the same.

use core::sync::atomic::{AtomicU32, Ordering};

pub use super::semihosting::{exit, print, seed};
use super::{read, write};
use cortex_m::asm;
use cortex_m::peripheral::NVIC;
use cortex_m_rt as _;

const UART: usize = 0x4000_2000;
const UART_START_RECEIVING: usize = UART;
const UART_START_SENDING: usize = UART + 0x8;
const UART_RECEIVED: usize = UART + 0x108;
const UART_SENT: usize = UART + 0x11c;
const UART_INTERRUPTS: usize = UART + 0x304;
const UART_ENABLED: usize = UART + 0x500;
const UART_RECEIVED_BYTE: usize = UART + 0x518;
const UART_SENT_BYTE: usize = UART + 0x51c;
const UART_INTERRUPT: Interrupt = Interrupt(2);
/// The number of bytes that are sent at once.
pub const FIFO: usize = 16;

const TIMER: usize = 0x4000_8000;
const TIMER_START: usize = TIMER;
const TIMER_CAPTURE: usize = TIMER + 0x40;
const TIMER_REACHED: usize = TIMER + 0x144;
const TIMER_INTERRUPTS: usize = TIMER + 0x304;
const TIMER_WIDTH: usize = TIMER + 0x508;
const TIMER_PRESCALER: usize = TIMER + 0x510;
const TIMER_CAPTURED: usize = TIMER + 0x540;
const TIMER_COMPARED: usize = TIMER + 0x544;
const TIMER_INTERRUPT: Interrupt = Interrupt(8);
/// 16 MHz, divided by 2^9.
const TICKS_PER_SECOND: u64 = 31_250;

/// A peripheral's interrupt, by its number.
#[derive(Clone, Copy)]
struct Interrupt(u8);

// SAFETY: the numbers are those of the processor's manual, and do not change.
unsafe impl cortex_m::interrupt::InterruptNumber for Interrupt {
    fn number(self) -> u16 {
        self.0.into()
    }
}

/// No interrupt is taken, so its vectors are not needed. The linker script wants one.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
static __INTERRUPTS: [usize; 1] = [0];

/// Starts the clock and the UART, and lets both wake the processor.
pub fn start() {
    cortex_m::interrupt::disable();
    write(UART_ENABLED, 4u32);
    write(UART_START_RECEIVING, 1u32);
    write(UART_START_SENDING, 1u32);
    write(UART_INTERRUPTS, 1u32 << 2);
    write(TIMER_WIDTH, 3u32); // 32 bits.
    write(TIMER_PRESCALER, 9u32);
    write(TIMER_INTERRUPTS, 1u32 << 17);
    write(TIMER_START, 1u32);
    for interrupt in [UART_INTERRUPT, TIMER_INTERRUPT] {
        // SAFETY: all interrupts are disabled.
        unsafe { NVIC::unmask(interrupt) };
    }
}

fn ticks() -> u32 {
    write(TIMER_CAPTURE, 1u32);
    read(TIMER_CAPTURED)
}

/// Returns the time since the start in milliseconds, from a counter that runs freely.
pub fn milliseconds() -> u64 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    static ROUNDS: AtomicU32 = AtomicU32::new(0);
    let ticks = ticks();
    // It begins anew every 38 hours, and is read far more often. Nothing else writes these.
    if ticks < LAST.load(Ordering::Relaxed) {
        ROUNDS.store(ROUNDS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    LAST.store(ticks, Ordering::Relaxed);
    let ticks = u64::from(ROUNDS.load(Ordering::Relaxed)) << 32 | u64::from(ticks);
    ticks * 1_000 / TICKS_PER_SECOND
}

/// Sleeps until bytes arrive, for 5 ms at most.
pub fn sleep() {
    write(TIMER_REACHED, 0u32);
    write(TIMER_COMPARED, ticks().wrapping_add(TICKS_PER_SECOND as u32 / 200));
    for interrupt in [UART_INTERRUPT, TIMER_INTERRUPT] {
        NVIC::unpend(interrupt);
    }
    if read::<u32>(UART_RECEIVED) == 0 {
        asm::wfi();
    }
}

/// Returns the next byte that has arrived.
pub fn receive() -> Option<u8> {
    if read::<u32>(UART_RECEIVED) == 0 {
        return None;
    }
    write(UART_RECEIVED, 0u32);
    Some(read::<u32>(UART_RECEIVED_BYTE) as u8)
}

/// Returns whether [`FIFO`] bytes can be sent at once.
pub fn can_send() -> bool {
    true
}

/// Sends a byte, and waits until it is sent: this UART has no FIFO.
pub fn send(byte: u8) {
    write(UART_SENT, 0u32);
    write(UART_SENT_BYTE, u32::from(byte));
    while read::<u32>(UART_SENT) == 0 {}
}
