//! The timer of a task, as `shuttle` has it, which has no time.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use tokio::time::Instant;

use crate::threads::SHORT;

#[derive(Debug)]
pub(crate) struct Sleep {
    until: Instant,
    has_yielded: bool,
}

pub(crate) fn sleep(time: Duration) -> Sleep {
    Sleep { until: Instant::now() + time, has_yielded: false }
}

impl Sleep {
    pub(crate) fn reset(mut self: Pin<&mut Self>, until: Instant) {
        *self = Self { until, has_yielded: false };
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        self.until <= Instant::now()
    }
}

impl Future for Sleep {
    type Output = ();

    /// Lets others run once if the time is short. A longer time never ends.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.until > Instant::now() + SHORT {
            return Poll::Pending;
        }
        if core::mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
