//! The two clients, as contenders for a lock. The blocking one blocks the thread that polls.

use zk_recipes::{Options, RecipeError, blocking};
use zk_session::proto::{NodeKind, Zxid};
use zk_session::session::{State, Statistics};
use zk_session::{AnyClient, ClientBuilder, Transaction};

use super::access::Access;
use super::{HANG_TIMEOUT, SESSION_TIMEOUT};

/// What the clients have in common, besides what [`AnyClient`] has.
pub(super) trait Contender: AnyClient {
    const NAME: &str;
    type Mutex;
    type Guard;

    fn builder(access: &Access) -> ClientBuilder<Self>;
    async fn connect(access: &Access) -> Self;
    async fn create(&self, path: &str);
    async fn sync(&self, path: &str) -> bool;
    fn mutex(&self, path: &str, options: Options) -> Self::Mutex;
    async fn acquire(mutex: &Self::Mutex) -> Result<Self::Guard, RecipeError>;
    fn token(guard: &Self::Guard) -> Zxid;
    fn node_path(guard: &Self::Guard) -> String;
    fn is_lost(guard: &Self::Guard) -> bool;
    fn fenced(guard: &Self::Guard) -> Transaction<'_, Self>;
    /// Returns whether the lock is released.
    async fn release(guard: Self::Guard) -> bool;
    fn statistics(&self) -> Statistics;
    async fn close(self);

    fn has_ended(&self) -> bool {
        matches!(self.state(), State::Ended(_))
    }
}

macro_rules! contender {
    ($name:literal, $client:ty, $mutex:ty, $guard:ty $(, $await:tt)?) => {
        impl Contender for $client {
            const NAME: &str = $name;
            type Mutex = $mutex;
            type Guard = $guard;

            fn builder(access: &Access) -> ClientBuilder<Self> {
                let builder = Self::builder(&access.at);
                let builder = builder.session_timeout(SESSION_TIMEOUT).connect_timeout(HANG_TIMEOUT);
                match access.tls.clone() {
                    Some(tls) => builder.tls(tls).sasl(access.credentials()),
                    None => builder,
                }
            }

            async fn connect(access: &Access) -> Self {
                <Self as Contender>::builder(access).connect()$(.$await)?.expect("a server answers")
            }

            async fn create(&self, path: &str) {
                // It exists already, except for the first session.
                let _ = self.create(path, b"", NodeKind::Persistent).await;
            }

            async fn sync(&self, path: &str) -> bool {
                self.sync(path).await.is_ok()
            }

            fn mutex(&self, path: &str, options: Options) -> $mutex {
                <$mutex>::with(self, path, options).expect("a valid path")
            }

            async fn acquire(mutex: &$mutex) -> Result<$guard, RecipeError> {
                mutex.acquire_timeout(HANG_TIMEOUT)$(.$await)?
            }

            fn token(guard: &$guard) -> Zxid {
                guard.fencing_token()
            }

            fn node_path(guard: &$guard) -> String {
                guard.node_path()
            }

            fn is_lost(guard: &$guard) -> bool {
                guard.is_lost()
            }

            fn fenced(guard: &$guard) -> Transaction<'_, Self> {
                guard.transaction()
            }

            async fn release(guard: $guard) -> bool {
                guard.release()$(.$await)?.is_ok()
            }

            fn statistics(&self) -> Statistics {
                self.statistics()
            }

            async fn close(self) {
                self.close()$(.$await)?;
            }
        }
    };
}

contender!("async", zk_session::Client, zk_recipes::Mutex, zk_recipes::MutexGuard, await);
contender!("blocking", zk_session::blocking::Client, blocking::Mutex, blocking::MutexGuard);
