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
//! When a session is [renewed](crate::session::State::Renewing), its machines receive
//! `State::Ended(End::Expired)` and are detached at once, except those that [outlive
//! it](Attached::outlives_session). Nothing that a machine submitted on the old session reaches the
//! new one.
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
//!
//! [`Event::Reply`]: crate::session::Event::Reply
//! [`Instant`]: crate::time::Instant
//! [`Session`]: crate::session::Session
//! [`Session::handle_sent`]: crate::session::Session::handle_sent
//! [`Session::output`]: crate::session::Session::output
//! [`Session::poll_action`]: crate::session::Session::poll_action
//! [`State::Ended`]: crate::session::State::Ended

mod any_session;
pub(crate) mod attached;
#[cfg(feature = "blocking")]
pub(crate) mod attachment;
mod dispatcher;
pub(crate) mod effects;
mod machines;
pub(crate) mod port;
mod seat;
mod shared_lists;
mod shared_session;
pub(crate) mod token;
#[cfg_attr(not(feature = "blocking"), path = "unwatched.rs")]
pub(crate) mod watchers;

#[cfg(test)]
mod tests;

pub use self::attached::{Attached, Input};
#[cfg(feature = "blocking")]
pub use self::attachment::Attachment;
pub use self::dispatcher::Dispatcher;
pub use self::effects::Effects;
pub use self::port::{Host, Port, Submission};
pub use self::shared_session::SharedSession;
pub use self::token::{Key, Token};
