//! Distributed locks for threads that block, without an async runtime.
//!
//! The same [machines](crate::machine) drive the async locks, so options, node names, guarantees
//! and cost are the same. [`Options`](crate::Options) and the errors are at the root of the crate.
//! A client has one thread, and a lock has none: a thread that waits for a lock reads from the
//! connection itself if no other thread does.
//!
//! ```no_run
//! use core::time::Duration;
//! use zk_recipes::blocking::Mutex;
//! use zk_recipes::session::blocking::Client;
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181/app")?;
//! let mutex = Mutex::new(&client, "/locks/printer")?;
//!
//! let guard = mutex.acquire()?;
//! // Give this to the resource that the lock protects, and have it refuse smaller ones.
//! let token = guard.fencing_token();
//! guard.release()?;
//!
//! if let Ok(guard) = mutex.acquire_timeout(Duration::from_secs(1)) {
//!     guard.on_lost(|loss| eprintln!("stop: {loss}"));
//!     // A guard that is dropped releases the lock in the background.
//! }
//! // Waits until the session has ended. If the process exits without this, the servers may keep
//! // what is held until the session times out.
//! client.close();
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting
//!
//! A thread that waits for a lock stops waiting when it gets the lock, when its time limit has
//! passed, or when the session ends. To stop all waiting threads of a client,
//! [close](Client::close) a clone of it. `_timeout` methods take a
//! [`Duration`](core::time::Duration); there are none that take a deadline. Guards are `Send` and
//! `Sync`.
//!
//! # Callbacks
//!
//! An [observer](crate::Options::observer) and an [`on_lost`](Held::on_lost) callback run in a
//! thread that calls a method of the client, or in one of their own. They may use the client, and
//! wait for it. They run one at a time, so a callback that waits delays the others. If one panics,
//! the others still run.

mod barrier;
mod double_barrier;
mod held;
mod leader;
mod listing;
mod multi_lock;
mod mutex;
mod reentrant;
mod rw_lock;
mod semaphore;
mod waiting;

pub use self::barrier::Barrier;
pub use self::double_barrier::{BarrierGuard, DoubleBarrier};
pub use self::leader::{Candidate, LeaderElection};
pub use self::multi_lock::{MultiGuard, MultiLock, Part};
pub use self::mutex::{Mutex, MutexGuard};
pub use self::reentrant::{ReentrantGuard, ReentrantMutex};
pub use self::rw_lock::{ReadGuard, RwLock, WriteGuard};
pub use self::semaphore::{PermitGuard, Semaphore};

use zk_session::blocking::Client;

/// A lock that is held, as every guard of the blocking locks reports it.
pub type Held = crate::face::HeldLock<Client>;
type Queue = crate::face::queue::Queue<Client>;
type Call = crate::face::call::Call<Client>;
type Entrance = crate::face::queue::Entrance<Client>;
