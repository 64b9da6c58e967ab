//! Which mutant is active in a build that contains all of them.
//!
//! `MUTANT` names the mutant. `MUTANT_TRACE` names a file for the mutants that the process reaches.

// Mutants are in constant functions too. `.ci/mutants` permits this crate unstable features.
#![feature(const_eval_select, core_intrinsics)]
#![allow(internal_features)]

use std::env;
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

enum Mode {
    Run { active: Option<u32> },
    Trace { file: File },
}

static MODE: OnceLock<Mode> = OnceLock::new();

/// Returns whether this mutant is active. While a constant is computed, none is.
pub const fn on(mutant: u32) -> bool {
    std::intrinsics::const_eval_select((mutant,), never, at_run_time)
}

const fn never(_mutant: u32) -> bool {
    false
}

fn at_run_time(mutant: u32) -> bool {
    match MODE.get_or_init(mode) {
        Mode::Run { active } => *active == Some(mutant),
        Mode::Trace { file } => {
            trace(file, mutant);
            false
        }
    }
}

fn mode() -> Mode {
    match env::var_os("MUTANT_TRACE") {
        Some(path) => Mode::Trace {
            file: File::options()
                .append(true)
                .create(true)
                .open(path)
                .expect("the trace can be written"),
        },
        None => Mode::Run {
            active: env::var("MUTANT").ok().and_then(|number| number.parse().ok()),
        },
    }
}

/// Writes the mutant when the process reaches it for the first time.
fn trace(mut file: &File, mutant: u32) {
    static REACHED: [AtomicBool; 1 << 14] = [const { AtomicBool::new(false) }; 1 << 14];

    if !REACHED[mutant as usize].swap(true, Ordering::Relaxed) {
        // Some tests count allocations, so there are none here.
        let mut line = *b"          \n";
        write!(&mut line[..10], "{mutant}").expect("it is short");
        file.write_all(&line).expect("the trace can be written");
    }
}
