//! State machines that are attached to a session.
//!
//! A [`Dispatcher`] owns a [`Session`] and the machines that are [attached](Attached) to it. Each
//! machine receives its replies, watch events, timers and the states of the session, in the order
//! of the session's events. The dispatcher has no socket, clock, task or source of randomness. Both
//! clients of this crate are built on it, and so is [`Loop`](crate::event_loop::Loop), which drives it
//! over any transport. In the repository, `crates/zk-session/examples/counter.rs` is a machine,
//! attached to the tokio client.
//!
//! # The loop
//!
//! A driver of your own does what [`Loop::turn`](crate::event_loop::Loop::turn) does:
//!
//! ```text
//!   drain:   events -> effects -> actions -> output <--+
//!     |                                                |
//!   wait:    for bytes, until poll_timeout             |
//!     |                                                |
//!   input:   bytes; settle; handle_timeout ------------+
//! ```
//!
//! 1. **Drain.** Start with this step, because a new session already has an action. Repeat the
//!    following until nothing is left:
//!    * Call [`poll_event`](Dispatcher::poll_event) until it returns `None`. It delivers events to
//!      the machines, and returns those of the owner.
//!    * [Run the effects](Dispatcher::take_effects), without a lock on the dispatcher.
//!    * Take one action from [`Session::poll_action`] and carry it out.
//!    * Without an action, write [`Session::output`] and report to [`Session::handle_sent`] what
//!      the transport took.
//! 2. **Wait** for bytes until [`poll_timeout`](Dispatcher::poll_timeout).
//!    * Get the timeout after the drain, because deliveries change it.
//!    * If the dispatcher [is unsettled](Dispatcher::is_unsettled), do not wait: read only what has
//!      arrived.
//!    * Limit every other blocking step, such as connecting, by the same timeout: the end of the
//!      lease may be due then.
//! 3. **Input.** Then drain again.
//!    * Report to [`session_mut`](Dispatcher::session_mut) what the transport did
//!      (`handle_connected`, `handle_frame`, `handle_disconnected`, ...).
//!    * If the dispatcher was unsettled and nothing had arrived, call
//!      [`settle`](Dispatcher::settle).
//!    * Call [`handle_timeout`](Dispatcher::handle_timeout). Before the deadline it does nothing.
//!
//! [`attach`](Dispatcher::attach), [`command`](Dispatcher::command) and the commands of the session
//! (`submit`, `close`, ...) are input too: drain after them.
//!
//! The loop ends when the session is in [`State::Ended`] and drained.
//!
//! [`poll_timeout`](Dispatcher::poll_timeout) and [`settle`](Dispatcher::settle) are wrong while
//! events or due timers are undrained: the loop would sleep too long, or a machine would settle too
//! early. In builds with debug assertions they panic then. Every other method may be called at any
//! time.
//!
//! # Time
//!
//! Every `now` must be the current time of one clock (see [`Instant`]). A `now` that is too early
//! delays the end of a lease. [`Port::now`] is the `now` of the current call.
//!
//! # What a machine receives
//!
//! * **States.** The first input is the state that was delivered last, so a machine attached
//!   between two events misses none. Each later state goes to all machines.
//! * **Replies.** Each request of a machine is answered once, under its tag; a long reply comes in
//!   several pieces, if the machine [asked for that](Port::submit_in_pieces). If the session refuses
//!   a request (no room, too long, no connection for too long), the answer is an error as well. It
//!   comes from the next [`settle`](Dispatcher::settle), never within the call that made the
//!   request. Machines that [list](Port::list) the same children at once may share the reply.
//! * **Watch events**, for requests made by [`Port::submit_and_watch`]. The machine owns the watch
//!   until it fires, or the machine [drops](Port::unwatch) it or is detached. Machines and callers
//!   that watch the same node all receive the event. The session sets watches again on a new
//!   connection. A persistent watch then has a [gap](Input::Gap), or is [lost](Input::WatchLost).
//! * **Timers.** Each machine has one. It fires in the drain after
//!   [`handle_timeout`](Dispatcher::handle_timeout), behind the events of the session.
//! * **The end of the lease.** Its deadline is part of [`poll_timeout`](Dispatcher::poll_timeout).
//!   If a stopped process delivers another input late, the machine learns of the end in the same
//!   call: see [`Input::LeaseEnded`].
//! * **`Settled`**, after [`Port::settle`].
//!
//! [`State::Ended`] is the last input. All requests that were sent or queued are answered before
//! it. Refusals that are not delivered by then are dropped, and so are watches and timers. The
//! machine is detached when the drain ends.
//!
//! When a session is [renewed](State::Renewing), its machines receive `State::Ended(End::Expired)`
//! and are detached at once, except those that [outlive it](Attached::outlives_session). Nothing that
//! a machine submitted on the old session reaches the new one.
//!
//! # What the owner receives
//!
//! [`poll_event`](Dispatcher::poll_event) returns every event that does not belong to machines
//! alone. States and the end of the lease go to both.
//!
//! * **Replies.** The owner submits requests by `session_mut().submit(&request,
//!   Token::Caller(token))`. The reply is an [`Event::Reply`] with that `token`. A refusal is the
//!   `Err` of `submit`.
//! * **Watch events.** The [`RequestId`](crate::session::RequestId) that `submit` returns
//!   identifies the owner's watches.
//!
//! # Memory
//!
//! In addition to the session's own memory:
//!
//! * one slot for each machine that is attached at a time (slots are reused);
//! * one entry for each watch and timer of a machine;
//! * one entry for each refusal, until it is delivered;
//! * effects, including finished machines, until they are taken.

#[cfg(feature = "blocking")]
pub(crate) mod attachment;
pub(crate) mod effects;
mod machines;
pub(crate) mod port;
mod seat;
#[cfg_attr(not(all(feature = "full", feature = "blocking")), path = "unshared_lists.rs")]
mod shared_lists;
mod shared_session;
#[cfg_attr(not(feature = "blocking"), path = "unwatched.rs")]
pub(crate) mod watchers;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::any::Any;

pub use self::effects::Effects;
pub use self::machines::Key;
use zk_proto::ErrorCode;
use zk_proto::recording::{Description, FieldReader, Kind};

#[cfg(feature = "blocking")]
pub use self::attachment::Attachment;
use self::effects::Wakers;
use self::machines::Machines;
pub use self::port::{Host, Port, Submission};
pub use self::shared_session::SharedSession;
use crate::error::Error;
use crate::session::{Event, PERSISTENT_WATCHES, Reply, Session, State, WatchedEvent};
use crate::time::{Instant, earlier};

/// A state machine that can be attached to a session.
///
/// The dispatcher calls its methods synchronously; a client calls it with the session locked. They
/// must not block. They act on the session through the [`Port`]. Wakers and user code go to
/// [`Port::wake`] and [`Port::defer`]. They are `Send` on boards, too, so that interrupts and tasks can
/// share a session, as a resource of RTIC or in a mutex of embassy.
///
/// ```
/// use zk_session::dispatch::{Attached, Dispatcher, Input, Port};
/// use zk_session::proto::{ExistsRequest, Request};
/// use zk_session::session::{Config, Session};
/// use zk_session::time::Instant;
///
/// /// Asks once whether a node exists.
/// #[derive(Default)]
/// struct Probe {
///     is_sent: bool,
///     is_done: bool,
/// }
///
/// impl Attached for Probe {
///     fn handle(&mut self, input: Input, port: &mut Port<'_>) {
///         match input {
///             Input::State(_) if !self.is_sent => {
///                 self.is_sent = true;
///                 let request = ExistsRequest { path: "/node", watch: false };
///                 port.submit(0, &Request::Exists(request));
///             }
///             Input::Reply { result, .. } => {
///                 println!("{result:?}");
///                 self.is_done = true;
///             }
///             _ => {}
///         }
///     }
///
///     fn is_done(&self) -> bool {
///         self.is_done
///     }
/// }
///
/// let session = Session::new(Instant::START, Config::new(3, 42));
/// let mut dispatcher: Dispatcher<()> = Dispatcher::new(session);
/// dispatcher.attach(Instant::START, Box::new(Probe::default()));
/// assert_eq!(dispatcher.attached(), 1);
/// assert_eq!(dispatcher.session().pending(), 1);
/// ```
pub trait Attached: Send {
    /// Handles the next input.
    fn handle(&mut self, input: Input, port: &mut Port<'_>);

    /// Handles a message from the machine's owner. The machine may leave its answer in the message.
    /// The default ignores messages.
    fn command(&mut self, _message: &mut dyn Any, _port: &mut Port<'_>) {}

    /// Returns whether the machine is finished. The dispatcher checks it after each call of the
    /// other methods.
    ///
    /// The dispatcher detaches a finished machine, and drops its watches and its timer. The
    /// machine's requests are still sent, but their replies are discarded. The machine itself is
    /// dropped as one of the [effects](Effects). Its `Drop` must not wait for the session.
    fn is_done(&self) -> bool;

    /// Returns whether the machine stays attached when the session is
    /// [renewed](crate::session::State::Renewing). The default is `false`.
    ///
    /// * `false`: the machine receives `State::Ended(End::Expired)` as its last input.
    /// * `true`: it receives [`State::Renewing`]. Its watches are gone by then. Requests that end
    ///   with the session, and those that it makes in this call, have failed without a reply. Later
    ///   requests wait for the new session.
    fn outlives_session(&self) -> bool {
        false
    }

    /// Describes the machine's configuration, for [recordings](crate::recording). It is called
    /// before the first input. The default describes nothing, so a replay does not make the machine
    /// again.
    fn describe(&self, _description: &mut Description<'_>) {}

    /// Describes a message for [`command`](Self::command). The default describes nothing.
    fn describe_command(&self, _message: &dyn Any, _description: &mut Description<'_>) {}

    /// Returns the message of a description. With `None`, the default, a replay passes `()`.
    fn described_command(&self, _description: FieldReader<'_>) -> Option<Box<dyn Any>> {
        None
    }
}

/// An input of an attached machine. Inputs come in the order of the session's events.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// The state of the session: first the one that was delivered last, then each new one, unless
    /// only the index of the server is new. [`State::Ended`] is the last input.
    State(State),
    /// The reply to a request, or the error that replaces it.
    ///
    /// If the session refuses a request, the next [`settle`](Dispatcher::settle) delivers the
    /// error.
    Reply {
        /// The tag of the request.
        tag: u64,
        /// The reply of the server, or the error that replaces it.
        result: Result<Reply, Error>,
    },
    /// A watch has fired. It is no longer set, unless it is persistent.
    Watch {
        /// The tag of the request that set it.
        tag: u64,
        /// The change of the node.
        event: WatchedEvent,
    },
    /// A persistent watch may have missed events: there is a new connection, whose state came before.
    Gap {
        /// The tag of the request that set the watch.
        tag: u64,
    },
    /// A server that is too old has refused to set a persistent watch again. It is no longer set.
    WatchLost {
        /// The tag of the request that set the watch.
        tag: u64,
        /// The refusal.
        code: ErrorCode,
    },
    /// The lease of the session [has ended](crate::session::Event::LeaseEnded), with or without a
    /// connection.
    ///
    /// A machine may receive the same end several times. If the lease has already ended, it
    /// receives this:
    ///
    /// * right after it is attached, and right after it receives a state;
    /// * right before and right after it receives a command;
    /// * right before it receives [`Settled`](Self::Settled).
    LeaseEnded,
    /// The owner [closes](Dispatcher::close) the session. What the machine holds is gone as soon as
    /// the server executes that. Requests are refused from now on.
    Closing,
    /// The time of the [timer](Port::set_timer) has come. No timer is set now.
    Timer,
    /// Everything that had arrived at the time of [`Port::settle`] is delivered.
    Settled,
}

/// Identifies a request and the receiver of its reply.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<T> {
    /// The dispatcher's owner receives the reply, as an [`Event::Reply`] of
    /// [`poll_event`](Dispatcher::poll_event) with this token.
    Caller(T),
    /// An attached machine receives the reply, with this tag. [`Port::submit`] makes these.
    Machine(Key, u64),
}

impl<T> Token<T> {
    /// Returns the token once more, for a piece of a reply to a machine.
    fn again(&self) -> Option<Self> {
        match self {
            Self::Caller(_) => None,
            Self::Machine(key, tag) => Some(Self::Machine(*key, *tag)),
        }
    }
}

/// A session and its attached machines. See the [module](self) for how to drive it.
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
    machines: Machines,
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

    /// Delivers refusals, and [`Settled`](Input::Settled) to machines that called [`Port::settle`].
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
