//! A thread that waits for the changes of a node.

use std::ffi::{CString, c_char, c_int, c_void};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use zk_session::blocking::Threads;
use zk_session::{Error, PersistentWatch, WatchUpdate};

use crate::callback::Callback;

/// Called for each change: with the type of the event, and the path of the node that changed. The
/// type is 1 for created, 2 for deleted, 3 for data changed, 4 for children changed. It is 0, with the
/// watched path, when events may have been missed, and -1 at last, when the session has ended.
pub type OnEvent = Option<extern "C" fn(context: *mut c_void, event: c_int, path: *const c_char)>;

type Report = extern "C" fn(*mut c_void, c_int, *const c_char);

/// The event when others may have been missed.
const GAP: c_int = 0;
const ENDED: c_int = -1;

/// A watch whose events are reported to a callback.
pub struct ZkWatch {
    callback: Callback<Report>,
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl ZkWatch {
    pub(crate) fn start(
        mut watch: PersistentWatch<Threads>,
        path: &str,
        callback: Callback<Report>,
    ) -> std::io::Result<Self> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (calls, stopped, path) = (callback.clone(), is_stopped.clone(), path.to_owned());
        let thread = thread::Builder::new().name("zk-watch".to_owned()).spawn(move || {
            while let Some(update) = next(&mut watch, &stopped) {
                let (event, changed) = match &update {
                    Ok(WatchUpdate::Event(event)) => (event.event_type.0, &*event.path),
                    Ok(_) => (GAP, &*path),
                    Err(_) => (ENDED, &*path),
                };
                // No path contains NUL.
                let changed = CString::new(changed).unwrap_or_default();
                calls.call(|on_event, context| on_event(context, event, changed.as_ptr()));
                if update.is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { callback, is_stopped, thread })
    }

    /// Ends the thread. Nothing is reported afterwards.
    pub(crate) fn stop(self) {
        self.callback.end();
        self.is_stopped.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // It does not panic.
        let _ = self.thread.join();
    }
}

/// Waits for an update, or until the thread is to end.
fn next(
    watch: &mut PersistentWatch<Threads>,
    is_stopped: &AtomicBool,
) -> Option<Result<WatchUpdate, Error>> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut update = pin!(watch.next());
    loop {
        if is_stopped.load(Ordering::Acquire) {
            return None;
        }
        match update.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(update) => return Some(update),
            Poll::Pending => thread::park(),
        }
    }
}
