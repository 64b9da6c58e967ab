//! Division of 64-bit numbers, bit by bit: 80 bytes of code.
//!
//! The version that comes with Rust takes 0.9 kB, because it is faster. Times are 64-bit numbers.

// SAFETY: no other function has this name, except a weak one that this one replaces: the part of
// `__aeabi_uldivmod` that divides.
#[unsafe(no_mangle)]
extern "C" fn __udivmoddi4(numerator: u64, denominator: u64, remainder: Option<&mut u64>) -> u64 {
    let mut steps = denominator.leading_zeros().saturating_sub(numerator.leading_zeros());
    let (mut part, mut left, mut quotient) = (denominator << steps, numerator, 0);
    loop {
        quotient <<= 1;
        if part <= left {
            left -= part;
            quotient |= 1;
        }
        if steps == 0 {
            break;
        }
        steps -= 1;
        part >>= 1;
    }
    if let Some(remainder) = remainder {
        *remainder = left;
    }
    quotient
}
