//! A load of contenders for one lock, checked by an oracle, on any ensemble.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use zk_recipes::{Mutex, Options, RecipeError};
use zk_session::Client;

use crate::oracle::LockOracle;

/// The load.
#[derive(Clone, Debug)]
pub struct Contention {
    /// The path of the lock.
    pub path: String,
    /// Acquisitions per contender.
    pub rounds: usize,
    /// How long each holder keeps the lock.
    pub hold: Duration,
}

impl Contention {
    /// Runs one contender per client, all at once, and then looks for nodes that they left. Calls
    /// `acquired` with the number of each acquisition while the lock is held.
    ///
    /// # Errors
    ///
    /// Returns the first error of a contender.
    pub async fn run<F: Future<Output = ()> + Send>(
        &self,
        clients: &[Client],
        acquired: impl Fn(usize) -> F + Clone + Send + Sync + 'static,
    ) -> Result<Arc<LockOracle>, RecipeError> {
        let oracle = Arc::new(LockOracle::new());
        let contenders = clients.iter().enumerate().map(|(place, client)| {
            let (this, client) = (self.clone(), client.clone());
            let (oracle, acquired) = (oracle.clone(), acquired.clone());
            tokio::spawn(async move {
                this.contend(&format!("c{place}"), &client, &oracle, acquired).await
            })
        });
        for contender in contenders.collect::<Vec<_>>() {
            contender.await.expect("a contender does not panic")?;
        }
        self.look_for_nodes(&clients[0], &oracle).await;
        Ok(oracle)
    }

    async fn contend<F: Future<Output = ()> + Send>(
        &self,
        name: &str,
        client: &Client,
        oracle: &LockOracle,
        acquired: impl Fn(usize) -> F,
    ) -> Result<(), RecipeError> {
        let mutex = Mutex::with(client, &self.path, Options::new().data(name.to_owned()))
            .expect("a valid path");
        for _ in 0..self.rounds {
            let waiting_since = Instant::now();
            let guard = mutex.acquire().await?;
            let count = oracle.acquired(name, guard.fencing_token().zxid(), waiting_since);
            acquired(count).await;
            if !self.hold.is_zero() {
                tokio::time::sleep(self.hold).await;
            }
            oracle.gives_up(name);
            guard.release().await?;
        }
        Ok(())
    }

    async fn look_for_nodes(&self, client: &Client, oracle: &LockOracle) {
        let synced = client.sync(&self.path);
        let listed = client.get_children(&self.path);
        synced.await.expect("sync");
        // The lock path may be gone: the server deletes it when it is unused.
        if let Ok((children, _)) = listed.await {
            children.iter().for_each(|child| oracle.found(child));
        }
    }
}

/// Connects `count` clients to the ensemble at `at`.
///
/// # Panics
///
/// If a client cannot connect.
pub async fn clients(at: &str, count: usize, session_timeout: Duration) -> Vec<Client> {
    let connecting: Vec<_> = (0..count)
        .map(|_| tokio::spawn(Client::builder(at).session_timeout(session_timeout).connect()))
        .collect();
    let mut clients = Vec::new();
    for client in connecting {
        clients.push(client.await.expect("connect does not panic").expect("a server answers"));
    }
    clients
}
