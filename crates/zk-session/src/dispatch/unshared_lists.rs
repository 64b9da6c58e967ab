//! No shared lists: each machine lists on its own.

use alloc::boxed::Box;
use core::any::Any;

use zk_proto::{GetChildrenRequest, Request};

use super::machines::{Key, Machines};
use super::port::{AnySession, Host as _, Submission};
use super::seat::Seat;
use crate::error::Error;
use crate::session::Reply;
use crate::sync::Arc;
use crate::time::Instant;

#[derive(Default)]
pub(super) struct SharedLists(());

impl SharedLists {
    pub(super) const fn memo(&mut self) -> Option<&mut Option<Box<dyn Any + Send>>> {
        None
    }
}

impl Key {
    pub(super) const fn is_of_shared_lists(self) -> bool {
        false
    }
}

impl Machines {
    pub(super) const fn deliver_list(
        &mut self,
        _: &mut dyn AnySession,
        _: Instant,
        _: u64,
        _: &Result<Reply, Error>,
    ) {
    }
}

impl Seat<'_> {
    pub(super) fn list_with_others(&mut self, tag: u64, path: &Arc<str>) {
        let list = GetChildrenRequest { path, watch: false };
        self.submit(tag, &Request::GetChildren(list), Submission::InPieces);
    }
}
