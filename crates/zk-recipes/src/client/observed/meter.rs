//! The metrics of an attempt, for the feature `metrics`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use zk_session::dispatch::{Input, Port};
use zk_session::time::Instant;

use super::AnyObserver;
use crate::attempt::{Command, Event, Observer};
use crate::metrics::names;

pub(super) fn observer(recipe: &'static str) -> Option<AnyObserver> {
    Some(Box::new(Meter {
        recipe,
        phase: MeterPhase::New,
        since: Instant::START,
        has_waited: false,
        woken_at: None,
        is_cleaning_up: false,
        measured: Vec::new(),
    }))
}

/// What the recorder of the process knows of an attempt, and what it does not know yet.
struct Meter {
    recipe: &'static str,
    phase: MeterPhase,
    /// When the current phase began.
    since: Instant,
    /// Whether another contender was ahead.
    has_waited: bool,
    /// When a watch has fired last.
    woken_at: Option<Instant>,
    is_cleaning_up: bool,
    measured: Vec<Measured>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MeterPhase {
    /// The attempt has not begun.
    New,
    Waiting,
    Held,
    /// The lock is not wanted any more, or lost.
    Over,
}

impl MeterPhase {
    /// Returns the gauge of the attempts in this phase.
    const fn gauge(self) -> Option<&'static str> {
        match self {
            Self::Waiting => Some(names::WAITING),
            Self::Held => Some(names::HELD),
            Self::New | Self::Over => None,
        }
    }
}

enum Measured {
    More(&'static str),
    Fewer(&'static str),
    Lost,
    Took(&'static str, Duration),
}

impl Meter {
    fn end(&mut self) {
        self.enter(MeterPhase::Over, self.since);
        self.clean_up(false);
    }

    fn enter(&mut self, phase: MeterPhase, now: Instant) {
        self.since = now;
        let before = core::mem::replace(&mut self.phase, phase);
        if before != phase {
            self.measured.extend(before.gauge().map(Measured::Fewer));
            self.measured.extend(phase.gauge().map(Measured::More));
        }
        if phase == MeterPhase::Waiting {
            (self.has_waited, self.woken_at) = (false, None);
        }
    }

    fn clean_up(&mut self, is_cleaning_up: bool) {
        if core::mem::replace(&mut self.is_cleaning_up, is_cleaning_up) != is_cleaning_up {
            let change = if is_cleaning_up { Measured::More } else { Measured::Fewer };
            self.measured.push(change(names::CLEANUPS));
        }
    }

    /// Passes new measurements to the recorder once the session is unlocked.
    fn emit(&mut self, port: &mut Port<'_>) {
        if !self.measured.is_empty() {
            let (measured, recipe) = (core::mem::take(&mut self.measured), self.recipe);
            port.report(move || record(measured, recipe));
        }
    }
}

impl Observer for Meter {
    fn input(&mut self, input: &Input, port: &mut Port<'_>) {
        if self.phase == MeterPhase::New {
            self.enter(MeterPhase::Waiting, port.now());
        }
        if let Input::Watch { .. } = input {
            self.woken_at = Some(port.now());
        }
        self.emit(port);
    }

    fn command(&mut self, command: Command, port: &mut Port<'_>) {
        if command == Command::Release {
            self.clean_up(true);
            if self.phase == MeterPhase::Waiting {
                self.enter(MeterPhase::Over, port.now());
            }
        }
        self.emit(port);
    }

    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        let now = port.now();
        match event {
            // A candidate, or an ephemeral node, that was lost.
            Event::Enqueued { .. } if self.phase == MeterPhase::Over => {
                self.clean_up(false);
                self.enter(MeterPhase::Waiting, now);
            }
            Event::Waiting { .. } => self.has_waited = true,
            Event::Acquired { .. } => {
                self.measured.push(Measured::Took(names::WAIT, now - self.since));
                if let Some(woken_at) = self.woken_at.filter(|_| self.has_waited) {
                    self.measured.push(Measured::Took(names::HAND_OVER, now - woken_at));
                }
                self.enter(MeterPhase::Held, now);
            }
            Event::Lost(_) | Event::Released | Event::Failed(_) | Event::Refused(_) => {
                if self.phase == MeterPhase::Held {
                    self.measured.push(Measured::Took(names::HOLD, now - self.since));
                    if let Event::Lost(_) = event {
                        self.measured.push(Measured::Lost);
                    }
                }
                self.enter(MeterPhase::Over, now);
                self.clean_up(true);
            }
            _ => {}
        }
        self.emit(port);
    }

    fn finish(&mut self, port: &mut Port<'_>) {
        self.end();
        self.emit(port);
    }
}

impl Drop for Meter {
    /// The session has ended, unless that was reported already.
    fn drop(&mut self) {
        self.end();
        record(core::mem::take(&mut self.measured), self.recipe);
    }
}

/// Gives the recorder every gauge and counter of a recipe with the value 0. An alert about a change
/// misses the first event of a metric that begins with it. Runs user code.
pub(crate) fn register(recipe: &'static str) {
    for gauge in [names::WAITING, names::HELD, names::CLEANUPS] {
        metrics::gauge!(gauge, "recipe" => recipe).increment(0.0);
    }
    metrics::counter!(names::LOST, "recipe" => recipe).increment(0);
}

fn record(measured: Vec<Measured>, recipe: &'static str) {
    for one in measured {
        match one {
            Measured::More(gauge) => metrics::gauge!(gauge, "recipe" => recipe).increment(1.0),
            Measured::Fewer(gauge) => metrics::gauge!(gauge, "recipe" => recipe).decrement(1.0),
            Measured::Lost => metrics::counter!(names::LOST, "recipe" => recipe).increment(1),
            Measured::Took(name, time) => {
                metrics::histogram!(name, "recipe" => recipe).record(time);
            }
        }
    }
}
