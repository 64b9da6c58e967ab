//! Free play in a browser: the functions that the page calls.
//!
//! The same calls in the same order make the same film, so a link need only contain them.

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::film::{Film, Setting};
use crate::json::list;
use crate::sim::{Bug, Cut, Fault, LockKind};

const CLIENTS: &[&str] = &["A", "B", "C", "D"];
/// How long a fault lasts that ends by itself: longer than any session.
const LONG: Duration = Duration::from_secs(12);

static FILM: Mutex<Option<Film>> = Mutex::new(None);
static OUT: Mutex<String> = Mutex::new(String::new());

/// The bugs that can be switched on, by their number.
const BUGS: [Option<Bug>; 6] = [
    None,
    Some(Bug::SharesGuids),
    None,
    Some(Bug::WatchesParent),
    Some(Bug::IgnoresLeases),
    Some(Bug::IgnoresContenders),
];
/// The number of the bug that is the storage's: it does not compare tokens.
const NO_FENCING: u32 = 2;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a function on the film, and outputs the steps that it adds. Returns their length.
fn play(function: impl FnOnce(&mut Film)) -> usize {
    let mut film = locked(&FILM);
    let Some(film) = film.as_mut() else { return 0 };
    let count = film.steps().len();
    function(film);
    output(list(film.steps()[count..].iter().map(|step| format!("{step}}}"))))
}

fn output(text: String) -> usize {
    let length = text.len();
    *locked(&OUT) = text;
    length
}

/// Starts a film, and outputs its cast. Returns the length of the output.
#[unsafe(no_mangle)]
pub extern "C" fn start(seed: u32, bug: u32) -> usize {
    let film = Film::new(
        Setting {
            seed: seed.into(),
            clients: CLIENTS,
            bug: BUGS.get(bug as usize).copied().flatten(),
            storage: Some(bug != NO_FENCING),
            renew: true,
            ..Setting::default()
        },
        0,
    );
    let cast = film.cast("Free play");
    let steps = list(film.steps().iter().map(|step| format!("{step}}}")));
    *locked(&FILM) = Some(film);
    output(format!("{{\"cast\":{cast},\"steps\":{steps}}}"))
}

/// Lets time pass until something happens. Outputs the new steps.
#[unsafe(no_mangle)]
pub extern "C" fn advance() -> usize {
    play(|film| film.wait_for_step(Duration::from_secs(60)))
}

/// The reader acts. Outputs the new steps.
#[unsafe(no_mangle)]
pub extern "C" fn act(action: u32, who: u32) -> usize {
    let who = who as usize;
    let client = who % CLIENTS.len();
    play(|film| match action {
        0 if !film.contends(client) => film.contend(client, LockKind::Mutex),
        1 => film.release(client),
        2 => {
            if film.is_stopped(client) {
                film.until_runs(client);
            }
            film.write(client);
        }
        3 => film.inject(Fault::Cut(client, Cut::BEFORE_RECEIVED)),
        4 => film.inject(Fault::Cut(client, Cut::AFTER_APPLIED)),
        5 => film.inject(Fault::Pause(client, LONG)),
        6 => film.inject(Fault::Isolate(client, LONG)),
        7 => film.inject(Fault::Expire(client)),
        8 => film.inject(Fault::Kill(who % 3, LONG)),
        _ => {}
    })
}

/// Returns where the output begins.
#[unsafe(no_mangle)]
pub extern "C" fn output_address() -> *const u8 {
    locked(&OUT).as_ptr()
}
