//! When a command has succeeded under a lock: `run --once-per`.
//!
//! A node beside the lock path remembers the last success. Its time is that of the leader which
//! wrote it, and is compared with that of another write: clocks of clients do not count.

use std::time::Duration;

use zk_recipes::session::proto::{ErrorCode, NodeKind};
use zk_recipes::session::{Client, TransactionResult};

use crate::Failure;
use crate::acquire::LockArguments;
use crate::contents::{despite_outages, found};

/// Not a child of the lock path: other clients of the lock may not expect one.
fn node(path: &str) -> String {
    format!("{path}-last-success")
}

/// Returns how long ago a command has succeeded under this lock, which the client holds.
pub(crate) async fn since_success(
    client: &Client,
    path: &str,
) -> Result<Option<Duration>, Failure> {
    let node = node(path);
    despite_outages(async || {
        let Some((_, stat)) = found(client.get_data(&node).await)? else { return Ok(None) };
        let elapsed = leader_time(client, &node).await?.saturating_sub(stat.mtime);
        Ok(Some(Duration::from_millis(u64::try_from(elapsed).unwrap_or(0))))
    })
    .await
}

/// Returns the time of the leader in milliseconds since 1970: that of a write to a node that the
/// same transaction creates and deletes.
async fn leader_time(client: &Client, node: &str) -> Result<i64, Failure> {
    let now = format!("{node}-now");
    let transaction = client.transaction().create(&now, b"", NodeKind::Ephemeral);
    let results = transaction.set_data(&now, b"", None).delete(&now, None).commit().await?;
    match results.get(1) {
        Some(TransactionResult::DataSet(stat)) => Ok(stat.mtime),
        _ => Err("the server does not say what time it is".into()),
    }
}

/// Remembers that a command has succeeded.
pub(crate) async fn remember(client: &Client, arguments: &LockArguments) -> Result<(), Failure> {
    let node = node(&arguments.path);
    let acl = arguments.acl();
    despite_outages(async || {
        if found(client.set_data(&node, b"", None).await)?.is_some() {
            return Ok(());
        }
        match client.create_with_acl(&node, b"", NodeKind::Persistent, &acl).await {
            // By a request whose reply was lost.
            Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => Ok(()),
            created => Ok(created.map(drop)?),
        }
    })
    .await
}
