//! A contender of ours.

use zk_recipes::Mutex;
use zk_session::{Client, proto};

use super::turns::{Kind, Turn};
use super::{LOCK, Recipe};

pub(super) async fn take_turns(
    client: Client,
    recipe: Recipe,
    rounds: usize,
    marker: String,
) -> Vec<Turn> {
    let contender = Contender { client, marker };
    let mode = proto::CreateMode::PERSISTENT;
    contender.client.create(&contender.marker, b"", mode).await.expect("created");
    match recipe {
        Recipe::Mutex => contender.mutex(rounds).await,
    }
}

struct Contender {
    client: Client,
    marker: String,
}

impl Contender {
    async fn mutex(self, rounds: usize) -> Vec<Turn> {
        let mutex = Mutex::new(&self.client, LOCK).expect("a valid path");
        let mut turns = Vec::new();
        for _ in 0..rounds {
            let guard = mutex.acquire().await.expect("acquired");
            turns.push(self.turn(Kind::Exclusive, guard.fencing_token()).await);
            guard.release().await.expect("released");
        }
        turns
    }

    /// The part that the lock protects.
    async fn turn(&self, kind: Kind, token: proto::Zxid) -> Turn {
        let enter = self.stamp().await;
        Turn { kind, place: token.0, enter, leave: self.stamp().await }
    }

    /// A transaction of now.
    async fn stamp(&self) -> i64 {
        self.client.set_data(&self.marker, b"", None).await.expect("written").mzxid.0
    }
}
