//! Persistent watches as streams.

use core::pin::Pin;
use core::task::{Context, Poll};

use futures_core::Stream;

use super::driver::Tokio;
use crate::client::WatchUpdate;
use crate::client::full::persistent_watch::PersistentWatch;
use crate::error::Error;

impl Stream for PersistentWatch<Tokio> {
    type Item = Result<WatchUpdate, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let update = self.poll_update(cx.waker());
        self.is_over = matches!(update, Poll::Ready(Err(_)));
        update.map(Some)
    }
}
