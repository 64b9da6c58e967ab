//! A session, and all who wait for what it tells.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::collections::HashMap;
use std::io;

use super::Notices;
use crate::connect_string::Member;
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

    /// A caller who has gone away does not want the answer.
    fn answer(caller: Self::Caller, answer: Result<Reply, Error>);

    /// A watch has fired.
    fn fire(watcher: Self::Watcher, event: WatchedEvent);

    /// There is something to be read.
    fn wake(reader: &mut Self::Reader);

    /// A member could not be used, or not any longer.
    fn failed(_: &Failure) {}
}

/// Why a member could not be used: the member, and the reason.
pub(crate) type Failure = (String, String);

pub(crate) struct Hub<C: Channels> {
    pub(crate) session: Session<C::Caller>,
    pub(crate) members: Arc<[Member]>,
    /// What the transport itself said when it failed.
    pub(crate) error: Option<io::Error>,
    pub(crate) last_failure: Option<Failure>,
    watches: HashMap<RequestId, C::Watcher>,
    persistent_watches: HashMap<RequestId, Mailbox<C::Reader>>,
    /// What the session has told already, and whoever is concerned has not been.
    held: VecDeque<Event<C::Caller>>,
}

/// What a persistent watch has to tell, and who waits for it.
pub(crate) struct Mailbox<R> {
    pub(crate) notices: Notices,
    pub(crate) reader: R,
}

impl<C: Channels> Hub<C> {
    pub(crate) fn new(session: Session<C::Caller>, members: Vec<Member>) -> Self {
        Self {
            session,
            members: members.into(),
            error: None,
            last_failure: None,
            watches: HashMap::new(),
            persistent_watches: HashMap::new(),
            held: VecDeque::new(),
        }
    }

    /// How requests fail from now on, if the session has ended.
    pub(crate) fn ended(&self) -> Option<Error> {
        match self.session.state() {
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

    /// Nobody holds the watch any more that a request asked for. Says whether it was still there.
    pub(crate) fn stop_watching(&mut self, request: RequestId) -> bool {
        let was_held = self.watches.remove(&request).is_some()
            || self.persistent_watches.remove(&request).is_some();
        if was_held {
            self.session.unwatch(request);
        }
        was_held
    }

    pub(crate) fn mailbox(&mut self, request: RequestId) -> Option<&mut Mailbox<C::Reader>> {
        self.persistent_watches.get_mut(&request)
    }

    /// Tells whom it concerns the next thing that the session has to tell. If it is a new state, that
    /// is for the face to tell.
    pub(crate) fn tell_next(&mut self) -> Option<Option<State>> {
        let event = self.held.pop_front().or_else(|| self.session.poll_event())?;
        match event {
            Event::State(state) => {
                if let Some(ended) = self.ended() {
                    self.end_watches(&ended);
                }
                return Some(Some(state));
            }
            Event::Disconnected { member, cause } => self.member_failed(member, cause),
            Event::Reply { token, result } => C::answer(token, result),
            Event::Watch { requests, persistent, event } => {
                self.tell(&persistent, |notices| notices.push_event(event.clone()));
                for request in requests {
                    if let Some(watcher) = self.watches.remove(&request) {
                        C::fire(watcher, event.clone());
                    }
                }
            }
            Event::Gap { requests } => self.tell(&requests, Notices::push_gap),
            Event::WatchLost { requests, code } => {
                self.tell(&requests, |notices| notices.end(Error::Server(code)));
            }
            // Whoever waits for room looks by himself; no exchange is asked for.
            Event::Room | Event::Authenticate { .. } => {}
        }
        Some(None)
    }

    /// Replaces the list of members. The session is told which of them it knows.
    pub(crate) fn set_members(&mut self, now: Instant, members: Vec<Member>) {
        let place = |member| members.iter().position(|new| new == member);
        let kept: Vec<_> = self.members.iter().map(place).collect();
        self.session.update_members(now, &kept, members.len());
        // Those that failed until now are known by their old numbers.
        while let Some(event) = self.session.poll_event() {
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
            C::failed(&failure);
            self.last_failure = Some(failure);
        }
    }

    fn tell(&mut self, watches: &[RequestId], tell: impl Fn(&mut Notices)) {
        for request in watches {
            if let Some(mailbox) = self.persistent_watches.get_mut(request) {
                tell(&mut mailbox.notices);
                C::wake(&mut mailbox.reader);
            }
        }
    }

    /// Every watch is over.
    fn end_watches(&mut self, error: &Error) {
        self.watches.clear();
        for mailbox in self.persistent_watches.values_mut() {
            mailbox.notices.end(error.clone());
            C::wake(&mut mailbox.reader);
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

        fn answer((): (), _: Result<Reply, Error>) {}
        fn fire((): (), _: WatchedEvent) {}
        fn wake((): &mut ()) {}
    }

    #[test]
    fn a_member_that_is_left_with_the_list_it_was_in_is_told_by_its_name() {
        let [before, after] = ["before", "after"].map(|host| Member { host: host.into(), port: 1 });
        let session = Session::new(Instant::START, Config::new(1, 0));
        let mut hub = Hub::<Nobody>::new(session, vec![before]);
        hub.set_members(Instant::START, vec![after]);
        while hub.tell_next().is_some() {}
        let failure = ("before:1".into(), Cause::Rebalanced.to_string());
        assert_eq!(hub.last_failure, Some(failure));
    }
}
