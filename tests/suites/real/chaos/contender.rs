//! The two clients, as contenders for a lock. The blocking one blocks the thread that polls.

use zk_recipes::{Guard, Mutex, Options, RecipeError};
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
    ($name:literal, $client:ty, {$($await:tt)*}, {$($wait:tt)*}) => {
        impl Contender for $client {
            const NAME: &str = $name;
            type Mutex = Mutex<Self>;
            type Guard = Guard<Self>;

            fn builder(access: &Access) -> ClientBuilder<Self> {
                let builder = Self::builder(&access.at);
                let builder = builder.session_timeout(SESSION_TIMEOUT).connect_timeout(HANG_TIMEOUT);
                match access.tls.clone() {
                    Some(tls) => builder.tls(tls).sasl(access.credentials()),
                    None => builder,
                }
            }

            async fn connect(access: &Access) -> Self {
                <Self as Contender>::builder(access).connect()$($await)*.expect("a server answers")
            }

            async fn create(&self, path: &str) {
                // It exists already, except for the first session.
                let _ = self.create(path, b"", NodeKind::Persistent).await;
            }

            async fn sync(&self, path: &str) -> bool {
                self.sync(path).await.is_ok()
            }

            fn mutex(&self, path: &str, options: Options) -> Mutex<Self> {
                Mutex::with(self, path, options).expect("a valid path")
            }

            async fn acquire(mutex: &Mutex<Self>) -> Result<Guard<Self>, RecipeError> {
                mutex.acquire().timeout(HANG_TIMEOUT)$($wait)*
            }

            fn token(guard: &Guard<Self>) -> Zxid {
                guard.fencing_token().zxid()
            }

            fn node_path(guard: &Guard<Self>) -> String {
                guard.node_path()
            }

            fn is_lost(guard: &Guard<Self>) -> bool {
                guard.is_lost()
            }

            fn fenced(guard: &Guard<Self>) -> Transaction<'_, Self> {
                guard.transaction()
            }

            async fn release(guard: Guard<Self>) -> bool {
                guard.release()$($wait)*.is_ok()
            }

            fn statistics(&self) -> Statistics {
                self.statistics()
            }

            async fn close(self) {
                self.close()$($await)*;
            }
        }
    };
}

contender!("async", zk_session::Client, {.await}, {.await});
contender!("blocking", zk_session::blocking::Client, {}, {.wait()});
