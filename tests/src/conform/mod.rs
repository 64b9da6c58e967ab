//! A conformance suite for clients of ZooKeeper.
//!
//! It runs a client as a process, serves it as each [`Scene`] says, well or badly, and judges what
//! the client sends and reports. `docs/conformance.md` describes the lines that the process reads
//! and writes. The files in `scenes` hold the scenes. [`run_server`] turns the suite round: it
//! asks a server what clients rely on.

mod body;
mod pattern;
mod player;
mod report;
mod scene;
mod served;
mod server;
pub mod shim;
mod steps;
mod subject;

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

pub use self::report::Report;
pub use self::scene::{Scene, Step, families, scenes, server_scenes};
pub use self::server::run_server;

/// How scenes are played.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program of the client, and its arguments.
    pub command: Vec<String>,
    /// How long to wait for anything. It only turns a hang into a failure.
    pub limit: Duration,
    /// How many scenes are played at once.
    pub jobs: NonZero<usize>,
    /// Whether the client's standard error is shown.
    pub is_verbose: bool,
}

/// What came of a scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The client did what it should.
    Passed,
    /// The client does not have what the scene needs.
    Unsupported,
    /// The client did something else, or died.
    Failed(String),
}

/// A scene that was played.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scene.
    pub scene: Scene,
    /// What came of it.
    pub judgement: Judgement,
    /// All that happened, line by line.
    pub transcript: Vec<String>,
}

/// Plays scenes, several at a time. Returns their outcomes in order.
pub fn run(scenes: &[Scene], settings: &Settings) -> Report {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..settings.jobs.get() {
            scope.spawn(|| {
                while let Some((index, scene)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    scenes.get(index).map(|scene| (index, scene))
                } {
                    let (judgement, transcript, name) = player::play(scene, settings);
                    let outcome = Outcome { scene: scene.clone(), judgement, transcript };
                    outcomes.lock().expect("no thread panics").push((index, outcome, name));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no thread panics");
    outcomes.sort_by_key(|(index, ..)| *index);
    let client = outcomes.iter().find_map(|(.., name)| name.clone());
    let outcomes = outcomes.into_iter().map(|(_, outcome, _)| outcome).collect();
    Report { client: client.unwrap_or_default(), outcomes }
}
