//! An attempt of a client to acquire two locks together.

use core::time::Duration;

use uuid::Uuid;
use zk_proto::SessionId;
use zk_recipes::machine::multi_lock::{
    Input, LockSpec, Mode, MultiAcquire, Output, acquisition_order,
};
use zk_recipes::machine::{Event, LockMode, Scheme};

use super::behaviour::MUTEX;
use super::{AttemptId, Bug, ClientEvent, LockKind, SimClient};

/// The lock paths. The first one is a mutex that others acquire alone.
const PATHS: [&str; 2] = [MUTEX, "/locks/second"];

/// An attempt to acquire both locks, and to release them.
#[derive(Debug)]
pub(super) struct Several {
    machine: MultiAcquire,
    paths: [&'static str; 2],
    /// The unfinished attempts at each lock.
    attempts: [Option<AttemptId>; 2],
    bug: Option<Bug>,
    is_held: bool,
    /// Whether a lock was lost.
    is_lost: bool,
    /// Whether the machine has nothing more to do.
    is_over: bool,
    /// When [`act`](Self::act) is due.
    due: Duration,
    /// When to give up waiting, or to release.
    until: Duration,
}

impl Several {
    /// Begins an attempt that gives up at `until`. The caller names the locks in any order.
    pub(super) fn new(now: Duration, until: Duration, is_reversed: bool, bug: Option<Bug>) -> Self {
        let mut paths = PATHS;
        if is_reversed {
            paths.reverse();
        }
        let mode = Mode::Lock { scheme: Scheme::CURATOR_MUTEX, mode: LockMode::Exclusive };
        let spec = |path: &str| LockSpec::new(SessionId(1), String::new(), path.to_owned(), mode);
        if bug != Some(Bug::AcquiresInAnyOrder)
            && let Ok(order) = acquisition_order(&paths.map(spec))
        {
            paths = [order[0].0, order[1].0].map(|place| paths[place]);
        }
        Self {
            machine: MultiAcquire::new(paths.len()),
            paths,
            attempts: [None; 2],
            bug,
            is_held: false,
            is_lost: false,
            is_over: false,
            due: now,
            until,
        }
    }

    /// Returns when [`act`](Self::act) is due.
    pub(super) fn poll_timeout(&self) -> Duration {
        self.due.min(self.until)
    }

    /// Returns whether both attempts have ended.
    pub(super) fn is_done(&self) -> bool {
        self.is_over && self.attempts == [None; 2]
    }

    /// Handles an event of the client.
    pub(super) fn handle_event(&mut self, now: Duration, event: &ClientEvent) {
        let (ClientEvent::Lock(id, _) | ClientEvent::AttemptFinished(id)) = event else { return };
        let Some(place) = self.attempts.iter().position(|attempt| attempt == &Some(*id)) else {
            return;
        };
        match event {
            ClientEvent::Lock(_, Event::Acquired { .. }) => {
                self.machine.handle(Input::Acquired);
                if self.bug == Some(Bug::HoldsOneForAll) {
                    self.machine.handle(Input::Acquired);
                }
            }
            ClientEvent::Lock(_, Event::Failed(error)) => {
                self.machine.handle(Input::Failed(error.clone().into()));
            }
            ClientEvent::Lock(_, Event::Refused(error)) => {
                self.machine.handle(Input::Failed(error.clone()));
            }
            ClientEvent::Lock(_, Event::Lost(loss)) => {
                self.machine.handle(Input::Lost(place, *loss));
                // A client that has lost one lock releases the other.
                self.is_lost = true;
                self.until = now;
            }
            ClientEvent::AttemptFinished(_) => self.attempts[place] = None,
            _ => return,
        }
        self.due = now;
    }

    /// Does what is due. `guid` makes a name unique, `hold` is how long to hold both locks.
    pub(super) fn act(
        &mut self,
        now: Duration,
        client: &mut SimClient,
        mut guid: impl FnMut() -> Uuid,
        hold: Duration,
    ) {
        self.due = Duration::MAX;
        if self.until <= now {
            self.until = Duration::MAX;
            self.is_over = true;
            self.machine.handle(if self.is_held { Input::Release } else { Input::TimedOut });
        }
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Enter(place) => {
                    let kind = LockKind::Mutex;
                    self.attempts[place] =
                        Some(client.contend(now, self.paths[place], kind, guid()));
                }
                Output::Release(place) => {
                    if let Some(attempt) = self.attempts[place] {
                        client.release(now, attempt);
                    }
                }
                Output::Acquired => {
                    // Otherwise one was lost at the same moment.
                    if let ([Some(first), Some(second)], false) = (self.attempts, self.is_lost) {
                        client.record(ClientEvent::AcquiredTogether([first, second]));
                    }
                    self.is_held = true;
                    self.until = self.until.min(now + hold);
                }
                Output::Failed(..) => {
                    client.record(ClientEvent::Reached("several locks: failed"));
                    self.is_over = true;
                    self.until = Duration::MAX;
                }
            }
        }
    }
}
