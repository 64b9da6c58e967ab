//! The crate zookeeper-client.

use std::io;

use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix};

use super::contenders::Locks;

impl Locks for Client {
    /// The path of the lock node.
    type Held = String;

    async fn connect(at: &str) -> io::Result<Self> {
        Self::connect(at).await.map_err(io::Error::other)
    }

    async fn acquire(&self, path: &str) -> io::Result<String> {
        let prefix = LockPrefix::new_curator(path, "lock-").map_err(io::Error::other)?;
        let parents = CreateMode::Container.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all())
            .with_ancestor_options(parents)
            .map_err(io::Error::other)?;
        let held = self.lock(prefix, b"", options).await.map_err(io::Error::other)?;
        let path = held.lock_path().to_owned();
        // Its own release is in the background; to wait for it, it has to be done by hand.
        core::mem::forget(held);
        Ok(path)
    }

    async fn release(&self, held: String) -> io::Result<()> {
        self.delete(&held, None).await.map_err(io::Error::other)
    }
}
