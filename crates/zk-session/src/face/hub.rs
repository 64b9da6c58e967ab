//! A session, and all who wait for what it tells.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;
use std::collections::HashMap;
use std::io;

use zk_proto::OpCode;

use super::room::RoomQueue;
use super::{Notices, Place};
use crate::connect_string::Member;
use crate::dispatch::{Dispatcher, Token, Wakers};
use crate::error::{Error, Outcome};
use crate::session::{Cause, Event, Reply, RequestId, Session, State, WatchedEvent};
use crate::time::Instant;

/// How a face reaches those who wait.
pub(crate) trait Channels {
    /// Takes the answer to a request.
    type Caller;
    /// Takes what fires a watch that fires once.
    type Watcher;
    /// Whoever asks a watch that stays.
    type Reader: Default;
    /// Something to report to an observer.
    type Report;

    /// Delivers an answer. A caller who has gone away does not want it. Returns whom to wake.
    fn answer(
        caller: Self::Caller,
        answer: Result<Reply, Error>,
        reports: &mut Vec<Self::Report>,
    ) -> Option<Waker>;

    /// Delivers the event of a watch that has fired. Returns whom to wake.
    fn fire(watcher: Self::Watcher, event: WatchedEvent) -> Option<Waker>;

    /// Ends a watch that has not fired. Returns whom to wake.
    fn end(watcher: Self::Watcher) -> Option<Waker>;

    /// Returns whom to wake, since there is something to be read.
    fn wake(reader: &mut Self::Reader) -> Option<Waker>;

    /// Makes a report of a member that could not be used, or not any longer.
    fn failed(failure: &Failure) -> Self::Report;
}

/// Why a member could not be used: the member, and the reason.
pub(crate) type Failure = (String, String);

pub(crate) struct Hub<C: Channels> {
    pub(crate) dispatcher: Dispatcher<C::Caller>,
    pub(crate) members: Arc<[Member]>,
    /// What the transport itself said when it failed.
    pub(crate) error: Option<io::Error>,
    pub(crate) last_failure: Option<Failure>,
    /// The state that was reported last.
    told: State,
    watches: HashMap<RequestId, C::Watcher>,
    persistent_watches: HashMap<RequestId, Mailbox<C::Reader>>,
    /// What the session has told already, and whoever is concerned has not been.
    held: VecDeque<Event<C::Caller>>,
    room: RoomQueue,
    /// What is to be reported once the session is unlocked, since that runs the user's code.
    pub(crate) reports: Vec<C::Report>,
}

/// What a persistent watch has to tell, and who waits for it.
pub(crate) struct Mailbox<R> {
    pub(crate) notices: Notices,
    pub(crate) reader: R,
}

impl<C: Channels> Hub<C> {
    pub(crate) fn new(session: Session<Token<C::Caller>>, members: Vec<Member>) -> Self {
        Self {
            told: session.state(),
            dispatcher: Dispatcher::new(session),
            members: members.into(),
            error: None,
            last_failure: None,
            watches: HashMap::new(),
            persistent_watches: HashMap::new(),
            held: VecDeque::new(),
            room: RoomQueue::default(),
            reports: Vec::new(),
        }
    }

    /// The session, without what is for the machines that are attached to it.
    pub(crate) fn session(&self) -> &Session<Token<C::Caller>> {
        self.dispatcher.session()
    }

    pub(crate) fn session_mut(&mut self) -> &mut Session<Token<C::Caller>> {
        self.dispatcher.session_mut()
    }

    /// Those that run once the session is unlocked.
    pub(crate) fn wakers(&mut self) -> &mut Wakers {
        &mut self.dispatcher.effects().wakers
    }

    /// The last server that failed, and why it did; or the one that has not answered yet.
    pub(crate) fn last_failure(&self) -> Option<Failure> {
        let waiting_for = || self.members.get(self.session().member()?);
        let silent = |member: &Member| (member.to_string(), Cause::ConnectTimeout.to_string());
        self.last_failure.clone().or_else(|| waiting_for().map(silent))
    }

    /// How requests fail from now on, if the session has ended.
    pub(crate) fn ended(&self) -> Option<Error> {
        match self.session().state() {
            State::Ended(end) => Some(Error::Ended { end, outcome: Outcome::NotApplied }),
            _ => None,
        }
    }

    /// Has `watcher` told when the watch fires that a request asked for.
    pub(crate) fn watch_once(&mut self, request: RequestId, watcher: C::Watcher) {
        self.watches.insert(request, watcher);
    }

    pub(crate) fn keep_watching(&mut self, request: RequestId, buffer: usize) {
        let mailbox = Mailbox { notices: Notices::new(buffer), reader: C::Reader::default() };
        self.persistent_watches.insert(request, mailbox);
    }

    /// Removes a watch that fires once. Returns what was to be fired if it was still there, to be
    /// dropped without the session's lock.
    pub(crate) fn stop_watching(&mut self, request: RequestId) -> Option<C::Watcher> {
        let watcher = self.watches.remove(&request)?;
        self.session_mut().unwatch(request);
        Some(watcher)
    }

    /// Removes a watch that stays. Returns its mailbox, to be dropped without the session's lock.
    pub(crate) fn stop_watching_for_good(
        &mut self,
        request: RequestId,
    ) -> Option<Mailbox<C::Reader>> {
        let mailbox = self.persistent_watches.remove(&request)?;
        self.session_mut().unwatch(request);
        Some(mailbox)
    }

    pub(crate) fn mailbox(&mut self, request: RequestId) -> Option<&mut Mailbox<C::Reader>> {
        self.persistent_watches.get_mut(&request)
    }

    /// Tells whom it concerns the next thing that the session has to tell. If it is a new state,
    /// that is for the face to tell.
    pub(crate) fn tell_next(&mut self, now: Instant) -> Option<Option<State>> {
        let event = self.held.pop_front().or_else(|| self.dispatcher.poll_event(now))?;
        match event {
            Event::State(state) => {
                if let Some(ended) = self.ended() {
                    self.end_watches(&ended);
                }
                self.told = state;
                return Some(Some(state));
            }
            Event::Disconnected { member, cause } => self.member_failed(member, cause),
            Event::Reply { token, result } => {
                let woken = C::answer(token, result, &mut self.reports);
                self.wakers().extend(woken);
            }
            Event::Watch { requests, persistent, event } => {
                self.tell(&persistent, |notices| notices.push_event(event.clone()));
                for request in requests {
                    if let Some(watcher) = self.watches.remove(&request) {
                        self.wakers().extend(C::fire(watcher, event.clone()));
                    }
                }
            }
            Event::Gap { requests } => self.tell(&requests, Notices::push_gap),
            Event::WatchLost { requests, code } => {
                self.tell(&requests, |notices| {
                    notices.end(Error::refused(OpCode::ADD_WATCH, code));
                });
            }
            // Nothing has changed but what the state is worth.
            Event::LeaseEnded => return Some(Some(self.told)),
            // The queue for room is served by `tell_of_room`; no exchange is asked for.
            Event::Room | Event::Authenticate { .. } => {}
        }
        Some(None)
    }

    /// Replaces the list of members. The session is told which of them it knows.
    pub(crate) fn set_members(&mut self, now: Instant, members: Vec<Member>) {
        let place = |member| members.iter().position(|new| new == member);
        let kept: Vec<_> = self.members.iter().map(place).collect();
        self.session_mut().update_members(now, &kept, members.len());
        // Those that failed until now are known by their old numbers.
        while let Some(event) = self.dispatcher.poll_event(now) {
            match event {
                Event::Disconnected { member, cause } => self.member_failed(member, cause),
                event => self.held.push_back(event),
            }
        }
        self.members = members.into();
    }

    fn member_failed(&mut self, member: usize, cause: Cause) {
        let reason = match (self.error.take(), cause) {
            (Some(error), Cause::Transport) => error.to_string(),
            _ => cause.to_string(),
        };
        if let Some(member) = self.members.get(member) {
            let failure = (member.to_string(), reason);
            self.reports.push(C::failed(&failure));
            self.last_failure = Some(failure);
        }
    }

    fn tell(&mut self, watches: &[RequestId], tell: impl Fn(&mut Notices)) {
        for request in watches {
            if let Some(mailbox) = self.persistent_watches.get_mut(request) {
                tell(&mut mailbox.notices);
                self.dispatcher.effects().wakers.extend(C::wake(&mut mailbox.reader));
            }
        }
    }

    /// Every watch is over.
    fn end_watches(&mut self, error: &Error) {
        for watcher in core::mem::take(&mut self.watches).into_values() {
            self.wakers().extend(C::end(watcher));
        }
        for mailbox in self.persistent_watches.values_mut() {
            mailbox.notices.end(error.clone());
            self.dispatcher.effects().wakers.extend(C::wake(&mut mailbox.reader));
        }
    }
}

/// # Room
impl<C: Channels> Hub<C> {
    /// Whether requests are taken now from who waits for that, or never will be.
    pub(crate) fn try_enter(&mut self, place: &mut Place) -> Option<Result<(), Error>> {
        if let Some(ended) = self.ended() {
            return Some(Err(ended));
        }
        let room = self.session().room();
        if !self.room.try_enter(place, room) {
            return None;
        }
        // The next in line may enter without waiting for this request, unless it is the last that
        // there is room for. If it is never made, an answer to another one serves the queue.
        let used = usize::from(self.session().pending() > 0);
        self.room.admit(room - used, &mut self.dispatcher.effects().wakers);
        Some(Ok(()))
    }

    /// Queues `place`, to be woken when it is its turn. Returns the waker it had, to be dropped
    /// without the session's lock.
    pub(crate) fn wait_for_room(&mut self, place: &mut Place, waker: Waker) -> Option<Waker> {
        self.room.wait(place, waker)
    }

    /// Takes `place` out of the queue, and passes its turn on. Returns its waker, to be dropped
    /// without the session's lock.
    pub(crate) fn stop_waiting_for_room(&mut self, place: &mut Place) -> Option<Waker> {
        let waker = self.room.leave(place);
        self.tell_of_room();
        waker
    }

    /// Wakes those who wait for room, in their order, if there is some, or never will be.
    pub(crate) fn tell_of_room(&mut self) {
        if self.room.is_empty() {
            return;
        }
        match self.ended() {
            None => {
                let room = self.session().room();
                self.room.admit(room, &mut self.dispatcher.effects().wakers);
            }
            Some(_) => self.room.dismiss(&mut self.dispatcher.effects().wakers),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::session::Config;

    struct Nobody;

    impl Channels for Nobody {
        type Caller = ();
        type Watcher = ();
        type Reader = ();
        type Report = ();

        fn answer((): (), _: Result<Reply, Error>, _: &mut Vec<()>) -> Option<Waker> {
            None
        }
        fn fire((): (), _: WatchedEvent) -> Option<Waker> {
            None
        }
        fn end((): ()) -> Option<Waker> {
            None
        }
        fn wake((): &mut ()) -> Option<Waker> {
            None
        }
        fn failed(_: &Failure) {}
    }

    #[test]
    fn a_member_that_is_left_with_the_list_it_was_in_is_told_by_its_name() {
        let [before, after] = ["before", "after"].map(|host| Member { host: host.into(), port: 1 });
        let session = Session::new(Instant::START, Config::new(1, 0));
        let mut hub = Hub::<Nobody>::new(session, vec![before]);
        hub.set_members(Instant::START, vec![after]);
        while hub.tell_next(Instant::START).is_some() {}
        let failure = ("before:1".into(), Cause::Rebalanced.to_string());
        assert_eq!(hub.last_failure, Some(failure));
    }
}
