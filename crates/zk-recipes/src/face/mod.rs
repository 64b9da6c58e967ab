//! The recipes: each attaches a [machine](crate::machine) to the session of a client, and gives out a
//! guard. What is different for threads that block is in the module `blocking`.

mod abandoned;
pub(crate) mod call;
pub(crate) mod contenders;
mod conversion;
mod guid;
pub(crate) mod held;
mod loss;
mod memory;
mod options;
pub(crate) mod queue;
pub(crate) mod reporter;
pub(crate) mod status;
pub(crate) mod turns;

#[cfg(feature = "tokio")]
mod barrier;
#[cfg(feature = "tokio")]
mod double_barrier;
#[cfg(all(feature = "tokio", feature = "study"))]
mod herd;
#[cfg(feature = "tokio")]
mod leader;
#[cfg(feature = "tokio")]
mod limited;
#[cfg(feature = "tokio")]
mod listing;
#[cfg(feature = "tokio")]
mod multi_lock;
#[cfg(feature = "tokio")]
mod mutex;
#[cfg(feature = "tokio")]
mod part;
#[cfg(feature = "tokio")]
mod reentrant;
#[cfg(feature = "tokio")]
mod rw_lock;
#[cfg(feature = "tokio")]
mod semaphore;
#[cfg(all(feature = "tokio", feature = "study"))]
mod simple;
#[cfg(feature = "tokio")]
mod waiting;

use alloc::boxed::Box;

use zk_session::dispatch::{Attached, Attachment};
use zk_session::proto::SessionId;
use zk_session::{Chroot, State, Transaction};

pub use self::contenders::Entrant;
pub use self::conversion::NotConverted;
pub use self::held::{HeldLock, Holding};
pub use self::loss::MultiLoss;
pub use self::options::{Attempt, Options};
#[cfg(feature = "tokio")]
pub use self::{
    barrier::Barrier,
    double_barrier::{BarrierGuard, DoubleBarrier},
    leader::{Candidate, LeaderElection},
    multi_lock::{MultiGuard, MultiLock},
    mutex::{Mutex, MutexGuard},
    part::Part,
    reentrant::{Owner, ReentrantGuard, ReentrantMutex},
    rw_lock::{ReadGuard, RwLock, WriteGuard},
    semaphore::{PermitGuard, Semaphore},
};
#[cfg(all(feature = "tokio", feature = "study"))]
pub use self::{
    herd::{HerdGuard, HerdMutex},
    simple::{SimpleGuard, SimpleLock},
};
pub use crate::machine::{Claim, Event, Foreign, Leadership, Mismatch, Scheme, Term, Trust};

/// What every guard reports of the lock that it holds.
#[cfg(feature = "tokio")]
pub type Held = HeldLock<zk_session::Client>;
#[cfg(feature = "tokio")]
type Queue = queue::Queue<zk_session::Client>;
#[cfg(feature = "tokio")]
type Call = call::Call<zk_session::Client>;
#[cfg(feature = "tokio")]
type Entrance = queue::Entrance<zk_session::Client>;

/// What recipes need of either client.
pub(crate) trait SessionClient: Clone {
    fn attach(&self, machine: Box<dyn Attached>) -> Attachment;
    fn session_id(&self) -> SessionId;
    fn chroot(&self) -> &Chroot;
    fn state(&self) -> State;
    fn begin_transaction(&self) -> Transaction<'_, Self>;
}

macro_rules! session_client {
    ($client:ty) => {
        impl SessionClient for $client {
            fn attach(&self, machine: Box<dyn Attached>) -> Attachment {
                Self::attach(self, machine)
            }

            fn session_id(&self) -> SessionId {
                Self::session_id(self)
            }

            fn chroot(&self) -> &Chroot {
                Self::chroot(self)
            }

            fn state(&self) -> State {
                Self::state(self)
            }

            fn begin_transaction(&self) -> Transaction<'_, Self> {
                self.transaction()
            }
        }
    };
}

#[cfg(feature = "tokio")]
session_client!(zk_session::Client);
#[cfg(feature = "blocking")]
session_client!(zk_session::blocking::Client);
