//! What the programs take of the board's memory.

use super::image::{CODEC, LOCK, Size};

#[test]
fn the_lock_fits() {
    let Some(image) = LOCK.build_or_skip() else { return };
    let size = Size::of(&image);
    println!("{size:?}");
    assert!(size.flash <= 116 * 1024 && size.ram <= 6400, "{size:?}");
}

#[test]
fn the_codec_fits() {
    let Some(image) = CODEC.build_or_skip() else { return };
    let size = Size::of(&image);
    println!("{size:?}");
    assert!(size.flash <= 7600 && size.ram <= 16, "{size:?}");
}
