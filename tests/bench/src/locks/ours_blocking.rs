//! The blocking recipes. There is one contender, so it may use the runtime's thread.

use std::io;

use zk_recipes::{Guard, Mutex};
use zk_session::blocking::Client;

use super::contenders::{Lock, Locks};

pub(super) const NAME: &str = "zk-recipes-blocking";

impl Locks for Client {
    type Lock = Mutex<Self>;

    async fn connect(at: &str) -> io::Result<Self> {
        Self::connect(at).map_err(io::Error::other)
    }

    fn lock(&self, path: &str) -> io::Result<Mutex<Self>> {
        Mutex::new(self, path).map_err(io::Error::other)
    }
}

impl Lock for Mutex<Client> {
    type Held = Guard<Client>;

    async fn acquire(&self) -> io::Result<Guard<Client>> {
        self.acquire().wait().map_err(io::Error::other)
    }

    async fn release(&self, held: Guard<Client>) -> io::Result<()> {
        held.release().wait().map_err(io::Error::other)
    }

    fn let_go(&self, held: Guard<Client>) {
        drop(held);
    }
}
