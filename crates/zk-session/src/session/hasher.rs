//! The hashes of paths.

/// An odd number whose bits are spread evenly: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Multiplies, and folds the high half of the product onto the low half. Without the high half, two
/// words that differ in their last bits would differ alike for every seed.
fn folded_product(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// Computes the hashes of a path and its ancestors, from the shortest to the longest, in time in
/// proportion to the length of the path.
#[derive(Clone, Copy)]
pub(super) struct Hasher<'a> {
    path: &'a str,
    /// Secret and odd.
    factor: u64,
    /// The hash of the first bytes, which are whole words.
    hash: u64,
    hashed: usize,
}

impl<'a> Hasher<'a> {
    pub(super) fn new(path: &'a str, seed: u64) -> Self {
        let factor = folded_product(seed ^ SPREAD, SPREAD) | 1;
        Self { path, factor, hash: seed, hashed: 0 }
    }

    fn mix(&mut self, word: u64) {
        self.hash = folded_product(self.hash ^ word, self.factor);
    }

    /// Takes the whole words of the bytes that follow. Returns the hash with the rest of them.
    fn hash(&mut self, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        self.hashed += bytes.len() - rest.len();
        let mut whole = *self;
        whole.mix(rest.iter().fold(1, |word, byte| word << 8 | u64::from(*byte)));
        whole.hash
    }

    /// Returns the first `end` bytes of the path and their hash, if they are a string.
    pub(super) fn prefix(&mut self, end: usize) -> Option<(&'a str, u64)> {
        let prefix = self.path.get(..end)?;
        let hash = self.hash(prefix.as_bytes().get(self.hashed..)?);
        Some((prefix, hash))
    }
}

/// Returns the hash of a whole path.
pub(super) fn hash(path: &[u8], seed: u64) -> u64 {
    Hasher::new("", seed).hash(path)
}

#[cfg(test)]
mod tests;
