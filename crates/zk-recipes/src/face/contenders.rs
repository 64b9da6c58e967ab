//! Who is there.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use zk_session::proto::{ErrorCode, SessionId, Zxid, path};
use zk_session::{Client, Error};

use crate::error::LockError;
use crate::face::queue::Queue;
use crate::machine::{Claim, Contest, Scheme, standing};

/// Somebody who holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entrant {
    /// The name of its node in the lock's directory.
    pub node: String,
    /// What it wants.
    pub claim: Claim,
    /// The name of the node that it waits for, which is the one that it watches. `None` for a
    /// holder.
    pub waits_for: Option<String>,
    /// What its node holds.
    pub data: Bytes,
    /// Its session.
    pub session: SessionId,
    /// Its fencing token; if it is a reader that was a writer before, something greater.
    pub token: Zxid,
    /// When its node was created, by the clock of the ensemble's leader: milliseconds since 1970.
    pub since: i64,
}

impl Entrant {
    /// Whether it holds the lock.
    pub const fn is_holder(&self) -> bool {
        self.waits_for.is_none()
    }
}

/// The contenders of a queue.
pub(crate) async fn list(queue: &Queue) -> Result<Vec<Entrant>, LockError> {
    list_in(&queue.client, &queue.path, queue.scheme).await
}

/// The contenders in a directory.
pub(crate) async fn list_in(
    client: &Client,
    directory: &str,
    scheme: Scheme,
) -> Result<Vec<Entrant>, LockError> {
    let children = match client.get_children(directory).await {
        Ok((children, _)) => children,
        Err(Error::Server(ErrorCode::NO_NODE)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let standing = standing(scheme, children.iter().map(String::as_str));
    let asked = standing
        .into_iter()
        .map(|place| (client.get_data(&path::child(directory, place.name.child)), place));
    let mut entrants = Vec::new();
    // All are asked before the first answer is awaited.
    for (answer, place) in asked.collect::<Vec<_>>() {
        let (data, stat) = match answer.await {
            Ok(found) => found,
            // It left in between.
            Err(Error::Server(ErrorCode::NO_NODE)) => continue,
            Err(error) => return Err(error.into()),
        };
        entrants.push(Entrant {
            node: place.name.child.to_string(),
            claim: place.name.claim,
            waits_for: place.waits_for.map(ToString::to_string),
            data,
            session: stat.ephemeral_owner,
            token: stat.czxid,
            since: stat.ctime,
        });
    }
    Ok(entrants)
}

/// Asks the owner of a node to let go.
pub(crate) async fn revoke(client: &Client, path: &str) -> Result<(), LockError> {
    client.set_data(path, Contest::REVOKE, None).await?;
    Ok(())
}
