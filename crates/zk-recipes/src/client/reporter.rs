//! Attaches machines to the session of a client, and reports their events to the owners.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicUsize;

use zk_session::dispatch::{Input, Port};

use crate::attempt::{Command, Event, Machine, Observer, OnSession};
use crate::client::SessionClient;
use crate::client::abandoned::Abandoned;
use crate::client::guid;
use crate::client::observed::Observers;
use crate::client::report::{HeldNode, MachineReport, Status};
use crate::client::status::{ChangeEffects, Handle, SharedStatus};

/// Receives the events of one attempt after the session is unlocked: the user's observer.
pub(crate) type Note = Arc<dyn Fn(&Event) + Send + Sync>;

/// Receives the events of one attempt while the session is locked. It must run no user code.
pub(crate) type Hook = Arc<dyn Fn(&Event) + Send + Sync>;

/// Attaches the machine that `make` returns to the session, which starts it. `make` allows the
/// compiler to build the machine, which is large, in its box.
///
/// The machine stays attached until none of its nodes is left on the server, or the session has
/// ended. From its release until then it is counted in `cleanups`.
pub(crate) fn start<M: Machine + Send + 'static>(
    client: &impl SessionClient,
    make: impl FnOnce() -> M,
    observers: Observers,
    abandoned: Abandoned,
    note: Option<Note>,
    hook: Option<Hook>,
    cleanups: Arc<AtomicUsize>,
) -> Handle {
    let status = Arc::new(SharedStatus::new(cleanups));
    let reporter = Reporter {
        status: status.clone(),
        observers,
        abandoned,
        note,
        hook,
        leases: Vec::new(),
        is_acquired: false,
    };
    let machine = Box::new_uninit();
    let machine = Box::write(machine, OnSession::new(make(), reporter, guid::seed()));
    Handle { status, attachment: client.attach(machine) }
}

/// Writes the events of a machine to the status that its owner reads.
struct Reporter {
    status: Arc<SharedStatus>,
    observers: Observers,
    abandoned: Abandoned,
    note: Option<Note>,
    hook: Option<Hook>,
    /// Permits reported before the node that they belong to.
    leases: Vec<String>,
    /// Whether the result of acquiring the lock was reported.
    is_acquired: bool,
}

impl Observer for Reporter {
    fn input(&mut self, input: &Input, port: &mut Port<'_>) {
        self.observers.iter_mut().for_each(|one| one.input(input, port));
    }

    fn command(&mut self, command: Command, port: &mut Port<'_>) {
        self.observers.iter_mut().for_each(|one| one.command(command, port));
    }

    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        self.observers.iter_mut().for_each(|one| one.observe(event.clone(), port));
        if let Some(hook) = &self.hook {
            hook(&event);
        }
        if let Some(note) = &self.note {
            let (note, event) = (note.clone(), event.clone());
            port.defer(move || note(&event));
        }
        let status = match event {
            Event::Enqueued { node, .. } => {
                return self.change(|report| report.enqueued(node), port);
            }
            Event::Waiting { behind, ahead } => {
                self.abandoned.waits(port.session_id(), &behind);
                return self.change(|report| report.waits(behind, ahead), port);
            }
            Event::Abandoned { node, .. } => return self.abandoned.add(port.session_id(), node),
            Event::UnknownNode(_) => return,
            Event::Permits(leases) => {
                self.leases = leases;
                return;
            }
            Event::Acquired { node, token } | Event::Converted { node, token, .. } => {
                let leases = core::mem::take(&mut self.leases).into_boxed_slice();
                let node = HeldNode { name: node, token, leases };
                return self.answer(|report| report.acquired = Some(Ok(node)), port);
            }
            Event::NotConverted(error) => {
                return self.answer(|report| report.refused = Some(Box::new(error)), port);
            }
            Event::Refused(error) => {
                self.status.note(MachineReport::clean_up);
                return self.answer(|report| report.refused = Some(Box::new(error)), port);
            }
            Event::Revoked => return self.change(|report| report.revoked = true, port),
            Event::Resumed => Status::Held,
            Event::Suspended => Status::Suspended,
            Event::Lost(loss) => Status::Lost(loss),
            Event::Releasing => Status::Releasing,
            Event::Released => Status::Released,
            Event::Failed(error) if !self.is_acquired => {
                self.status.note(MachineReport::clean_up);
                return self.answer(|report| report.acquired = Some(Err(error)), port);
            }
            Event::Failed(error) => Status::Failed(error),
        };
        self.change(|report| report.set_status(status), port);
    }

    fn is_behind_abandoned(&mut self) -> bool {
        self.abandoned.is_behind()
    }

    fn finish(&mut self, port: &mut Port<'_>) {
        self.observers.iter_mut().for_each(|one| one.finish(port));
        self.change(MachineReport::finish, port);
    }
}

impl Reporter {
    fn answer(&mut self, answer: impl FnOnce(&mut MachineReport), port: &mut Port<'_>) {
        self.is_acquired = true;
        self.change(answer, port);
    }

    fn change(&self, change: impl FnOnce(&mut MachineReport), port: &mut Port<'_>) {
        if let Some(effects) = self.status.change(change) {
            effects.defer(port);
        }
    }
}

impl Drop for Reporter {
    /// The session has ended, unless that was reported already.
    fn drop(&mut self) {
        self.status.change(MachineReport::finish).into_iter().for_each(ChangeEffects::run);
    }
}
