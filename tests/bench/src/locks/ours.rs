//! zk-recipes, with Curator's names and with its own short ones.

use std::io;

use zk_recipes::machine::Scheme;
use zk_recipes::{Guard, Mutex, Options};
use zk_session::Client;

use super::contenders::{Lock, Locks};

impl Locks for Client {
    type Lock = Mutex;

    async fn connect(at: &str) -> io::Result<Self> {
        Self::connect(at).await.map_err(io::Error::other)
    }

    fn lock(&self, path: &str) -> io::Result<Mutex> {
        Mutex::new(self, path).map_err(io::Error::other)
    }
}

/// A client whose locks have short names.
#[derive(Clone)]
pub(super) struct Private(Client);

impl Locks for Private {
    type Lock = Mutex;

    async fn connect(at: &str) -> io::Result<Self> {
        Client::connect(at).await.map(Self).map_err(io::Error::other)
    }

    fn lock(&self, path: &str) -> io::Result<Mutex> {
        let options = Options::new().scheme(Scheme::private("w", None));
        Mutex::with(&self.0, path, options).map_err(io::Error::other)
    }
}

impl Lock for Mutex {
    type Held = Guard;

    async fn acquire(&self) -> io::Result<Guard> {
        self.acquire().await.map_err(io::Error::other)
    }

    async fn release(&self, held: Guard) -> io::Result<()> {
        held.release().await.map_err(io::Error::other)
    }

    fn let_go(&self, held: Guard) {
        drop(held);
    }
}
