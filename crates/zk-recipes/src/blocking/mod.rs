//! The recipes for threads that block: no async runtime, no task.
//!
//! They have the options, the names on the wire, the order, the guarantees and the cost of the async
//! ones, since the same [machines](crate::machine) do the work; what is said there about a lock holds
//! here. A session has one thread, and a lock has none: a thread that waits for a lock reads from the
//! connection itself if no other does.
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
//! client.close();
//! # Ok(())
//! # }
//! ```
//!
//! # Callbacks
//!
//! An [observer](crate::Options::observer) and an [`on_lost`](Held::on_lost) callback run in a thread
//! that calls a method of the client, or in one of their own. They may use the client, but whatever they
//! wait for delays other callbacks.

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

/// What every guard reports of the lock that it holds.
pub type Held = crate::face::HeldLock<Client>;
type Queue = crate::face::queue::Queue<Client>;
type Call = crate::face::call::Call<Client>;
type Entrance = crate::face::queue::Entrance<Client>;
