//! The log of an attempt, for the feature `tracing`.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use tracing::Span;
use zk_session::dispatch::{Input, Port};
use zk_session::proto::Zxid;
use zk_session::time::Instant;

use super::AnyObserver;
use crate::attempt::{Event, NodeName, Observer};
use crate::error::LockError;

/// Begins the span, which runs user code.
pub(super) fn observer(recipe: &'static str, path: &str) -> Option<AnyObserver> {
    // At this level, every event has the span.
    let span = tracing::warn_span!(target: "zk_recipes", "attempt", recipe, path);
    Some(Box::new(Log { span: Arc::new(span), waiting_since: None, held: None }))
}

/// The span of an attempt, and the times from which it is measured.
struct Log {
    /// Shared by counting, since a clone of a span runs code of the subscriber.
    span: Arc<Span>,
    /// When the attempt began to wait.
    waiting_since: Option<Instant>,
    held: Option<Held>,
}

#[derive(Clone)]
struct Held {
    since: Instant,
    node: NodeName,
    token: Zxid,
}

impl Observer for Log {
    fn input(&mut self, _: &Input, port: &mut Port<'_>) {
        self.waiting_since.get_or_insert(port.now());
    }

    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        let now = port.now();
        let held = self.held.clone();
        let since = held.as_ref().map(|held| held.since).or(self.waiting_since);
        match &event {
            Event::Acquired { node, token } | Event::Converted { node, token, .. } => {
                let since = held.as_ref().map_or(now, |held| held.since);
                self.held = Some(Held { since, node: node.clone(), token: *token });
            }
            Event::Lost(_) | Event::Released | Event::Failed(_) | Event::Refused(_) => {
                self.held = None;
                // A candidate that has lost waits again.
                self.waiting_since = Some(now);
            }
            _ => {}
        }
        let elapsed = since.map_or(Duration::ZERO, |since| now - since);
        let span = self.span.clone();
        port.report(move || emit(&span, &event, held.as_ref(), elapsed));
    }
}

/// Emits an event. `held` is the lock before the event, and `elapsed` the time for which it was
/// held, or else waited for.
fn emit(span: &Span, event: &Event, held: Option<&Held>, elapsed: Duration) {
    macro_rules! emit {
        ($level:ident, $($fields:tt)*) => {
            tracing::$level!(target: "zk_recipes", parent: span, $($fields)*)
        };
    }
    match (event, held) {
        (Event::Enqueued { node, token }, _) => {
            emit!(debug, %node, token = token.0, "enqueued");
        }
        (Event::Waiting { behind, ahead }, _) => emit!(debug, %behind, ahead, "waiting"),
        (Event::Acquired { node, token }, _) => {
            emit!(info, %node, token = token.0, waited = ?elapsed, "acquired");
        }
        (Event::Converted { mode, node, token }, _) => {
            emit!(info, ?mode, %node, token = token.0, "converted");
        }
        (Event::Released, Some(Held { node, token, .. })) => {
            emit!(info, %node, token = token.0, held = ?elapsed, "released");
        }
        (Event::Lost(loss), Some(Held { node, token, .. })) => {
            emit!(warn, %node, token = token.0, held = ?elapsed, %loss, "lost");
        }
        (Event::Failed(error), Some(Held { node, token, .. })) => {
            emit!(warn, %node, token = token.0, held = ?elapsed, %error, "release failed");
        }
        (Event::Failed(error @ (LockError::Busy | LockError::TimedOut)), None) => {
            emit!(debug, waited = ?elapsed, %error, "gave up");
        }
        (Event::Failed(error), None) => {
            emit!(warn, waited = ?elapsed, %error, "failed");
        }
        (Event::Refused(error), _) => emit!(warn, waited = ?elapsed, %error, "failed"),
        (Event::Released, None) => emit!(debug, waited = ?elapsed, "gave up"),
        (Event::Abandoned { node, error }, _) => {
            emit!(warn, %node, %error, "the ensemble refuses to delete the node");
        }
        (Event::Suspended, _) => emit!(warn, "suspended"),
        (Event::Resumed, _) => emit!(info, "resumed"),
        (Event::Revoked, _) => emit!(info, "another client asks for the release"),
        (Event::UnknownNode(node), _) => emit!(debug, %node, "unknown node"),
        (Event::NotConverted(error), _) => emit!(debug, %error, "not converted"),
        (Event::Lost(_) | Event::Permits(_) | Event::Releasing, _) => {}
    }
}
