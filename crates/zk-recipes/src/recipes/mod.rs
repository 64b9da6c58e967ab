//! The recipes, for any [`SessionClient`].
//!
//! Each recipe attaches a [machine](crate::machine) to the session of a client, and returns a
//! guard. Methods that take time return a [`Pending`] operation or a [`Signal`], for tasks and
//! threads.

mod abandoned;
mod barrier;
#[cfg(feature = "full")]
mod cache;
mod call;
mod client;
mod connection;
mod contenders;
#[cfg(feature = "full")]
mod conversion;
#[cfg(feature = "full")]
mod double_barrier;
mod ephemeral;
mod guard;
mod guid;
#[cfg_attr(not(feature = "full"), path = "no_hand_over.rs")]
mod hand_over;
#[cfg(feature = "study")]
mod herd;
mod hint_cache;
mod leader;
mod local_queue;
mod lock_request;
mod loss;
mod multi_lock;
mod mutex;
mod observed;
mod once;
mod options;
mod pending;
mod queue;
mod reentrant;
mod reporter;
mod run;
mod rw_lock;
#[cfg(feature = "full")]
mod semaphore;
#[cfg(feature = "study")]
mod simple;
mod status;

pub use self::barrier::Barrier;
#[cfg(feature = "full")]
pub use self::cache::{Cache, CacheChange, CacheChanges, CacheOptions};
pub use self::client::SessionClient;
#[cfg(feature = "blocking")]
pub(crate) use self::connection::Lookout;
pub use self::contenders::QueueEntry;
#[cfg(feature = "full")]
pub use self::conversion::NotConverted;
#[cfg(feature = "full")]
pub use self::double_barrier::{BarrierGuard, DoubleBarrier};
pub use self::ephemeral::Ephemeral;
pub use self::guard::{FencingToken, Guard, Holding};
#[cfg(feature = "study")]
pub use self::herd::HerdMutex;
pub use self::leader::{Candidate, LeaderElection};
pub use self::lock_request::LockRequest;
pub use self::loss::MultiLoss;
pub use self::multi_lock::{MultiGuard, MultiLock};
pub use self::mutex::Mutex;
pub use self::options::{Attempt, Options};
pub use self::pending::{NextPlace, Pending, Signal};
pub use self::reentrant::{Owner, ReentrantGuard, ReentrantMutex};
pub use self::run::RunError;
pub use self::rw_lock::{ReadGuard, RwLock, WriteGuard};
#[cfg(feature = "full")]
pub use self::semaphore::Semaphore;
#[cfg(feature = "study")]
pub use self::simple::SimpleLock;
pub use self::status::Place;
