//! The state machines behind the recipes, without sockets, clocks, tasks or randomness.
//!
//! Attach a machine to a session. The [dispatcher](zk_session::dispatch) then drives it:
//!
//! ```
//! use zk_recipes::machine::{AttemptConfig, Contender, Event, Observer, OnSession, Scheme};
//! use zk_recipes::session::dispatch::{Dispatcher, Key, Port};
//! use zk_recipes::session::time::Instant;
//!
//! /// Receives the events of the lock.
//! struct Owner;
//!
//! impl Observer for Owner {
//!     fn observe(&mut self, event: Event, _port: &mut Port<'_>) {
//!         match event {
//!             Event::Acquired { token, .. } => println!("acquired, fencing token {}", token.0),
//!             Event::Lost(loss) => println!("lost: {loss}"),
//!             _ => {}
//!         }
//!     }
//! }
//!
//! /// Enters the queue of an exclusive lock. `attempt` counts the attempts of this program.
//! fn enter_queue<T>(dispatcher: &mut Dispatcher<T>, now: Instant, attempt: u64) -> Key {
//!     let guid = uuid::Uuid::from_u128(attempt.into());
//!     let config = AttemptConfig::new("/locks/printer".into(), Scheme::CURATOR_MUTEX, guid);
//!     let machine = OnSession::new(Contender::new(config), Owner, attempt);
//!     dispatcher.attach(now, Box::new(machine))
//! }
//! ```
//!
//! The example `no_runtime` of this crate is a complete program with its own event loop.
//!
//! # Parts
//!
//! * The machines: [`Contender`] (locks), [`SemaphoreMachine`] (permits), [`ElectionMachine`]
//!   (leader election), [`Participant`] (double barrier) and [`BarrierWait`]. Each performs one
//!   attempt. Create another one for the next attempt.
//! * [`OnSession`] makes a machine [`Attached`](zk_session::dispatch::Attached). It can be attached
//!   before there is a connection or a session.
//! * [`Observer`] receives the [`Event`]s of the machine. [`Event`] says which of them end an
//!   attempt.
//! * [`Command`] is a request of the owner, sent with
//!   [`Dispatcher::command`](zk_session::dispatch::Dispatcher::command). The most important one is
//!   [`Release`](Command::Release): it releases the lock or stops waiting for it.
//!
//! # Release
//!
//! After [`Release`](Command::Release), or an error, the machine stays attached until none of its
//! nodes is left on the server, or the session has ended. Then [`Observer::finish`] is called, or
//! the observer is dropped. A session that closes earlier cannot confirm the release.
//! [`Dispatcher::close_when_done`](zk_session::dispatch::Dispatcher::close_when_done) waits for all
//! machines.
//!
//! # Paths
//!
//! All paths are those of the server. Put the [chroot](zk_session::Chroot) before the path of a
//! machine, and set [`chroot_length`](AttemptConfig::chroot_length): a chroot is never created.
//!
//! # A machine of your own
//!
//! Implement [`Machine`], and [`OnSession`] attaches it as well. It begins with the first
//! [state](Machine::session_changed), submits any requests by its [`Turn`], and receives their replies
//! by [`Machine::handle_reply`]. [`Event`]s are those of locks: report anything else by a channel of the
//! machine, or implement [`Attached`](zk_session::dispatch::Attached) instead. The example `appearance` of
//! this crate is such a machine, attached to a client: it waits until a node exists.
//!
//! # Without a dispatcher
//!
//! Whatever implements [`Host`](zk_session::dispatch::Host) can stand behind the port of a machine:
//! a model checker, or a test that records what the machine does. Give the inputs in the order in
//! which the session reports them, beginning with the current
//! [state](zk_session::dispatch::Input::State), each with a [`Turn::new`]. [`OnSession`] is the
//! reference. Its [`Watches`] renew watches that stay silent; without that, a lost watch event would
//! make a machine wait for ever.

pub mod multi_lock {
    //! The core of a lock on several locks at once, and the order in which to acquire them.

    pub use crate::multi_lock::{
        Input, LockSpec, Mode, MultiAcquire, MultiLockError, Output, acquisition_order,
    };
}

pub use crate::attempt::{
    AccessList, AttemptConfig, Command, DisconnectPolicy, Event, LockMode, Machine, Name, NodeName,
    Observer, OnSession, OpId, Parents, QueuedNode, Renewal, Requeuing, Restart, Scheme, Turn,
    UnknownNodePolicy, WaitPolicy, Watches, queue_order,
};
pub use crate::barrier::BarrierWait;
pub use crate::cache::{
    CacheConfig, CacheEvent, CacheMachine, CacheOutput, CacheRequest, CacheState, CacheTree,
    CachedNode,
};
pub use crate::election::{ElectionMachine, Leadership, Term};
pub use crate::ephemeral::{EphemeralMachine, Presence};
pub use crate::lock::{Contender, FastPathHint, HintCell};
pub use crate::textbook::{HerdContender, SimpleContender};
#[cfg(feature = "full")]
pub use crate::{
    double_barrier::Participant,
    lock::{cohort, idle_watch::IdleWatch},
    semaphore::{PermitRequest, SemaphoreMachine},
};
