//! The client, and how its methods send requests.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use zk_proto::{NodeKind, OpCode, Request};

use super::answer::{Decoder, PendingAnswer};
use super::decode::Arrived;
use super::driver::{Driven, Driver};
use super::read::Read;
use super::{
    Answer, Receiver, Router, Watch, answer_slot, server_path, server_path_to_create, watch_slot,
};
use crate::chroot::Chroot;
use crate::dispatch::watchers::Watcher;
use crate::error::{Error, RequestError};
use crate::session::{Reply, RequestId};
use crate::time::Instant;

/// A session with an ensemble, kept alive across its servers. Cloning it is cheap.
///
/// `zk_session::Client` is the one of tokio, `zk_session::blocking::Client` that of threads. They
/// have the same methods, and connect and close in their own ways. A method that sends requests
/// returns an [`Answer`], to be awaited or waited for:
///
/// ```no_run
/// # async fn example(
/// #     client: &zk_session::Client,
/// #     blocking: &zk_session::blocking::Client,
/// # ) -> Result<(), zk_session::RequestError> {
/// let (data, stat) = client.get_data("/config").await?; // a task
/// # let client = blocking;
/// let (data, stat) = client.get_data("/config").wait()?; // a thread
/// # Ok(())
/// # }
/// ```
///
/// When the last clone is dropped, the session is closed in the background, if the process and the
/// runtime keep running. At the end of `main`, `close` the client; otherwise the servers keep the
/// session until it times out.
///
/// # Ordering
///
/// Requests reach the server in the order in which the methods were *called*, not in which their
/// answers are awaited. Many can be in flight at once. Answers and watch events become ready in the
/// order in which the server sent them.
///
/// # Waiting
///
/// An answer comes, or the request fails, at the latest when the session ends. Before, there is no
/// limit across connections, unless there is a
/// [`request_timeout`](crate::ClientBuilder::request_timeout).
///
/// # Processes
///
/// After a `fork`, the session stays with the parent. In the child, every call on this client fails
/// with [`End::Forked`](crate::End::Forked), writes nothing, and a drop does nothing. Connect a
/// client of its own there. Futures that were pending at the fork stay pending in the child: neither
/// tokio's runtime nor the session's thread survives it. Programs that are
/// executed at once, as by `std::process::Command`, are not affected.
///
/// # Cancellation
///
/// Dropping an [`Answer`] discards it. The request may still be applied. Methods that send several
/// requests document what remains when they are cancelled.
///
/// # Errors
///
#[doc = include_str!("errors.md")]
#[derive(Debug)]
pub struct Client<D: Driver> {
    pub(crate) handle: Arc<ClientHandle<D>>,
    pub(crate) chroot: Chroot,
    pub(crate) request_timeout: Option<Duration>,
}

impl<D: Driver> Clone for Client<D> {
    fn clone(&self) -> Self {
        let Self { handle, chroot, request_timeout } = self;
        Self { handle: handle.clone(), chroot: chroot.clone(), request_timeout: *request_timeout }
    }
}

/// The part shared by all clones of a client. Dropping it closes the session.
#[derive(Debug)]
pub(crate) struct ClientHandle<D: Driver> {
    pub(crate) driver: Arc<D>,
    /// Whether to repeat reads that fail with their connection.
    pub(crate) retries_reads: bool,
}

impl<D: Driver> Drop for ClientHandle<D> {
    fn drop(&mut self) {
        if !self.driver.keep_if_forked() {
            self.driver.act(&mut |router, _| router.close_when_done());
        }
    }
}

impl<D: Driver> Client<D> {
    pub(crate) fn driver(&self) -> &Arc<D> {
        &self.handle.driver
    }

    pub(crate) fn with_router<R>(&self, look: impl FnOnce(&Router) -> R) -> R {
        self.driver().locked(|router| look(router))
    }

    /// Returns when a request that begins now is too late.
    pub(super) fn request_end(&self) -> Option<Instant> {
        self.request_timeout.map(|timeout| self.driver().now() + timeout)
    }

    /// Sends a request.
    pub(super) fn send<T>(
        &self,
        request: &Request<'_>,
        decode: fn(Arrived<'_>) -> Result<T, Error>,
    ) -> Answer<T, D> {
        let pending = self.pending_about(request);
        let sent = pending.submit(request, None);
        Answer::of_sent(pending, sent, Decoder::Reply(decode))
    }

    /// Sends a read.
    pub(super) fn read<T>(
        &self,
        read: Read,
        path: &str,
        decode: fn(Arrived<'_>) -> Result<T, Error>,
    ) -> Answer<T, D> {
        match self.server_path(read.opcode(), path) {
            Ok(path) => self.read_at(read, &path, decode),
            Err(error) => Answer::of(|| Err(error)),
        }
    }

    /// Sends a read of a server's path.
    pub(super) fn read_at<T>(
        &self,
        read: Read,
        path: &str,
        decode: fn(Arrived<'_>) -> Result<T, Error>,
    ) -> Answer<T, D> {
        let request = read.request(path, false);
        let mut pending = self.pending_about(&request);
        pending.repeats = self.handle.retries_reads.then_some(Some(read));
        let sent = pending.submit(&request, None);
        Answer::of_sent(pending, sent, Decoder::Reply(decode))
    }

    /// Sends a read that sets a one-shot watch.
    pub(super) fn read_and_watch<T>(
        &self,
        read: Read,
        path: &str,
        decode: fn(Arrived<'_>, Watch<D>) -> Result<T, Error>,
    ) -> Answer<T, D> {
        Answer::of(|| self.read_at_and_watch(read, &self.server_path(read.opcode(), path)?, decode))
    }

    /// Sends a read of a server's path that sets a one-shot watch.
    pub(super) fn read_at_and_watch<T>(
        &self,
        read: Read,
        path: &str,
        decode: fn(Arrived<'_>, Watch<D>) -> Result<T, Error>,
    ) -> Result<Answer<T, D>, RequestError> {
        let (mut pending, watch) = self.submit_and_keep_watch(&read.request(path, true))?;
        pending.repeats = self.handle.retries_reads.then_some(Some(read));
        Ok(Answer::new(pending, Decoder::WithWatch(decode, Box::new(watch))))
    }

    /// Sends a request that sets a one-shot watch.
    pub(super) fn submit_and_keep_watch(
        &self,
        request: &Request<'_>,
    ) -> Result<(PendingAnswer<D>, Watch<D>), RequestError> {
        let (watcher, event) = watch_slot();
        let (id, pending) = self.submit_with(request, watcher)?;
        let watch = Watch::new(id, event, self.driver(), self.chroot.clone());
        Ok((pending, watch))
    }

    /// Sends a request that sets a watch. Also returns its id.
    pub(super) fn submit_with(
        &self,
        request: &Request<'_>,
        watcher: Arc<dyn Watcher>,
    ) -> Result<(RequestId, PendingAnswer<D>), RequestError> {
        let mut pending = self.pending_about(request);
        let (id, is_in_process) = pending.submit(request, Some(watcher))?;
        pending.is_in_process = is_in_process;
        Ok((id, pending))
    }

    /// Returns the answer to a request that is not sent yet.
    fn pending_about(&self, request: &Request<'_>) -> PendingAnswer<D> {
        self.pending(request.opcode(), answer_slot(request.path().unwrap_or_default()))
    }

    /// Returns the answer to a request of this operation that is not sent yet.
    pub(super) fn pending(
        &self,
        operation: OpCode,
        reply: Receiver<Result<Reply, Error>>,
    ) -> PendingAnswer<D> {
        let (driven, chroot) = (Driven::new(self.driver()), self.chroot.clone());
        let end = self.request_end();
        PendingAnswer { reply, driven, chroot, operation, end, repeats: None, is_in_process: true }
    }

    /// Returns the server's path of a caller's path.
    pub(super) fn server_path<'p>(
        &self,
        operation: OpCode,
        path: &'p str,
    ) -> Result<Cow<'p, str>, RequestError> {
        server_path(&self.chroot, operation, path)
    }

    /// Returns the server's path of a node to be created.
    pub(super) fn server_path_to_create<'p>(
        &self,
        kind: NodeKind,
        path: &'p str,
    ) -> Result<Cow<'p, str>, RequestError> {
        server_path_to_create(&self.chroot, kind.opcode(), path, kind.is_sequential())
    }
}
