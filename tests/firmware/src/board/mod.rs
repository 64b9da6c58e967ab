//! The board, chosen by the target: a clock, a UART, sleep and a console.
//!
//! This is the only code that needs `unsafe`: registers have addresses.

#[cfg(not(board = "node"))]
use core::ptr;

#[cfg_attr(board = "lm3s6965evb", path = "lm3s6965evb.rs")]
#[cfg_attr(board = "microbit", path = "microbit.rs")]
#[cfg_attr(board = "node", path = "node.rs")]
#[cfg_attr(board = "virt", path = "virt.rs")]
mod chosen;
#[cfg(target_arch = "arm")]
mod semihosting;

pub use chosen::{FIFO, can_send, exit, milliseconds, print, receive, seed, send, sleep, start};

#[cfg(not(board = "node"))]
fn read<T>(register: usize) -> T {
    // SAFETY: all callers name a register of the board, which may be read at any time.
    unsafe { ptr::read_volatile(register as *const T) }
}

#[cfg(not(board = "node"))]
fn write<T>(register: usize, value: T) {
    // SAFETY: all callers name a register of the board, none of which changes memory.
    unsafe { ptr::write_volatile(register as *mut T, value) }
}

/// Prints a number, without the code of `core::fmt`.
pub fn print_number(mut number: u64) {
    let mut digits = [0; 20];
    let mut from = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        from -= 1;
        if number == 0 {
            break;
        }
    }
    print(digits.get(from..).and_then(|digits| str::from_utf8(digits).ok()).unwrap_or_default());
}
