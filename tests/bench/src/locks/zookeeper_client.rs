//! The crate zookeeper-client.

use std::io;

use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient};

use super::contenders::{Lock, Locks};

/// The crate has no lock objects; this is what can be prepared.
pub(super) struct Prepared {
    client: Client,
    path: String,
    options: LockOptions<'static>,
}

impl Locks for Client {
    type Lock = Prepared;

    async fn connect(at: &str) -> io::Result<Self> {
        Self::connect(at).await.map_err(io::Error::other)
    }

    fn lock(&self, path: &str) -> io::Result<Prepared> {
        let parents = CreateMode::Container.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all())
            .with_ancestor_options(parents)
            .map_err(io::Error::other)?;
        Ok(Prepared { client: self.clone(), path: path.to_owned(), options })
    }
}

impl Lock for Prepared {
    type Held = OwnedLockClient;

    async fn acquire(&self) -> io::Result<OwnedLockClient> {
        let Self { client, path, options } = self;
        let prefix = LockPrefix::new_curator(path, "lock-").map_err(io::Error::other)?;
        let held = client.lock(prefix, b"", options.clone()).await.map_err(io::Error::other)?;
        Ok(held.into_owned())
    }

    async fn release(&self, held: OwnedLockClient) -> io::Result<()> {
        let path = held.lock_path().to_owned();
        // The guard releases in the background. To wait for the release, delete the node by hand.
        core::mem::forget(held);
        self.client.delete(&path, None).await.map_err(io::Error::other)
    }

    fn let_go(&self, held: OwnedLockClient) {
        drop(held);
    }
}
