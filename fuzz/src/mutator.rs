//! A mutator for libFuzzer that changes messages: for targets whose input is what a client sends.
//!
//! It needs only `zk-proto` with the feature `arbitrary`, and `libfuzzer-sys`.

use arbitrary::{Arbitrary, Unstructured};
use zk_proto::{RequestHeader, Xid, frame, owned::Request};

/// Adds, replaces, repeats, moves or removes a frame, or has libFuzzer change bytes.
///
/// The input is the first `size` bytes of `data`. Returns the size of the new one.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    // Few of its mutations leave the lengths of frames right.
    if seed.is_multiple_of(2) {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let mut frames = frames(&data[..size]);
    let random = random(seed);
    let mut random = Unstructured::new(&random);
    let (Ok(kind), Ok(from), Ok(to)) = (
        random.int_in_range(0..=4),
        random.choose_index(frames.len().max(1)),
        random.int_in_range(0..=frames.len()),
    ) else {
        return size;
    };
    let mut made = || -> Option<Vec<u8>> {
        let request = Request::arbitrary(&mut random).ok()?;
        let header =
            RequestHeader { xid: Xid(i32::try_from(to).ok()? + 1), opcode: request.opcode() };
        let mut bytes = Vec::new();
        frame::encode(&(header, request), &mut bytes).ok()?;
        Some(bytes)
    };
    match (kind, frames.is_empty()) {
        (0, _) | (_, true) => frames.insert(to, made().unwrap_or_default()),
        (1, _) => frames[from] = made().unwrap_or_default(),
        (2, _) => frames.insert(to, frames[from].clone()),
        (3, _) => {
            let moved = frames.remove(from);
            frames.insert(to.min(frames.len()), moved);
        }
        _ => drop(frames.remove(from)),
    }
    let bytes = frames.concat();
    let size = bytes.len().min(max_size);
    data[..size].copy_from_slice(&bytes[..size]);
    size
}

/// Returns the frames with their lengths. Bytes that are no frame are the last.
fn frames(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Ok(Some((_, rest))) = frame::split(stream, frame::DEFAULT_LIMIT) {
        frames.push(stream[..stream.len() - rest.len()].to_vec());
        stream = rest;
    }
    if !stream.is_empty() {
        frames.push(stream.to_vec());
    }
    frames
}

/// Returns random bytes, by the generator SplitMix64.
fn random(seed: u32) -> Vec<u8> {
    let mut state = u64::from(seed);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..32).flat_map(|_| next().to_be_bytes()).collect()
}
