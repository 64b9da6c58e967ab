//! Nodes of this process's sessions that are no longer needed and that the ensemble refuses to
//! delete.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex as StdMutex;
use std::sync::PoisonError;

use zk_session::State;
use zk_session::proto::SessionId;

use crate::machine::{Event, Input, Machine, Output};

/// The number of nodes to remember. Beyond that, the oldest is forgotten.
const MOST: usize = 1024;

/// The session and the name of each node.
///
/// A name with a GUID is never used twice, so it needs no path and no ensemble. The node of a
/// `SimpleLock` has the last part of its path as name, which may be that of others: its machine
/// ignores [`Input::BehindAbandoned`]. The session is that of the owner. For other clients of this
/// process, the node is deleted when that session ends.
static NAMES: StdMutex<VecDeque<(SessionId, String)>> = StdMutex::new(VecDeque::new());
/// The number of names. Waiters check it first.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn remember(session: SessionId, name: &str) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if names.len() == MOST {
        names.pop_front();
    }
    names.push_back((session, name.into()));
    COUNT.store(names.len(), Ordering::Release);
}

fn is_known(session: SessionId, name: &str) -> bool {
    let is_same = |(of, known): &(SessionId, String)| (*of, known.as_str()) == (session, name);
    COUNT.load(Ordering::Acquire) > 0
        && NAMES.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_same)
}

/// A machine whose abandoned nodes are counted and remembered. It is notified if it waits for one
/// of its own session.
#[derive(Debug)]
pub(crate) struct Tracked<M> {
    machine: M,
    abandoned: Arc<AtomicUsize>,
    session: SessionId,
    /// The node that it waits for.
    behind: Option<String>,
}

impl<M> Tracked<M> {
    /// The counter of `abandoned_nodes`.
    pub(crate) const fn new(machine: M, abandoned: Arc<AtomicUsize>) -> Self {
        Self { machine, abandoned, session: SessionId(0), behind: None }
    }
}

impl<M: Machine> Machine for Tracked<M> {
    fn handle(&mut self, input: Input) {
        if let Input::Session(State::Connected { session, .. }) = input {
            self.session = session;
        }
        self.machine.handle(input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        let output = self.machine.poll_output();
        match &output {
            Some(Output::Event(Event::Waiting { behind, .. })) => {
                self.behind = Some(behind.clone());
            }
            Some(Output::Event(Event::Abandoned { node, .. })) => {
                self.abandoned.fetch_add(1, Ordering::Relaxed);
                remember(self.session, node);
            }
            Some(_) => {}
            // Also if the node is abandoned while the machine waits for it.
            None if self.behind.take_if(|behind| is_known(self.session, behind)).is_some() => {
                self.machine.handle(Input::BehindAbandoned);
                return self.machine.poll_output();
            }
            None => {}
        }
        output
    }

    fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    fn outlives_session(&self) -> bool {
        self.machine.outlives_session()
    }
}
