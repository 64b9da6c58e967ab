//! Follows the configuration of the ensemble, like both clients.

use super::*;

const CONFIG: &str = "/zookeeper/config";

/// A follower, the list of its session, and the request that it waits for.
#[derive(Debug)]
pub(super) struct Following {
    follower: ConfigFollower,
    servers: Vec<ServerAddress>,
    /// The request without a reply.
    read: Option<CallId>,
    /// The request whose watch has not fired.
    watch: Option<RequestId>,
}

impl SimClient {
    /// Follows the configuration of the ensemble. The session has these servers so far.
    pub(in super::super) fn follow(&mut self, servers: Vec<ServerAddress>) {
        let follower = ConfigFollower::new(servers.clone());
        self.following = Some(Following { follower, servers, read: None, watch: None });
    }

    /// Returns the servers of the session, if it follows the configuration.
    pub(in super::super) fn servers(&self) -> &[ServerAddress] {
        self.following.as_ref().map_or(&[], |following| &following.servers)
    }

    /// Handles an event before all others do. Returns whether it is for the follower alone.
    pub(super) fn handle_followed(&mut self, event: &Event<CallId>) -> bool {
        let Some(following) = &mut self.following else { return false };
        let Following { follower, servers, read, watch } = following;
        match event {
            Event::State(state) => {
                follower.handle_state(*state);
                if *state == State::Renewing && watch.take().is_some() {
                    follower.handle_watch(false);
                }
            }
            Event::Disconnected { server, cause } if *cause != Cause::Rebalanced => {
                follower.handle_failed(&servers[*server]);
            }
            Event::Reply { token, result } if *read == Some(*token) => {
                *read = None;
                let reply = result.as_ref().ok();
                let reply = reply.and_then(|it| it.decode::<GetDataResponse<'_>>().ok());
                follower.handle_config(reply.as_ref().map(|it| it.data.unwrap_or_default()));
                if reply.is_none()
                    && let Some(request) = watch.take()
                {
                    self.dispatcher.session_mut().unwatch(request);
                }
                return true;
            }
            Event::Watch { requests, .. } if watch.is_some_and(|it| requests.contains(&it)) => {
                *watch = None;
                follower.handle_watch(true);
            }
            _ => {}
        }
        false
    }

    /// Reads the configuration and replaces the list of servers, if the follower wants that.
    pub(super) fn follow_config(&mut self, now: Duration) {
        let at = self.instant(now);
        let Some(mut following) = self.following.take() else { return };
        let Following { follower, servers, read, watch } = &mut following;
        let is_connected = matches!(self.state(), State::Connected { .. });
        if follower.wants_config() && is_connected {
            let id = self.next_id();
            let request = Request::GetData(GetDataRequest { path: CONFIG, watch: true });
            if let Ok(request) = self.session().submit(&request, Token::Caller(id)) {
                (*read, *watch) = (Some(id), Some(request));
                follower.handle_requested();
            }
        }
        let replaced = follower.replace_servers(self.session(), at, servers);
        self.following = Some(following);
        if let Some(servers) = replaced {
            // Recorded events have the old indices.
            while let Some(event) = self.dispatcher.poll_event(at) {
                self.handle_event(now, event);
            }
            self.following.iter_mut().for_each(|it| it.servers.clone_from(&servers));
        }
    }
}
