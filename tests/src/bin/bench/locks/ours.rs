//! zk-recipes.

use std::io;

use zk_recipes::{Mutex, MutexGuard};
use zk_session::Client;

use super::contenders::Locks;

impl Locks for Client {
    type Held = MutexGuard;

    async fn connect(at: &str) -> io::Result<Self> {
        Self::connect(at).await.map_err(io::Error::other)
    }

    async fn acquire(&self, path: &str) -> io::Result<MutexGuard> {
        let mutex = Mutex::new(self, path).map_err(io::Error::other)?;
        mutex.acquire().await.map_err(io::Error::other)
    }

    async fn release(&self, held: MutexGuard) -> io::Result<()> {
        held.release().await.map_err(io::Error::other)
    }
}
