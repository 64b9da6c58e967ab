//! How tasks wait.

use alloc::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use zk_session::Client;

use crate::machine::Leadership;
use crate::recipes::{Owner, Publish, SessionClient, SharedLeadership};

impl SessionClient for Client {
    type Leaderships = watch::Receiver<Leadership>;

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    async fn sleep_until(end: Instant) {
        // A time that has passed needs no timer, nor its runtime.
        if Self::now() < end {
            tokio::time::sleep_until(end.into()).await;
        }
    }

    async fn wait_for_others<F: Future + Send>(_: Option<Instant>, future: F) -> Option<F::Output> {
        Some(future.await)
    }

    fn current_owner() -> Owner {
        Owner::current()
    }

    fn leaderships(current: SharedLeadership) -> (Option<Publish>, Self::Leaderships) {
        let (sender, receiver) = watch::channel(current.read());
        let publish = move || {
            sender.send_if_modified(|last| {
                // Read while the channel is locked: concurrent calls publish no older value last.
                let next = current.read();
                core::mem::replace(last, next.clone()) != next
            });
        };
        (Some(Arc::new(publish)), receiver)
    }
}
