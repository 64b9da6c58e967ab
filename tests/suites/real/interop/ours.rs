//! A contender of this project.

use zk_recipes::machine::Scheme;
use zk_recipes::{Guard, Mutex, Options, RwLock, Semaphore};
use zk_session::{Client, proto};
use zk_testkit::turns::{Kind, Turn};

use super::{LOCK, Recipe};

pub(super) async fn take_turns(
    client: Client,
    recipe: Recipe,
    rounds: usize,
    marker: String,
) -> Vec<Turn> {
    let contender = Contender { client, marker };
    let kind = proto::NodeKind::Persistent;
    contender.client.create(&contender.marker, b"", kind).await.expect("created");
    match recipe {
        Recipe::Mutex(scheme) => contender.mutex(scheme, rounds).await,
        Recipe::ReadWrite(scheme) => contender.read_write(scheme, rounds).await,
        Recipe::Semaphore(permits) => contender.semaphore(permits, rounds).await,
    }
}

struct Contender {
    client: Client,
    marker: String,
}

impl Contender {
    async fn mutex(self, scheme: Scheme, rounds: usize) -> Vec<Turn> {
        let options = Options::new().scheme(scheme);
        let mutex = Mutex::with(&self.client, LOCK, options).expect("a valid path");
        let mut turns = Vec::new();
        for _ in 0..rounds {
            let guard = mutex.acquire().await.expect("acquired");
            turns.push(self.turn(Kind::Exclusive, &guard).await);
            guard.release().await.expect("released");
        }
        turns
    }

    async fn read_write(self, scheme: Scheme, rounds: usize) -> Vec<Turn> {
        let options = Options::new().scheme(scheme);
        let lock = RwLock::with(&self.client, LOCK, options).expect("a valid path");
        let mut turns = Vec::new();
        for round in 0..rounds {
            if round % 3 == 0 {
                let guard = lock.write().await.expect("acquired");
                turns.push(self.turn(Kind::Exclusive, &guard).await);
                guard.release().await.expect("released");
            } else {
                let guard = lock.read().await.expect("acquired");
                turns.push(self.turn(Kind::Shared, &guard).await);
                guard.release().await.expect("released");
            }
        }
        turns
    }

    async fn semaphore(self, permits: u32, rounds: usize) -> Vec<Turn> {
        let semaphore = Semaphore::new(&self.client, LOCK, permits).expect("a valid path");
        let mut turns = Vec::new();
        for _ in 0..rounds {
            let permit = semaphore.acquire().await.expect("acquired");
            turns.push(self.turn(Kind::Shared, &permit).await);
            permit.release().await.expect("released");
        }
        turns
    }

    /// Performs the work that the lock protects, and returns the turn.
    async fn turn(&self, kind: Kind, held: &Guard) -> Turn {
        let enter = self.stamp().await;
        Turn { kind, place: held.fencing_token().0, enter, leave: self.stamp().await }
    }

    /// Performs a transaction, and returns its zxid.
    async fn stamp(&self) -> i64 {
        self.client.set_data(&self.marker, b"", None).await.expect("written").mzxid.0
    }
}
