//! The blocking recipes. There is one contender, so it may use the runtime's thread.

use std::io;

use zk_recipes::blocking::{Mutex, MutexGuard};
use zk_session::blocking::Client;

use super::contenders::{Lock, Locks};

pub(super) const NAME: &str = "zk-recipes-blocking";

impl Locks for Client {
    type Lock = Mutex;

    async fn connect(at: &str) -> io::Result<Self> {
        Self::connect(at).map_err(io::Error::other)
    }

    fn lock(&self, path: &str) -> io::Result<Mutex> {
        Mutex::new(self, path).map_err(io::Error::other)
    }
}

impl Lock for Mutex {
    type Held = MutexGuard;

    async fn acquire(&self) -> io::Result<MutexGuard> {
        self.acquire().map_err(io::Error::other)
    }

    async fn release(&self, held: MutexGuard) -> io::Result<()> {
        held.release().map_err(io::Error::other)
    }

    fn let_go(&self, held: MutexGuard) {
        drop(held);
    }
}
