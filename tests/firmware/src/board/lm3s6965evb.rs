//! QEMU's `lm3s6965evb`: a Cortex-M3.

use core::sync::atomic::{AtomicU32, Ordering};

pub use super::semihosting::{exit, print, seed};
use super::{read, write};
use cortex_m::asm;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::peripheral::{NVIC, Peripherals, SYST};
use cortex_m_rt::exception;

const UART0: usize = 0x4000_c000;
const UART_DATA: usize = UART0;
const UART_FLAGS: usize = UART0 + 0x18;
const UART_LINE: usize = UART0 + 0x2c;
const UART_CONTROL: usize = UART0 + 0x30;
const UART_FIFO_LEVELS: usize = UART0 + 0x34;
const UART_INTERRUPTS: usize = UART0 + 0x38;
const RECEIVED_OR_LATE: u32 = 1 << 4 | 1 << 6;
const RECEIVE_EMPTY: u32 = 1 << 4;
const SEND_EMPTY: u32 = 1 << 7;
/// The number of bytes that fit in the FIFO of the UART.
pub const FIFO: usize = 16;

const TIMER0: usize = 0x4003_0000;
const UART0_INTERRUPT: u8 = 5;
const TIMER0_INTERRUPT: u8 = 19;

const TICKS_PER_MILLISECOND: u32 = 12_500;
/// The ticks between two interrupts of the clock: a second.
const TICKS: u32 = 1_000 * TICKS_PER_MILLISECOND;
static SECONDS: AtomicU32 = AtomicU32::new(0);

/// A peripheral's interrupt, by its number.
#[derive(Clone, Copy)]
struct Interrupt(u8);

// SAFETY: the numbers are those of the processor's manual, and do not change.
unsafe impl cortex_m::interrupt::InterruptNumber for Interrupt {
    fn number(self) -> u16 {
        self.0.into()
    }
}

/// Starts the clock and the UART.
pub fn start() {
    write(UART_LINE, 0x70u32); // Eight bits, with FIFO.
    write(UART_FIFO_LEVELS, 0u32);
    write(UART_CONTROL, 0x301u32); // On, in both directions.
    // Wakes the processor every 5 ms, so that no deadline is later than that.
    for (offset, value) in [(0, 0), (4, 2), (0x28, 5 * TICKS_PER_MILLISECOND), (0x18, 1), (0xc, 1)]
    {
        write(TIMER0 + offset, value);
    }
    if let Some(Peripherals { mut SYST, .. }) = Peripherals::take() {
        SYST.set_reload(TICKS - 1);
        SYST.set_clock_source(SystClkSource::Core);
        SYST.clear_current();
        SYST.enable_interrupt();
        SYST.enable_counter();
    }
    for interrupt in [UART0_INTERRUPT, TIMER0_INTERRUPT] {
        // SAFETY: no critical section relies on these being masked.
        unsafe { NVIC::unmask(Interrupt(interrupt)) };
    }
}

#[exception]
fn SysTick() {
    // Nothing else writes it.
    SECONDS.store(SECONDS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

mod interrupts {
    unsafe extern "C" {
        fn DefaultHandler();
    }

    /// The vectors of the interrupts up to the last one that is ever unmasked.
    #[unsafe(link_section = ".vector_table.interrupts")]
    #[unsafe(no_mangle)]
    static __INTERRUPTS: [unsafe extern "C" fn(); super::TIMER0_INTERRUPT as usize + 1] =
        [DefaultHandler; super::TIMER0_INTERRUPT as usize + 1];
}

/// Only wakes the processor. The UART stays silent until [`sleep`] listens again.
#[exception]
unsafe fn DefaultHandler(_: i16) {
    write(UART_INTERRUPTS, 0u32);
    write(TIMER0 + 0x24, 1u32);
}

/// Returns the time since the start in milliseconds.
///
/// The counter runs freely, and its interrupt comes once in a second. So a late interrupt loses no
/// time, as a tick for each millisecond would.
pub fn milliseconds() -> u64 {
    loop {
        let seconds = SECONDS.load(Ordering::Relaxed);
        let ticks = TICKS - 1 - SYST::get_current();
        asm::isb();
        // The counter may have begun anew in between.
        if SECONDS.load(Ordering::Relaxed) == seconds {
            return u64::from(seconds) * 1_000 + u64::from(ticks / TICKS_PER_MILLISECOND);
        }
    }
}

/// Sleeps until bytes arrive, for 5 ms at most.
pub fn sleep() {
    // An interrupt that comes before the processor sleeps still wakes it.
    cortex_m::interrupt::free(|_| {
        write(UART_INTERRUPTS, RECEIVED_OR_LATE);
        asm::wfi();
    });
}

/// Returns the next byte that has arrived.
pub fn receive() -> Option<u8> {
    (read::<u32>(UART_FLAGS) & RECEIVE_EMPTY == 0).then(|| read::<u32>(UART_DATA) as u8)
}

/// Returns whether [`FIFO`] bytes can be sent at once.
pub fn can_send() -> bool {
    read::<u32>(UART_FLAGS) & SEND_EMPTY != 0
}

/// Sends a byte.
pub fn send(byte: u8) {
    write(UART_DATA, u32::from(byte));
}
