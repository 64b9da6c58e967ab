//! Lists of children that attached machines share.
//!
//! An attempt at a lock lists the queue after it has submitted the creation of its node. Of many
//! attempts at once, a few list it on their own. The others wait until one of these lists is
//! answered. Then they share one list, submitted after all their creations.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::any::Any;

use zk_proto::{GetChildrenRequest, Request};

use super::machines::Key;
use crate::session::growth::room_for_growth;
use crate::sync::Arc;

/// How many lists of one path may be in flight. Up to this number, no machine waits for another.
const AT_ONCE: usize = 4;

/// Stands for the machines that share a list. The tag is the number of the list. No machine has
/// this key.
pub(super) const SHARED: Key = Key { place: u32::MAX, generation: 1 };

/// What one of the machines that share a list leaves for the next.
pub(super) type Memo = Option<Box<dyn Any + Send>>;

/// A machine, and the tag of its request.
pub(super) type ListReceiver = (Key, u64);

/// A list, and the machines that receive it.
pub(super) struct SharedList {
    /// Assigned when the list is submitted.
    pub(super) number: u64,
    path: Arc<str>,
    /// Mostly there is only one.
    first: ListReceiver,
    others: Vec<ListReceiver>,
}

impl SharedList {
    pub(super) fn request(&self) -> Request<'_> {
        Request::GetChildren(GetChildrenRequest { path: &self.path, watch: false })
    }

    pub(super) fn is_shared(&self) -> bool {
        !self.others.is_empty()
    }

    pub(super) fn receivers(&self) -> impl Iterator<Item = ListReceiver> {
        core::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// The shared lists of a session.
#[derive(Default)]
pub(super) struct SharedLists {
    /// Those without a reply, in the order of their numbers.
    under_way: VecDeque<SharedList>,
    /// The next one of each path with [`AT_ONCE`] in flight, if machines wait for it.
    next: Vec<SharedList>,
    last_number: u64,
    /// Set while a list is delivered to several machines.
    pub(super) memo: Option<Memo>,
}

impl SharedLists {
    /// Returns a list for this machine alone. `None` if the machine waits for the next shared one.
    pub(super) fn list(&mut self, path: &Arc<str>, receiver: ListReceiver) -> Option<SharedList> {
        if let Some(next) = self.next.iter_mut().find(|next| next.path == *path) {
            next.others.push(receiver);
            return None;
        }
        let list = SharedList {
            number: self.last_number + 1,
            path: path.clone(),
            first: receiver,
            others: Vec::new(),
        };
        let same = self.under_way.iter().rev().filter(|list| list.path == *path);
        if same.take(AT_ONCE).count() < AT_ONCE {
            return Some(list);
        }
        self.next.push(list);
        None
    }

    /// Adds a list that was submitted.
    pub(super) fn submitted(&mut self, list: SharedList) {
        self.last_number = list.number;
        // Mostly there is only one.
        if self.under_way.len() == self.under_way.capacity() {
            self.under_way.reserve_exact(room_for_growth(self.under_way.len()));
        }
        self.under_way.push_back(list);
    }

    /// Removes a list that has a reply.
    pub(super) fn answered(&mut self, number: u64) -> Option<SharedList> {
        let place = self.under_way.binary_search_by_key(&number, |list| list.number).ok()?;
        let list = self.under_way.remove(place);
        if self.under_way.is_empty() {
            self.under_way.shrink_to(AT_ONCE);
        }
        list
    }

    /// Puts back a list whose reply has more pieces.
    pub(super) fn put_back(&mut self, list: SharedList) {
        let place = self.under_way.partition_point(|before| before.number < list.number);
        self.under_way.insert(place, list);
    }

    /// Removes the list that waits for the reply to this one.
    pub(super) fn next(&mut self, answered: &SharedList) -> Option<SharedList> {
        let place = self.next.iter().position(|next| next.path == answered.path)?;
        Some(SharedList { number: self.last_number + 1, ..self.next.swap_remove(place) })
    }
}
