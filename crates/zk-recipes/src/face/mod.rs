//! The recipes for tasks of tokio: each starts a [machine](crate::machine), has it run, and gives out
//! a guard.

mod abandoned;
mod barrier;
mod call;
mod contenders;
mod double_barrier;
mod guid;
mod held;
#[cfg(feature = "study")]
mod herd;
mod leader;
mod limited;
mod memory;
mod multi_lock;
mod mutex;
mod options;
mod part;
mod queue;
mod reentrant;
mod reporter;
mod rw_lock;
mod semaphore;
#[cfg(feature = "study")]
mod simple;
mod status;
mod turns;

pub use self::barrier::Barrier;
pub use self::contenders::Entrant;
pub use self::double_barrier::{BarrierGuard, DoubleBarrier};
pub use self::held::{Held, Holding};
#[cfg(feature = "study")]
pub use self::herd::{HerdGuard, HerdMutex};
pub use self::leader::{Candidate, LeaderElection};
pub use self::multi_lock::{MultiGuard, MultiLock, MultiLoss};
pub use self::mutex::{Mutex, MutexGuard};
pub use self::options::{Attempt, Options};
pub use self::part::Part;
pub use self::reentrant::{Owner, ReentrantGuard, ReentrantMutex};
pub use self::rw_lock::{NotConverted, ReadGuard, RwLock, WriteGuard};
pub use self::semaphore::{PermitGuard, Semaphore};
#[cfg(feature = "study")]
pub use self::simple::{SimpleGuard, SimpleLock};
pub use crate::machine::{Claim, Event, Foreign, Leadership, Mismatch, Scheme, Term, Trust};
