//! Reads the configuration of the ensemble for a [`ConfigFollower`].

use zk_proto::{GetDataRequest, GetDataResponse, Request};

use super::config_follower::ConfigFollower;
use super::ensemble::CONFIG;
use super::{Receiver, ReplySender, slot, watch_slot};
use crate::dispatch::{Dispatcher, Token};
use crate::error::Error;
use crate::session::{Reply, RequestId, State, WatchedEvent};

/// A follower, and the request that it waits for.
pub(crate) struct Following {
    pub(crate) follower: ConfigFollower,
    reply: Option<Receiver<Result<Reply, Error>>>,
    watch: Option<(RequestId, Receiver<WatchedEvent>)>,
}

impl Following {
    pub(crate) fn new(follower: ConfigFollower) -> Self {
        Self { follower, reply: None, watch: None }
    }

    /// Passes on what has arrived. Returns the request whose watch is not needed any more.
    pub(crate) fn receive(&mut self) -> Option<RequestId> {
        let mut unwanted = None;
        if let Some(result) = self.reply.as_mut().and_then(Receiver::take) {
            self.reply = None;
            // A session that has ended gives no reply.
            let reply = result.and_then(Result::ok);
            let read = reply.as_ref().and_then(|it| it.decode::<GetDataResponse<'_>>().ok());
            self.follower.handle_config(read.map(|it| it.data.unwrap_or_default()));
            if read.is_none() {
                unwanted = self.watch.take().map(|(request, _)| request);
            }
        }
        if let Some(event) = self.watch.as_mut().and_then(|(_, watch)| watch.take()) {
            self.watch = None;
            self.follower.handle_watch(event.is_some());
        }
        unwanted
    }

    /// Reads the configuration, if the follower wants that and the session has room.
    pub(crate) fn read(&mut self, dispatcher: &mut Dispatcher<ReplySender>) {
        let is_connected = matches!(dispatcher.session().state(), State::Connected { .. });
        if !self.follower.wants_config() || !is_connected {
            return;
        }
        let (sender, reply) = slot();
        let request = Request::GetData(GetDataRequest { path: CONFIG, watch: true });
        let Ok(id) = dispatcher.session_mut().submit(&request, Token::Caller(sender)) else {
            return;
        };
        let (watcher, watch) = watch_slot();
        let id = dispatcher.watch(id, watcher);
        (self.reply, self.watch) = (Some(reply), Some((id, watch)));
        self.follower.handle_requested();
    }
}
