//! The recipes, generic over the client.
//!
//! Each recipe attaches a [machine](crate::machine) to the session of a client, and hands out a
//! guard. The root of the crate and the module `blocking` name the types of the async and of the
//! blocking client; [`Mutex`] there is `Mutex<C>` here, for one `C`.
//!
//! What both clients share is written once, for any [`SessionClient`]. Methods that wait have the
//! same names and rules for both: those of the async client return a future, those of the blocking
//! client run it. Docs of such a method appear twice below, once for each client.

mod abandoned;
mod barrier;
#[cfg(feature = "persistent-watches")]
mod cache;
mod call;
pub(crate) mod client;
mod connection;
pub(crate) mod contenders;
#[cfg(feature = "conversions")]
mod conversion;
#[cfg(feature = "semaphore")]
mod double_barrier;
mod ephemeral;
mod guid;
mod held;
#[cfg(feature = "study")]
mod herd;
mod hint_cache;
mod leader;
mod local_queue;
mod lock_request;
mod loss;
pub(crate) mod macros;
mod multi_lock;
mod mutex;
mod observed;
mod once;
mod options;
mod queue;
mod reentrant;
mod reporter;
mod rw_lock;
#[cfg(feature = "semaphore")]
mod semaphore;
#[cfg(feature = "study")]
mod simple;
mod status;

pub use self::barrier::Barrier;
#[cfg(feature = "persistent-watches")]
pub use self::cache::{Cache, CacheChange, CacheChanges, CacheOptions};
pub use self::client::SessionClient;
pub use self::contenders::QueueEntry;
#[cfg(feature = "conversions")]
pub use self::conversion::NotConverted;
#[cfg(feature = "semaphore")]
pub use self::double_barrier::{BarrierGuard, DoubleBarrier};
pub use self::ephemeral::Ephemeral;
pub use self::held::{HeldLock, Holding};
#[cfg(feature = "study")]
pub use self::herd::{HerdGuard, HerdMutex};
pub use self::leader::{Candidate, LeaderElection};
pub(crate) use self::leader::{Publish, SharedLeadership};
pub use self::lock_request::LockRequest;
pub use self::loss::MultiLoss;
pub use self::multi_lock::{MultiGuard, MultiLock};
pub use self::mutex::{Mutex, MutexGuard};
pub use self::options::{Attempt, Options};
pub use self::reentrant::{Owner, ReentrantGuard, ReentrantMutex};
pub use self::rw_lock::{ReadGuard, RwLock, WriteGuard};
#[cfg(feature = "semaphore")]
pub use self::semaphore::{PermitGuard, Semaphore};
#[cfg(feature = "study")]
pub use self::simple::{SimpleGuard, SimpleLock};
