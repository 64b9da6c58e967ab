//! With the feature `full`: what attempts that share a node see of their queue.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::task::{Context, Poll};

use zk_session::Attachment;
use zk_session::dispatch::Attached;

use super::Entrance;
use crate::client::SessionClient;
use crate::client::local::{Enter, NodeAttempt};
use crate::client::queue::{Attempted, Patience};
use crate::client::report::HeldNode;
use crate::client::session_client::TimeLimit;
use crate::client::status::{Handle, SharedStatus};
use crate::error::RecipeError;

impl<C: SessionClient> Enter for Entrance<C> {
    fn enter(&self) -> Box<dyn NodeAttempt> {
        Box::new(self.enter())
    }

    fn attach(&self, machine: Box<dyn Attached>) -> Attachment {
        self.queue.client.attach(machine)
    }

    fn server_path(&self) -> Arc<str> {
        self.queue.server_path()
    }
}

impl<C: SessionClient> NodeAttempt for Attempted<C> {
    fn poll_node(
        &mut self,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(HeldNode, Option<Handle>), RecipeError>> {
        self.poll_held(limit, cx).map_ok(|held| (held.node, held.holder.end()))
    }

    fn status(&self) -> Option<Arc<SharedStatus>> {
        self.status()
    }

    fn renew(&mut self) -> bool {
        self.patience = Patience::default();
        self.status().is_some()
    }
}
