//! Asks a server whether it can write.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Transport;

const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks the server over the connection of `connecting`.
pub(super) fn ask<T: Transport>(
    connecting: impl Future<Output = io::Result<T>> + Send + 'static,
) -> Pin<Box<dyn Future<Output = bool> + Send>> {
    let answer = async {
        let mut transport = connecting.await?;
        transport.write_all(b"isro").await?;
        transport.flush().await?;
        // One byte more than the answer, to detect a longer one.
        let mut answer = alloc::vec::Vec::new();
        transport.take(3).read_to_end(&mut answer).await?;
        io::Result::Ok(answer)
    };
    Box::pin(async {
        let answer = tokio::time::timeout(PROBE_TIMEOUT, answer).await;
        matches!(answer, Ok(Ok(answer)) if answer == b"rw")
    })
}
