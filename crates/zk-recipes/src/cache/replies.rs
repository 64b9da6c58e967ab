//! How replies and watch events change the tree, and what to read next.

use alloc::vec::Vec;

use bytes::Bytes;
use zk_session::Error;
use zk_session::proto::{ErrorCode, EventType, GetChildren2Response, GetDataResponse, Stat, path};
use zk_session::session::{Reply, WatchedEvent};
use zk_session::sync::Arc;

use super::jobs::{Job, Part};
use super::tree::TreeEntry;
use super::{CacheConfig, CacheEvent, CacheMachine, CacheTree, CachedNode};
use crate::error::CacheError;

impl CacheMachine {
    pub(super) fn read(
        &mut self,
        tag: u64,
        path: &Arc<str>,
        job: Job,
        result: Result<Reply, Error>,
    ) -> Result<(), Error> {
        let is_root = *path == self.config.root;
        match result {
            // The server may have read it before it was deleted. If it was created again, an event
            // has reported that, and it is read again.
            Ok(_) if job.is_deleted => self.unwatch(tag),
            Ok(reply) => {
                let GetDataResponse { data, stat } = reply.decode()?;
                self.found(tag, path, data.unwrap_or_default(), stat);
            }
            Err(Error::Server(ErrorCode::NO_NODE)) => self.missing(path),
            Err(Error::Server(ErrorCode::NO_AUTH)) if !is_root => self.missing(path),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A node was read.
    fn found(&mut self, tag: u64, path: &Arc<str>, data: &[u8], stat: Stat) {
        let (walk, is_persistent) = (self.walk, self.is_persistent());
        let data_watch = if is_persistent { 0 } else { tag };
        let order = |stat: &Stat| (stat.czxid, stat.mzxid);
        let mut is_new = true;
        if let Some(entry) = self.tree.entry(path) {
            let before = entry.node.stat;
            let is_read = core::mem::replace(&mut entry.walk, walk) == walk;
            let watch = core::mem::replace(&mut entry.data_watch, data_watch);
            self.unwatch(watch);
            // On another connection, even an older state counts: a new session may find one.
            if is_read && order(&stat) < order(&before) {
                return;
            }
            is_new = !is_read || stat.czxid != before.czxid;
            if stat.czxid != before.czxid {
                self.remove_except(path, data_watch);
            }
        }
        let node = CachedNode { data: Bytes::copy_from_slice(data), stat };
        let entry = TreeEntry { node: node.clone(), walk, data_watch, child_watch: 0 };
        match self.tree.entry(path) {
            Some(known) => {
                let entry = TreeEntry { child_watch: known.child_watch, ..entry };
                let before = self.tree.insert(path.clone(), entry);
                if before.is_some_and(|before| before.node.stat.mzxid != stat.mzxid) {
                    self.report(CacheEvent::Changed(path.clone(), node));
                }
            }
            None => {
                self.tree.insert(path.clone(), entry);
                self.report(CacheEvent::Added(path.clone(), node));
            }
        }
        let CacheConfig { max_nodes, max_bytes, is_recursive, .. } = self.config;
        let is_full = |tree: &CacheTree| tree.len() > max_nodes || tree.bytes() > max_bytes;
        if self.is_walking && is_full(&self.tree) {
            // What was known before the gap may be gone.
            self.remove_unread();
        }
        if is_full(&self.tree) {
            return self.end(CacheError::Full);
        }
        // The persistent watch reports children that are created later.
        if is_new && is_recursive && (!is_persistent || stat.num_children > 0) {
            self.want(path, Part::Children);
        }
    }

    pub(super) fn listed(
        &mut self,
        tag: u64,
        path: &Arc<str>,
        job: Job,
        result: Result<Reply, Error>,
    ) -> Result<(), Error> {
        let reply = match result {
            Ok(reply) => reply,
            // The read of its data, or an event, shows the same.
            Err(Error::Server(ErrorCode::NO_NODE | ErrorCode::NO_AUTH)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_persistent = self.is_persistent();
        let child_watch = if is_persistent { 0 } else { tag };
        let Some(entry) = self.tree.entry(path).filter(|_| !job.is_deleted) else {
            self.unwatch(tag);
            return Ok(());
        };
        let before = core::mem::replace(&mut entry.child_watch, child_watch);
        self.unwatch(before);
        let GetChildren2Response { children, .. } = reply.decode()?;
        let mut names: Vec<_> = children.iter().collect();
        if !is_persistent {
            names.sort_unstable();
            let is_gone = |name: &&str| names.binary_search(name).is_err();
            let gone = self.tree.children(path).filter(is_gone);
            let gone: Vec<_> = gone.map(|name| path::child(path, name)).collect();
            gone.iter().for_each(|child| self.remove(child));
        }
        for name in names {
            let child = Arc::from(path::child(path, name));
            let is_read = self.tree.entry(&child).is_some_and(|entry| entry.walk == self.walk);
            if !is_read && !self.is_done() {
                self.want(&child, Part::Data);
            }
        }
        Ok(())
    }

    /// The root was missing, and was looked for again.
    pub(super) fn looked(&mut self, tag: u64, result: Result<Reply, Error>) -> Result<(), Error> {
        let root = self.config.root.clone();
        match result {
            Ok(_) => {
                self.unwatch(tag);
                self.want(&root, Part::Data);
            }
            Err(Error::Server(ErrorCode::NO_NODE)) => {
                let before = core::mem::replace(&mut self.existence_watch, tag);
                self.unwatch(before);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn handle_watch(
        &mut self,
        tag: u64,
        WatchedEvent { event_type, path, .. }: &WatchedEvent,
    ) {
        let remaining = |watch: u64| if watch == tag { 0 } else { watch };
        self.existence_watch = remaining(self.existence_watch);
        if let Some(entry) = self.tree.entry(path) {
            entry.data_watch = remaining(entry.data_watch);
            entry.child_watch = remaining(entry.child_watch);
        }
        if !self.config.is_recursive && *path != self.config.root {
            return;
        }
        match *event_type {
            EventType::NODE_DELETED => {
                self.jobs.deleted(path);
                self.missing(path);
            }
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => {
                self.want_again(path, Part::Data);
            }
            EventType::NODE_CHILDREN_CHANGED if !self.is_persistent() => {
                self.want_again(path, Part::Children);
            }
            _ => {}
        }
    }

    /// Reads a part that has changed. The walk does not wait for it, so it ends however often nodes
    /// change.
    pub(super) fn want_again(&mut self, path: &Arc<str>, part: Part) {
        self.want_for(path, part, false);
    }

    /// The node does not exist, or cannot be read.
    fn missing(&mut self, path: &Arc<str>) {
        self.remove(path);
        if !self.is_persistent() && *path == self.config.root {
            self.want(path, Part::Existence);
        }
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.remove_except(path, 0);
    }

    /// Removes a node and everything below it, and drops their watches except this one.
    fn remove_except(&mut self, path: &str, watch: u64) {
        for (path, entry) in self.tree.remove(path).into_iter().rev() {
            for tag in [entry.data_watch, entry.child_watch] {
                self.unwatch(if tag == watch { 0 } else { tag });
            }
            self.report(CacheEvent::Removed(path, entry.node));
        }
    }
}
