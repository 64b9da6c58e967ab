//! Lists of children that attached machines share.
//!
//! An attempt at a lock lists the queue after it has submitted the creation of its node. Of many
//! attempts at once, a few list it on their own. The others wait until one of these lists is
//! answered. Then they share one list, submitted after all their creations.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::any::Any;

use zk_proto::recording::Kind;
use zk_proto::{GetChildrenRequest, Request};

use super::machines::{Key, Machines, Refusal};
use super::port::{AnySession, Submission};
use super::seat::Seat;
use crate::error::Error;
use crate::recording::Recorder;
use crate::session::Reply;
use crate::session::growth::room_for_growth;
use crate::sync::Arc;
use crate::time::Instant;

/// How many lists of one path may be in flight. Up to this number, no machine waits for another.
const AT_ONCE: usize = 4;

/// Stands for the machines that share a list. The tag is the number of the list. No machine has
/// this key.
const SHARED: Key = Key { place: u32::MAX, generation: 1 };

impl Key {
    /// Returns whether it stands for the machines that share a list.
    pub(super) fn is_of_shared_lists(self) -> bool {
        self == SHARED
    }
}

impl Seat<'_> {
    /// Lists children for this machine, or makes it wait for the next list of several.
    pub(super) fn list_with_others(&mut self, tag: u64, path: &Arc<str>) {
        self.session.recorder().output(Kind::MACHINE_SUBMIT, &[tag, Recorder::LIST]);
        let key = self.key;
        let Some(list) = self.lists.list(path, (key, tag)) else {
            return record_waiting(self.session, path);
        };
        match self.session.submit(
            &list.request(),
            (SHARED, list.number),
            Submission::InPieces,
            self.has_submitted,
        ) {
            Ok(_) => self.lists.submitted(list),
            Err(error) => return self.waiting.refused.push(Refusal { key, tag, error }),
        }
        self.has_submitted = true;
    }
}

/// Records a list for which the machine waits, without a request of its own.
fn record_waiting(session: &mut dyn AnySession, path: &str) {
    let recorder = session.recorder();
    if recorder.is_on() {
        let list = GetChildrenRequest { path, watch: false };
        recorder.submitted(&Request::GetChildren(list), None, true, None);
    }
}

impl Machines {
    /// Delivers a list, or a piece of it, to the machines that share it. Submits the next list for
    /// the machines that have waited for this reply.
    pub(super) fn deliver_list(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        number: u64,
        result: &Result<Reply, Error>,
    ) {
        let Some(list) = self.lists.answered(number) else { return };
        let has_more = result.as_ref().is_ok_and(|reply| reply.has_more);
        if !has_more && let Some(next) = self.lists.next(&list) {
            // The requests were accepted when the machines began to wait.
            match session.submit(&next.request(), (SHARED, next.number), Submission::InPieces, true)
            {
                Ok(_) => self.lists.submitted(next),
                Err(error) => self.deliver_to_all(session, now, &next, &Err(error)),
            }
        }
        self.deliver_to_all(session, now, &list, result);
        if has_more {
            self.lists.put_back(list);
        }
    }

    fn deliver_to_all(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        list: &SharedList,
        result: &Result<Reply, Error>,
    ) {
        self.lists.memo = list.is_shared().then_some(None);
        for (key, tag) in list.receivers() {
            self.deliver_reply(session, now, key, tag, result.clone());
        }
        self.lists.memo = None;
    }
}

/// What one of the machines that share a list leaves for the next.
type Memo = Option<Box<dyn Any + Send>>;

/// A machine, and the tag of its request.
type ListReceiver = (Key, u64);

/// A list, and the machines that receive it.
struct SharedList {
    /// Assigned when the list is submitted.
    number: u64,
    path: Arc<str>,
    /// Mostly there is only one.
    first: ListReceiver,
    others: Vec<ListReceiver>,
}

impl SharedList {
    fn request(&self) -> Request<'_> {
        Request::GetChildren(GetChildrenRequest { path: &self.path, watch: false })
    }

    fn is_shared(&self) -> bool {
        !self.others.is_empty()
    }

    fn receivers(&self) -> impl Iterator<Item = ListReceiver> {
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
    memo: Option<Memo>,
}

impl SharedLists {
    pub(super) fn memo(&mut self) -> Option<&mut Memo> {
        self.memo.as_mut()
    }

    /// Returns a list for this machine alone. `None` if the machine waits for the next shared one.
    fn list(&mut self, path: &Arc<str>, receiver: ListReceiver) -> Option<SharedList> {
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
    fn submitted(&mut self, list: SharedList) {
        self.last_number = list.number;
        // Mostly there is only one.
        if self.under_way.len() == self.under_way.capacity() {
            self.under_way.reserve_exact(room_for_growth(self.under_way.len()));
        }
        self.under_way.push_back(list);
    }

    /// Removes a list that has a reply.
    fn answered(&mut self, number: u64) -> Option<SharedList> {
        let place = self.under_way.binary_search_by_key(&number, |list| list.number).ok()?;
        let list = self.under_way.remove(place);
        if self.under_way.is_empty() {
            self.under_way.shrink_to(AT_ONCE);
        }
        list
    }

    /// Puts back a list whose reply has more pieces.
    fn put_back(&mut self, list: SharedList) {
        let place = self.under_way.partition_point(|before| before.number < list.number);
        self.under_way.insert(place, list);
    }

    /// Removes the list that waits for the reply to this one.
    fn next(&mut self, answered: &SharedList) -> Option<SharedList> {
        let place = self.next.iter().position(|next| next.path == answered.path)?;
        Some(SharedList { number: self.last_number + 1, ..self.next.swap_remove(place) })
    }
}
