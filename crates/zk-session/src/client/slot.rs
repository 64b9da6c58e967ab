//! A slot that passes one value from the session to one receiver.
//!
//! It differs from tokio's oneshot channel in two ways:
//!
//! * The sender's caller, which holds the session's lock, wakes the receiver.
//! * It ignores tokio's cooperative budget: one task may await any number of ready values.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::{Poll, Waker};
use std::sync::PoisonError;

use super::MultiOperation;
use crate::dispatch::Input;
use crate::dispatch::effects::Wakers;
use crate::dispatch::watchers::Watcher;
use crate::error::Error;
use crate::session::{Reply, WatchedEvent};
use crate::threads::{Mutex, MutexGuard};

/// A value, and what it is about: both in one allocation, unless that is long.
pub(crate) struct ValueSlot<V, S: ?Sized = AnySubject> {
    content: Mutex<SlotContent<V>>,
    subject: S,
}

enum SlotContent<V> {
    /// There is no value yet; holds the receiver's waker, if it waits.
    Empty(Option<Waker>),
    Full(V),
    /// The value was taken or will never come, or the receiver is gone.
    Closed,
}

impl<V> SlotContent<V> {
    /// Takes the value, if there is one, for a receiver that takes no other one.
    fn take(&mut self) -> Option<V> {
        match core::mem::replace(self, Self::Closed) {
            Self::Full(value) => Some(value),
            Self::Empty(_) | Self::Closed => None,
        }
    }
}

/// Makes both ends of a slot.
pub(crate) fn slot<V: Send + 'static>() -> (Sender<V>, Receiver<V>) {
    let receiver = Receiver::new(Arc::new(ValueSlot::new(())));
    (receiver.sender(), receiver)
}

/// Makes a slot for the answer to a request with this path.
pub(crate) fn answer_slot(path: &str) -> Receiver<Result<Reply, Error>> {
    Receiver::new(match path.len() {
        0 => Arc::new(ValueSlot::new(())),
        1..=32 => Arc::new(ValueSlot::new(ShortPath::<32>::new(path))),
        33..=64 => Arc::new(ValueSlot::new(ShortPath::<64>::new(path))),
        65..=128 => Arc::new(ValueSlot::new(ShortPath::<128>::new(path))),
        _ => Arc::new(ValueSlot::new(Box::from(path))),
    })
}

/// Makes a slot for the answer to a request of several operations.
pub(crate) fn multi_answer_slot(operations: Vec<MultiOperation>) -> Receiver<Result<Reply, Error>> {
    Receiver::new(Arc::new(ValueSlot::new(operations)))
}

/// Makes both ends of a slot for the event of a one-shot watch.
pub(crate) fn watch_slot() -> (Arc<dyn Watcher>, Receiver<WatchedEvent>) {
    let slot = Arc::new(ValueSlot::new(()));
    (slot.clone(), Receiver::new(slot))
}

impl<V, S> ValueSlot<V, S> {
    fn new(subject: S) -> Self {
        Self { content: Mutex::new(SlotContent::Empty(None)), subject }
    }
}

pub(crate) type AnySubject = dyn Subject + Send + Sync;

/// What a value is about: a path, or the operations of a multi.
pub(crate) trait Subject {
    /// Returns the path, or an empty one.
    fn path(&self) -> &str {
        ""
    }

    /// Returns the operations of a multi.
    fn operations(&self) -> &[MultiOperation] {
        &[]
    }
}

impl Subject for () {}

impl Subject for Box<str> {
    fn path(&self) -> &str {
        self
    }
}

impl Subject for Vec<MultiOperation> {
    fn operations(&self) -> &[MultiOperation] {
        self
    }
}

/// A path of at most `N` bytes.
struct ShortPath<const N: usize> {
    length: usize,
    bytes: [u8; N],
}

impl<const N: usize> ShortPath<N> {
    #[inline]
    fn new(path: &str) -> Self {
        let mut bytes = [0; N];
        if let Some(begin) = bytes.get_mut(..path.len()) {
            begin.copy_from_slice(path.as_bytes());
        }
        Self { length: path.len(), bytes }
    }
}

impl<const N: usize> Subject for ShortPath<N> {
    fn path(&self) -> &str {
        self.bytes.get(..self.length).and_then(|path| str::from_utf8(path).ok()).unwrap_or_default()
    }
}

/// The session's sending end. Use it instead of only dropping it while a receiver may wait.
pub(crate) type Sender<V> = Arc<ValueSlot<V>>;

impl<V, S: ?Sized> ValueSlot<V, S> {
    /// Delivers the value, if there is still a receiver.
    #[inline]
    pub(crate) fn send(self: Arc<Self>, value: V, wakers: &mut Wakers) {
        let mut content = self.lock();
        if let SlotContent::Empty(waker) = &mut *content {
            if let Some(waker) = waker.take() {
                wakers.push(waker);
            }
            *content = SlotContent::Full(value);
        }
    }

    /// Closes the slot. Returns what it has, to be dropped without the session's lock.
    // Not inlined: most receivers have their value when they are dropped.
    #[inline(never)]
    fn close(&self) -> SlotContent<V> {
        core::mem::replace(&mut *self.lock(), SlotContent::Closed)
    }

    /// Locks the slot. No user code runs under this lock.
    fn lock(&self) -> MutexGuard<'_, SlotContent<V>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for ValueSlot<WatchedEvent, ()> {
    fn handle(self: Arc<Self>, input: Input, wakers: &mut Wakers) {
        if let Input::Watch { event, .. } = input {
            self.send(event, wakers);
        } else if let SlotContent::Empty(waker) = self.close() {
            wakers.extend(waker);
        }
    }

    fn outlives_session(&self) -> bool {
        false
    }
}

/// The receiver's end.
pub struct Receiver<V> {
    slot: Arc<ValueSlot<V>>,
    /// Whether a waker was left in the slot.
    is_waiting: bool,
}

impl<V> Receiver<V> {
    fn new(slot: Arc<ValueSlot<V>>) -> Self {
        Self { slot, is_waiting: false }
    }

    /// Returns the sending end. There is one at a time.
    pub(crate) fn sender(&self) -> Sender<V> {
        self.slot.clone()
    }

    /// Makes room for another value, after the one that was taken.
    pub(crate) fn reopen(&self) {
        *self.slot.lock() = SlotContent::Empty(None);
    }

    /// Takes the value if it has arrived, or `None` if none will.
    pub(crate) fn take(&mut self) -> Option<Option<V>> {
        if self.has_sender() {
            return None;
        }
        let slot = Arc::get_mut(&mut self.slot)?;
        Some(slot.content.get_mut().unwrap_or_else(PoisonError::into_inner).take())
    }

    /// Takes the value, or `None` if none will arrive. `waker` runs when that changes.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Option<V>> {
        if let Some(taken) = self.take() {
            return Poll::Ready(taken);
        }
        if self.is_waiting {
            let content = &mut *self.slot.lock();
            match content {
                SlotContent::Empty(Some(known)) if known.will_wake(waker) => return Poll::Pending,
                SlotContent::Empty(_) => {}
                _ => return Poll::Ready(content.take()),
            }
        }
        // The waker is user code, so it is cloned and dropped without the lock.
        let mut unused = Some(waker.clone());
        let content = &mut *self.slot.lock();
        let SlotContent::Empty(known) = content else { return Poll::Ready(content.take()) };
        core::mem::swap(known, &mut unused);
        self.is_waiting = true;
        Poll::Pending
    }

    /// Returns what the value is about.
    pub(crate) fn subject(&self) -> &AnySubject {
        &self.slot.subject
    }

    /// Closes the slot: the receiver wants no value any more.
    pub(crate) fn close(&self) {
        if self.has_sender() {
            self.slot.close();
        }
    }

    /// Returns whether a value may still arrive. The sender is gone as soon as it has sent one.
    fn has_sender(&self) -> bool {
        Arc::strong_count(&self.slot) > 1
    }
}

impl<V> Drop for Receiver<V> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<V> fmt::Debug for Receiver<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

#[cfg(test)]
mod tests;
