//! What the owner of a lock and the task that looks after it tell each other.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use zk_session::Client;
use zk_session::proto::Zxid;

use crate::error::{LockError, Loss};
use crate::machine::{Claim, Trust};

/// The node that holds a lock.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) token: Zxid,
    /// All of its nodes, if they are several.
    pub(crate) leases: Box<[String]>,
}

/// How things stand with a lock that was acquired.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Held,
    Suspended,
    Lost(Loss),
    Released,
    /// It could not be released.
    Failed(LockError),
}

impl Status {
    /// Whether it may be held.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self, Self::Held | Self::Suspended)
    }
}

/// What the owner of a lock wants of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Convert(Claim),
    Leave,
    /// The lease had ended when somebody asked how things stand, and was told so.
    EndLease,
}

/// What was told last.
#[derive(Debug)]
pub(crate) struct Notes {
    pub(crate) status: Status,
    pub(crate) revoked: bool,
    /// What has come of acquiring the lock, or of its conversion.
    pub(crate) place: Option<Result<Place, LockError>>,
    /// Whether the lock was acquired.
    pub(crate) is_acquired: bool,
    /// Whether the task has ended, and nothing more will be told.
    pub(crate) is_final: bool,
    wish: Option<Wish>,
    /// Whether somebody was told that the lease has ended, and the task was not yet.
    lease_ended: bool,
    has_owner: bool,
    cleanup: Cleanup,
    /// Wakes the task.
    task: Waker,
    /// Tells the time of the lease, while the task lives.
    client: Option<Client>,
    trust: Trust,
}

impl Notes {
    /// What has come of the lock. Once it is no longer held, it never is again.
    pub(crate) fn set_status(&mut self, status: Status) {
        if self.status.is_open() {
            if !status.is_open() {
                self.is_over();
            }
            self.status = status;
        }
    }

    /// Compares the lease with the clock, lest anybody is told that the lock is held when it is not
    /// to be trusted any more. The task may not have noticed yet: its runtime may be blocked, or
    /// the process was stopped. Yields what wakes the task, if it has to be told.
    fn look_at_clock(&mut self) -> Option<Waker> {
        let has_ended = self.client.as_ref().is_some_and(Client::lease_has_ended);
        match self.trust.loss_after_lease() {
            _ if !has_ended || !self.is_acquired || !self.status.is_open() => return None,
            Some(loss) => self.set_status(Status::Lost(loss)),
            None if matches!(self.status, Status::Suspended) => return None,
            None => self.status = Status::Suspended,
        }
        self.lease_ended = true;
        Some(core::mem::replace(&mut self.task, Waker::noop().clone()))
    }

    /// What is left is to clean up.
    pub(crate) fn is_over(&mut self) {
        self.cleanup.begin();
    }

    /// A candidate that has lost begins anew, if it still has an owner.
    pub(crate) fn is_wanted_again(&mut self) {
        if self.has_owner {
            self.cleanup.end();
            self.status = Status::Held;
        }
    }
}

/// Counts among all from its beginning to its end.
#[derive(Debug)]
struct Cleanup {
    pending: bool,
    all: Arc<AtomicUsize>,
}

impl Cleanup {
    fn begin(&mut self) {
        if !core::mem::replace(&mut self.pending, true) {
            self.all.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end(&mut self) {
        if core::mem::take(&mut self.pending) {
            self.all.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Where both leave their notes.
pub(crate) struct Desk {
    notes: Mutex<Notes>,
    /// Wakes whoever waits for what the task tells.
    told: Notify,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("notes", &*self.notes()).finish_non_exhaustive()
    }
}

impl Desk {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // Notes are whole after every line of theirs.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is there now, the end of the lease included.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Notes) -> T) -> T {
        let mut notes = self.notes();
        let task = notes.look_at_clock();
        let found = read(&notes);
        drop(notes);
        if let Some(task) = task {
            task.wake();
            self.told.notify_waiters();
        }
        found
    }

    /// Has the task give the lock up, or doubt it, as the lease has ended.
    pub(crate) fn end_lease(&self) {
        let mut notes = self.notes();
        notes.lease_ended = true;
        let task = core::mem::replace(&mut notes.task, Waker::noop().clone());
        drop(notes);
        task.wake();
    }

    /// Waits until `find` has found something; nothing if the task has ended without.
    pub(crate) async fn wait<T>(&self, find: impl FnMut(&mut Notes) -> Option<T>) -> Option<T> {
        self.wait_looking(find, |_| None).await
    }

    /// As [`wait`](Self::wait), with the end of the lease included. Its end wakes nobody but the
    /// task, which then tells.
    pub(crate) async fn wait_by_clock<T>(
        &self,
        find: impl FnMut(&mut Notes) -> Option<T>,
    ) -> Option<T> {
        self.wait_looking(find, Notes::look_at_clock).await
    }

    async fn wait_looking<T>(
        &self,
        mut find: impl FnMut(&mut Notes) -> Option<T>,
        look: impl Fn(&mut Notes) -> Option<Waker>,
    ) -> Option<T> {
        loop {
            // Begun before the look, so that nothing is missed that is told behind it.
            let told = self.told.notified();
            let (found, is_final, task) = {
                let mut notes = self.notes();
                let task = look(&mut notes);
                (find(&mut notes), notes.is_final, task)
            };
            if let Some(task) = task {
                task.wake();
            }
            if found.is_some() || is_final {
                return found;
            }
            told.await;
        }
    }

    /// Waits until nothing of the contender is left on the server, or the session has ended.
    pub(crate) async fn gone(&self) {
        self.wait(|_| None::<()>).await;
    }
}

/// The owner's end. When it is dropped, the contender lets go.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) desk: Arc<Desk>,
}

impl Handle {
    pub(crate) fn wish(&self, wish: Wish) {
        self.tell(|notes| notes.wish = Some(wish));
    }

    fn tell(&self, note: impl FnOnce(&mut Notes)) {
        let mut notes = self.desk.notes();
        note(&mut notes);
        let task = core::mem::replace(&mut notes.task, Waker::noop().clone());
        drop(notes);
        task.wake();
    }

    /// Waits until the lock is acquired; nothing if the runtime was shut down.
    pub(crate) async fn acquired(&self) -> Option<Result<Place, LockError>> {
        self.desk.wait(|notes| notes.place.take()).await
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.tell(|notes| {
            notes.has_owner = false;
            // Nothing is left to clean up once the task has ended.
            if !notes.is_final {
                notes.is_over();
            }
        });
    }
}

/// The task's end.
#[derive(Debug)]
pub(crate) struct Clerk {
    desk: Arc<Desk>,
}

impl Clerk {
    /// Both ends.
    pub(crate) fn with_handle(
        client: Client,
        trust: Trust,
        cleanups: Arc<AtomicUsize>,
    ) -> (Self, Handle) {
        let notes = Notes {
            status: Status::Held,
            revoked: false,
            place: None,
            is_acquired: false,
            is_final: false,
            wish: None,
            lease_ended: false,
            has_owner: true,
            cleanup: Cleanup { pending: false, all: cleanups },
            task: Waker::noop().clone(),
            client: Some(client),
            trust,
        };
        let desk = Arc::new(Desk { notes: Mutex::new(notes), told: Notify::new() });
        (Self { desk: Arc::clone(&desk) }, Handle { desk })
    }

    pub(crate) fn tell(&self, note: impl FnOnce(&mut Notes)) {
        self.note(note);
        self.desk.told.notify_waiters();
    }

    /// Leaves a note that nobody waits for.
    pub(crate) fn note(&self, note: impl FnOnce(&mut Notes)) {
        note(&mut self.desk.notes());
    }

    /// The next wish; nothing when nobody is left to wish.
    pub(crate) fn poll_wish(&self, cx: &Context<'_>) -> Poll<Option<Wish>> {
        let mut notes = self.desk.notes();
        if core::mem::take(&mut notes.lease_ended) {
            return Poll::Ready(Some(Wish::EndLease));
        }
        match notes.wish.take() {
            None if notes.has_owner => {
                notes.task.clone_from(cx.waker());
                Poll::Pending
            }
            wish => Poll::Ready(wish),
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        let mut client = None;
        self.tell(|notes| {
            notes.is_final = true;
            notes.cleanup.end();
            client = notes.client.take();
        });
        // Perhaps the last one, which closes the session: not while the notes are locked.
        drop(client);
    }
}
