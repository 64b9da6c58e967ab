//! Asks a server whether it can write.

use alloc::boxed::Box;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::time::Duration;
use std::io;

use tokio_util::io::{poll_write_buf, read_buf};

use super::Transport;

const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks the server over the connection of `connecting`.
pub(super) fn ask<T: Transport>(
    connecting: impl Future<Output = io::Result<T>> + Send + 'static,
) -> Pin<Box<dyn Future<Output = bool> + Send>> {
    let answer = async {
        let mut transport = connecting.await?;
        let mut question: &[u8] = b"isro";
        while !question.is_empty() {
            if poll_fn(|cx| poll_write_buf(Pin::new(&mut transport), cx, &mut question)).await? == 0
            {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        poll_fn(|cx| Pin::new(&mut transport).poll_flush(cx)).await?;
        // One byte more than the answer, to detect a longer one.
        let mut answer = alloc::vec::Vec::with_capacity(3);
        while answer.len() < 3 && read_buf(&mut transport, &mut answer).await? > 0 {}
        io::Result::Ok(answer)
    };
    Box::pin(async {
        let answer = tokio::time::timeout(PROBE_TIMEOUT, answer).await;
        matches!(answer, Ok(Ok(answer)) if answer == b"rw")
    })
}
