//! Requests of any operation, and attached machines.

use alloc::boxed::Box;

use zk_proto::Request;

use super::answer::Decoder;
use super::driver::Driver;
use super::{Answer, Client, Watch, sets_watch};
use crate::dispatch::Attached;
use crate::dispatch::attachment::Attachment;
use crate::session::Reply;

/// # Any operation
impl<D: Driver> Client<D> {
    /// Sends any request unchanged: paths are not checked, and the [`chroot`](Self::chroot) is not
    /// added to them. A watch that the request sets is removed at once. Requests that only the
    /// session sends are [refused](crate::Invalid::Reserved), and so are those that [crash
    /// servers](crate::Invalid::HarmsServer).
    pub fn submit(&self, request: &Request<'_>) -> Answer<Reply, D> {
        self.send(request, |arrived| arrived.answer)
    }

    /// Sends any request like [`submit`](Self::submit). Also returns the one-shot watch that the
    /// request sets, if any. Drop the watch if the request fails without setting it.
    pub fn submit_and_watch(&self, request: &Request<'_>) -> (Answer<Reply, D>, Option<Watch<D>>) {
        if !sets_watch(request) {
            return (self.submit(request), None);
        }
        match self.submit_and_keep_watch(request) {
            Ok((pending, watch)) => {
                (Answer::new(pending, Decoder::Reply(|arrived| arrived.answer)), Some(watch))
            }
            Err(error) => (Answer::of(|| Err(error)), None),
        }
    }

    /// Attaches a state machine to the session; see [`dispatch`](crate::dispatch). The machine
    /// receives the state of the session before this returns, and its first requests are sent at
    /// once.
    ///
    /// The machine stays attached until it [is done](Attached::is_done). Until then the session
    /// stays alive, even without any clone of the client.
    pub fn attach(&self, machine: Box<dyn Attached>) -> Attachment {
        self.driver().attach(machine)
    }
}
