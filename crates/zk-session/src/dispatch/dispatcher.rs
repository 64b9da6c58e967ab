//! A session with its attached machines, and what is delivered to whom.

use alloc::boxed::Box;
use core::any::Any;

use zk_proto::recording::Kind;

use super::attached::{Attached, Input};
use super::effects::{Effects, Wakers};
use super::machines::Machines;
use super::shared_session::SharedSession;
use super::token::{Key, Token};
use crate::error::Error;
use crate::session::{Event, PERSISTENT_WATCHES, Reply, Session, State};
use crate::time::{Instant, earlier};

/// A session and its attached machines. See the [module](super) for how to drive it.
///
/// `T` is the token of the owner's requests.
///
/// ```
/// use zk_session::dispatch::{Dispatcher, Token};
/// use zk_session::proto::{GetDataRequest, Request};
/// use zk_session::session::{Action, Config, Session};
/// use zk_session::time::Instant;
///
/// let now = Instant::START;
/// let mut dispatcher = Dispatcher::new(Session::new(now, Config::new(1, 42)));
/// let request = Request::GetData(GetDataRequest { path: "/a", watch: false });
/// dispatcher.session_mut().submit(&request, Token::Caller("my token"))?;
/// // Drain before the first wait.
/// assert_eq!(dispatcher.poll_event(now), None);
/// dispatcher.take_effects().run();
/// assert_eq!(dispatcher.session_mut().poll_action(), Some(Action::Connect(0)));
/// assert!(dispatcher.poll_timeout().is_some());
/// # Ok::<(), zk_session::Error>(())
/// ```
#[derive(Debug)]
pub struct Dispatcher<T> {
    pub(crate) session: SharedSession<T>,
    pub(crate) machines: Machines,
}

impl<T> Dispatcher<T> {
    /// Makes a dispatcher for a new session. Drain it before the first wait: the session already
    /// has an action, to connect.
    ///
    /// # Panics
    ///
    /// With debug assertions, if the session has events that were not polled.
    pub fn new(session: Session<Token<T>>) -> Self {
        debug_assert!(!session.has_events(), "new: the session has events");
        Self { machines: Machines::new(session.state()), session: SharedSession(session) }
    }

    /// Returns the session.
    pub fn session(&self) -> &Session<Token<T>> {
        &self.session
    }

    /// Returns the session, for its inputs, commands, actions and output.
    pub fn session_mut(&mut self) -> &mut SharedSession<T> {
        &mut self.session
    }

    /// Attaches a machine. The machine receives the state of the session before this returns, and
    /// may be finished and detached by then. If the session has ended, it always is.
    pub fn attach(&mut self, now: Instant, machine: Box<dyn Attached>) -> Key {
        self.session.0.recorder.attached(now, &*machine);
        let key = self.machines.attach(&mut self.session.0, now, machine);
        self.session.0.recorder.end();
        key
    }

    /// Delivers a message to a machine. Returns whether the machine is attached.
    ///
    /// If the [lease](Session::lease) has ended, the machine receives
    /// [`LeaseEnded`](Input::LeaseEnded) before and after the message.
    pub fn command(&mut self, now: Instant, key: Key, message: &mut dyn Any) -> bool {
        self.session.0.recorder.commanded(now, key, self.machines.get(key), message);
        let attached = self.machines.command(&mut self.session.0, now, key, message);
        self.session.0.recorder.end();
        attached
    }

    /// Returns the number of attached machines.
    pub fn attached(&self) -> usize {
        self.machines.count()
    }

    /// Closes the session, behind all requests submitted before: see [`Session::close`].
    ///
    /// The machines receive [`Closing`](Input::Closing) before this returns, and so before the
    /// request leaves. So no owner relies on a lock that the servers may give to somebody else.
    pub fn close(&mut self, now: Instant) {
        self.session.0.recorder.begin(Kind::CLOSE_ALL, now, &[]);
        // First, since it spares the removal of the machines' watches.
        self.session.0.close();
        self.machines.deliver_closing(&mut self.session.0, now);
        self.session.0.recorder.end();
    }

    /// Closes the session when no machine is attached: now, or when the last one is detached.
    pub fn close_when_done(&mut self) {
        self.session.0.recorder.begin(Kind::CLOSE_WHEN_DONE, Instant::START, &[]);
        self.machines.close_when_done(&mut self.session.0);
        self.session.0.recorder.end();
    }

    /// Delivers events to the machines until one is for the owner, and returns that one. Returns
    /// `None` when everything is delivered.
    ///
    /// Due timers come behind the session's events. When the session has ended and nothing is left,
    /// all machines are detached.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event<T>> {
        self.deliver(now, None::<fn(_, _, &mut _)>)
    }

    /// Delivers events as [`poll_event`](Self::poll_event) does, and with `reply` the owner's replies
    /// as well. A recording has a poll for each of them.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        now: Instant,
        mut reply: Option<impl FnMut(T, Result<Reply, Error>, &mut Wakers)>,
    ) -> Option<Event<T>> {
        let Self { session: SharedSession(session), machines } = self;
        let is_recorded = session.recorder.is_on() && (session.reports() || machines.is_due());
        if is_recorded {
            session.recorder.begin(Kind::POLL, now, &[]);
        }
        let event = loop {
            let Some(event) = session.poll_event() else {
                if machines.deliver_timer(session, now) {
                    continue;
                }
                break None;
            };
            break Some(match event {
                Event::Reply { token: Token::Machine(key, tag), result } => {
                    machines.deliver_reply(session, now, key, tag, result);
                    continue;
                }
                Event::Reply { token: Token::Caller(token), result } => {
                    let Some(reply) = &mut reply else {
                        break Some(Event::Reply { token, result });
                    };
                    reply(token, result, &mut machines.effects.wakers);
                    if is_recorded && (session.reports() || machines.is_due()) {
                        session.recorder.end();
                        session.recorder.begin(Kind::POLL, now, &[]);
                    }
                    continue;
                }
                Event::Watch { mut requests, mut persistent, event } => {
                    let input = |tag| Input::Watch { tag, event: event.clone() };
                    machines.deliver_to_watchers(session, now, &mut requests, true, input);
                    if PERSISTENT_WATCHES {
                        machines.deliver_to_watchers(session, now, &mut persistent, false, input);
                    }
                    if requests.is_empty() && persistent.is_empty() {
                        continue;
                    }
                    Event::Watch { requests, persistent, event }
                }
                Event::State(State::Renewing) if cfg!(feature = "full") => {
                    machines.renew(session, now);
                    session.renew(now);
                    Event::State(State::Renewing)
                }
                Event::State(state) => {
                    machines.deliver_state(session, now, state);
                    Event::State(state)
                }
                Event::LeaseEnded => {
                    machines.deliver_end_of_lease(session, now);
                    Event::LeaseEnded
                }
                Event::Disconnected { server, cause } => Event::Disconnected { server, cause },
                Event::Authenticate { server } => Event::Authenticate { server },
                Event::AuthenticationReply { server, result } => {
                    Event::AuthenticationReply { server, result }
                }
                Event::Gap { mut requests } => {
                    if PERSISTENT_WATCHES {
                        let input = |tag| Input::Gap { tag };
                        machines.deliver_to_watchers(session, now, &mut requests, false, input);
                    }
                    if requests.is_empty() {
                        continue;
                    }
                    Event::Gap { requests }
                }
                Event::WatchLost { mut requests, code } => {
                    if PERSISTENT_WATCHES {
                        let input = |tag| Input::WatchLost { tag, code };
                        machines.deliver_to_watchers(session, now, &mut requests, true, input);
                    }
                    if requests.is_empty() {
                        continue;
                    }
                    Event::WatchLost { requests, code }
                }
                Event::Room => Event::Room,
            });
        };
        if is_recorded {
            session.recorder.end();
        }
        event
    }

    /// Returns whether [`settle`](Self::settle) has something to deliver. If so, do not sleep: read
    /// what has arrived, and settle when there is nothing more to read.
    pub fn is_unsettled(&self) -> bool {
        self.machines.is_unsettled()
    }

    /// Delivers refusals, and [`Settled`](Input::Settled) to machines that called
    /// [`Port::settle`](super::Port::settle).
    ///
    /// Call it when the transport has nothing more to read and the events are drained. Drain them
    /// again afterwards. Requests that are refused meanwhile wait for the next call. So a machine
    /// that repeats a refused request at once keeps the loop awake, but does not keep it here.
    ///
    /// # Panics
    ///
    /// With debug assertions, if events or due timers are undrained.
    pub fn settle(&mut self, now: Instant) {
        debug_assert!(!self.has_events(), "settle: drain the events first");
        if self.session.0.recorder.is_on() && !self.is_unsettled() {
            return;
        }
        self.session.0.recorder.begin(Kind::SETTLE, now, &[]);
        self.machines.settle(&mut self.session.0, now);
        self.session.0.recorder.end();
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), or `None` if nothing is due
    /// ever.
    ///
    /// This is the earliest of the session's deadlines (connecting, pings, the end of the lease,
    /// ...) and the machines' timers.
    ///
    /// # Panics
    ///
    /// With debug assertions, if events or due timers are undrained: their delivery can change it.
    pub fn poll_timeout(&self) -> Option<Instant> {
        debug_assert!(!self.has_events(), "poll_timeout: drain the events first");
        self.next_deadline()
    }

    /// Returns the same without the check, for a thread that wakes the loop but does not sleep.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        earlier(self.session.poll_timeout(), self.next_timer())
    }

    /// Returns when the next timer of a machine is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.machines.poll_timeout()
    }

    /// Returns whether [`poll_event`](Self::poll_event) has something to deliver, besides
    /// [`Event::Room`].
    pub(crate) fn has_events(&self) -> bool {
        self.session.has_events() || self.machines.has_events()
    }

    /// Handles the deadlines that have come by `now`. Does nothing if there is none. The next drain
    /// delivers the machines' timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.session.0.recorder.is_on() && self.next_deadline().is_some_and(|due| due <= now) {
            self.session.0.recorder.input(Kind::TIMEOUT, Some(now), &[]);
        }
        self.session.0.handle_timeout(now);
        self.machines.handle_timeout(now);
    }

    /// Takes the effects, to run them without a lock. Call it after each drain.
    #[must_use = "effects do nothing until they are run"]
    pub fn take_effects(&mut self) -> Effects {
        core::mem::take(self.effects())
    }

    pub(crate) fn effects(&mut self) -> &mut Effects {
        &mut self.machines.effects
    }
}
