//! The trace of a run: always as a hash, optionally as text and as moments.

use core::fmt;
use core::time::Duration;

use super::moment::{Moment, What};

/// The trace of one run. Equal runs have equal hashes.
#[derive(Debug)]
pub(super) struct Trace {
    hash: u64,
    print: bool,
    /// What a picture shows, if the run is recorded.
    moments: Option<Vec<Moment>>,
}

impl Trace {
    pub(super) fn new(print: bool, record: bool) -> Self {
        // The offset basis of FNV-1a.
        Self { hash: 0xcbf2_9ce4_8422_2325, print, moments: record.then(Vec::new) }
    }

    /// Returns the recorded moments.
    pub(super) fn moments(&self) -> &[Moment] {
        self.moments.as_deref().unwrap_or_default()
    }

    /// Records a moment of the network, which is not printed.
    pub(super) fn wire(&mut self, at: Duration, what: impl FnOnce() -> What) {
        if let Some(moments) = &mut self.moments {
            moments.push(Moment { at, what: what() });
        }
    }

    /// Prints and records a moment. It is not part of the hash.
    pub(super) fn moment(&mut self, at: Duration, what: impl FnOnce() -> What) {
        if self.print || self.moments.is_some() {
            let what = what();
            self.say(at, format_args!("{what}"));
            self.moments.iter_mut().for_each(|moments| {
                moments.push(Moment { at, what: what.clone() });
            });
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Records an input or output: its kind, its client or server, and its bytes.
    pub(super) fn bytes(&mut self, now: Duration, what: &'static str, who: u64, bytes: &[u8]) {
        self.mix(now.as_nanos() as u64);
        self.mix(who);
        self.mix(bytes.len() as u64);
        self.mix_all(what.as_bytes());
        self.mix_all(bytes);
        if self.print && bytes.is_empty() {
            self.say(now, format_args!("{what} {who}"));
        } else if self.print {
            self.say(now, format_args!("{what} {who}: {} bytes", bytes.len()));
        }
    }

    /// Prints a line that is not part of the hash.
    fn say(&self, now: Duration, what: fmt::Arguments<'_>) {
        if self.print {
            println!("{:>10.6} {what}", now.as_secs_f64());
        }
    }

    fn mix_all(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }
}
