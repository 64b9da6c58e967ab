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

use super::any_session::AnySession;
use super::port::Submission;
use super::token::Key;
use crate::error::Error;
use crate::recorder::Recorder;
use crate::session::growth::room_for_growth;
use crate::sync::Arc;

/// How many lists of one path may be in flight. Up to this number, no machine waits for another.
const AT_ONCE: usize = 4;

/// Stands for the machines that share a list. The tag is the number of the list. No machine has
/// this key.
pub(super) const SHARED: Key = Key { place: u32::MAX, generation: 1 };

/// The shared lists of a session. Without these features there are none: each machine lists on its
/// own.
pub(super) type Lists = [SharedLists; cfg!(all(feature = "full", feature = "blocking")) as usize];

/// What one of the machines that share a list leaves for the next.
type Memo = Option<Box<dyn Any + Send>>;

/// A machine, and the tag of its request.
type ListReceiver = (Key, u64);

/// A list, and the machines that receive it.
pub(super) struct SharedList {
    /// Assigned when the list is submitted.
    number: u64,
    path: Arc<str>,
    /// Mostly there is only one.
    first: ListReceiver,
    others: Vec<ListReceiver>,
}

impl SharedList {
    /// Returns whether the session accepts it. `belongs` means that it does in any case.
    fn submit(&self, session: &mut dyn AnySession, belongs: bool) -> Result<(), Error> {
        let list = Request::GetChildren(GetChildrenRequest { path: &self.path, watch: false });
        session.submit(&list, (SHARED, self.number), Submission::InPieces, belongs).map(|_| ())
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
    memo: Option<Memo>,
}

impl SharedLists {
    pub(super) fn memo(&mut self) -> Option<&mut Memo> {
        self.memo.as_mut()
    }

    /// Allows the machines that receive a list to leave something for each other.
    pub(super) fn allow_memo(&mut self, is_shared: bool) {
        self.memo = is_shared.then_some(None);
    }

    /// Lists children for a machine, or makes it wait for the next list of several. Returns whether a
    /// request was submitted.
    pub(super) fn list(
        &mut self,
        session: &mut dyn AnySession,
        path: &Arc<str>,
        receiver: ListReceiver,
        belongs: bool,
    ) -> Result<bool, Error> {
        session.record(|it| it.output(Kind::MACHINE_SUBMIT, &[receiver.1, Recorder::LIST]));
        let Some(list) = self.begin(path, receiver) else {
            let list = Request::GetChildren(GetChildrenRequest { path, watch: false });
            session.record(|it| it.submitted(&list, None, true, None));
            return Ok(false);
        };
        list.submit(session, belongs)?;
        self.submitted(list);
        Ok(true)
    }

    /// Returns a list for this machine alone. `None` if the machine waits for the next shared one.
    fn begin(&mut self, path: &Arc<str>, receiver: ListReceiver) -> Option<SharedList> {
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

    /// Submits the list for the machines that have waited for the reply to this one. Returns it if it
    /// is refused.
    pub(super) fn submit_next(
        &mut self,
        session: &mut dyn AnySession,
        answered: &SharedList,
    ) -> Result<(), (SharedList, Error)> {
        let place = self.next.iter().position(|next| next.path == answered.path);
        let Some(place) = place else { return Ok(()) };
        let next = SharedList { number: self.last_number + 1, ..self.next.swap_remove(place) };
        // The requests were accepted when the machines began to wait.
        match next.submit(session, true) {
            Ok(()) => self.submitted(next),
            Err(error) => return Err((next, error)),
        }
        Ok(())
    }
}
