//! Creating ephemeral nodes exactly once, although the outcome of the request may be unknown.
//!
//! If the connection is lost before the reply arrives, the nodes may exist or not. Creating them
//! again could leave two of each. Giving up could leave nodes that block a queue until the session
//! ends. So their names carry a GUID, and a [`Creation`] whose outcome is unknown searches for it:
//!
//! 1. It sends a `sync` and a list in [one round trip](SyncedRead). Without the `sync`, the list of
//!    a server that lags could be older than the nodes. If no node is found, none was created.
//! 2. It asks for the stat of the first node found. The stat has the czxid, which is the fencing
//!    token, and the session. A node of another session is worthless: it goes with that session.
//! 3. If the list is forbidden or has a name that is too long, it lists the session's own nodes
//!    instead. They are only deleted then, since their owner could not read the queue either.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use zk_session::Error;
use zk_session::proto::{
    Create2Response, CreateResponse, ErrorCode, ExistsResponse, MultiResponse, MultiResult, OpCode,
    Zxid, path,
};
use zk_session::session::Reply;

use super::config::AttemptConfig;
use super::full::Full;
use super::listing::{Listing, each};
use super::name::{LockMode, NAME_CAPACITY};
use super::node::Node;
use super::parents::{ParentCreation, ParentOutcome};
use super::queue::QueueReader;
use super::retry_policy::{RETRY_AFTER, RetryPolicy};
use super::synced_read::{Synced, SyncedRead};
use super::transaction::refusal;
use super::turn::Turn;
use super::watches::OpId;
use crate::error::LockError;

/// The creation of one node, or of several at once.
///
/// The owner passes on the replies to the requests that it submits, and the timer. It must also
/// delete the [strays](Self::take_strays), whatever the [`Progress`].
#[derive(Clone, Debug)]
pub(crate) struct Creation {
    mode: LockMode,
    /// How many nodes one transaction creates. `None` is one node without a transaction.
    batch: Option<Batch>,
    /// Whether no parents are to be made for it any more.
    is_cancelled: bool,
    parents: ParentCreation,
    strays: Vec<String>,
    step: CreationStep,
}

/// The number of nodes that one transaction creates. Only semaphores create several.
pub(crate) type Batch = (u32, Full);

/// The requests that a creation waits for.
#[derive(Clone, Debug)]
enum CreationStep {
    Creating {
        create: OpId,
    },
    MakingParents {
        requests: RangeInclusive<OpId>,
    },
    /// The outcome is unknown, and the search for it begins with the next timer.
    Unresolved,
    /// The outcome is unknown, and the list of all nodes is to show it.
    Resolving {
        read: SyncedRead,
        listing: Option<Box<Listing>>,
    },
    /// The list could not be read, for this reason.
    ListingOwn {
        list: OpId,
        unread: Error,
    },
    /// Nodes with the GUID were found. The stat of the first is to show whose they are.
    Adopting {
        stat: OpId,
        paths: Vec<String>,
    },
}

/// What a reply means for a [`Creation`]. All but `Pending` end it.
#[derive(Debug)]
pub(crate) enum Progress {
    Pending,
    /// The reply to the create names the nodes. So later requests see them.
    Created(Nodes),
    /// The nodes were found by a search. Requests sent with the create may not have seen them.
    Found(Nodes),
    /// No nodes exist but strays. The owner may [repeat](Creation::repeat) the creation.
    NotCreated,
    /// No nodes are known but strays.
    Failed(LockError),
}

/// The owner of a [`Creation`], as a reply finds it.
pub(crate) struct Owner<'a> {
    pub(crate) config: &'a AttemptConfig,
    /// Whether the owner is deleting the node of this name already. Such a node is ignored.
    pub(crate) is_leaving: &'a dyn Fn(&str) -> bool,
}

/// Nodes that one transaction has created; at least one.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) first: Node,
    #[cfg_attr(not(feature = "full"), expect(dead_code))]
    pub(crate) others: Vec<Node>,
}

impl Nodes {
    fn new(paths: Vec<String>, czxid: Zxid) -> Option<Self> {
        let mut nodes = paths.into_iter().map(|path| Node::new(path, czxid));
        let first = nodes.next()?;
        let others = match cfg!(feature = "full") {
            true => nodes.collect(),
            false => Vec::new(),
        };
        Some(Self { first, others })
    }
}

impl Creation {
    /// Submits the create of one node, or of `batch` nodes at once.
    pub(crate) fn start(
        mode: LockMode,
        batch: Option<Batch>,
        config: &AttemptConfig,
        turn: &mut Turn<'_>,
    ) -> Self {
        let mut creation = Self::new(mode, batch);
        creation.repeat(config, turn);
        creation
    }

    /// Searches for a node that a create may have left. It is a stray: none is wanted any more.
    #[cfg(feature = "full")]
    pub(crate) fn search(mode: LockMode, config: &AttemptConfig, turn: &mut Turn<'_>) -> Self {
        let mut creation = Self::new(mode, Some((0, Full::On)));
        creation.resolve(config, turn);
        creation
    }

    fn new(mode: LockMode, batch: Option<Batch>) -> Self {
        let (parents, strays, step) = (ParentCreation::new(), Vec::new(), CreationStep::Unresolved);
        Self { mode, batch, is_cancelled: false, parents, strays, step }
    }

    /// Submits the create again, after [`Progress::NotCreated`].
    pub(crate) fn repeat(&mut self, config: &AttemptConfig, turn: &mut Turn<'_>) {
        let create = submit_create(self.mode, self.batch, config, turn);
        self.step = CreationStep::Creating { create };
    }

    /// Makes no parents from now on, since their owner would not use them. Nodes that may exist are
    /// searched for all the same.
    pub(crate) const fn cancel(&mut self) {
        self.is_cancelled = true;
    }

    /// Returns the paths of nodes to delete: they carry the GUID, and are not used.
    pub(crate) fn take_strays(&mut self) -> Vec<String> {
        core::mem::take(&mut self.strays)
    }

    /// Returns whether this is the create, and nothing else can have created a node.
    pub(crate) fn is_create(&self, op: OpId) -> bool {
        matches!(self.step, CreationStep::Creating { create } if create == op)
    }

    pub(crate) fn handle_timer(&mut self, config: &AttemptConfig, turn: &mut Turn<'_>) {
        if matches!(self.step, CreationStep::Unresolved) {
            self.resolve(config, turn);
        }
    }

    /// Ignores replies to requests that a later step has made pointless.
    pub(crate) fn handle_reply(
        &mut self,
        op: OpId,
        result: Result<Reply, Error>,
        mut owner: Owner<'_>,
        turn: &mut Turn<'_>,
    ) -> Progress {
        let owner = &mut owner;
        match &mut self.step {
            CreationStep::Creating { create } if *create == op => match self.created(result) {
                Ok(nodes) => Progress::Created(nodes),
                Err(Error::Server(ErrorCode::NO_NODE)) => self.make_parents(owner, turn),
                Err(error) => self.failed(error, owner, turn),
            },
            CreationStep::MakingParents { requests } if requests.contains(&op) => {
                match self.parents.answered(op == *requests.end(), result) {
                    ParentOutcome::Wait => Progress::Pending,
                    ParentOutcome::Made => Progress::NotCreated,
                    ParentOutcome::Again => self.make_parents(owner, turn),
                    ParentOutcome::Failed(_) | ParentOutcome::NoChroot if self.is_cancelled => {
                        Progress::NotCreated
                    }
                    ParentOutcome::NoChroot => Progress::Failed(owner.config.no_chroot()),
                    ParentOutcome::Failed(error) => self.failed(error, owner, turn),
                }
            }
            CreationStep::Resolving { read, .. } => match read.handle_reply(op, result) {
                Synced::Pending => Progress::Pending,
                Synced::Read(result) => self.listed(result, owner, turn),
                Synced::Failed(error) => self.failed(error, owner, turn),
            },
            CreationStep::ListingOwn { list, unread } if *list == op => {
                let unread = unread.clone();
                self.listed_own(result, unread, owner, turn)
            }
            CreationStep::Adopting { stat, paths } if *stat == op => {
                let paths = core::mem::take(paths);
                self.adopted(result, paths, owner, turn)
            }
            _ => Progress::Pending,
        }
    }

    fn created(&self, result: Result<Reply, Error>) -> Result<Nodes, Error> {
        if let Some((asked, _)) = self.batch {
            return Self::created_batch(result, asked as usize);
        }
        Ok(Nodes { first: created_node(result)?, others: Vec::new() })
    }

    fn created_batch(result: Result<Reply, Error>, asked: usize) -> Result<Nodes, Error> {
        let reply = result?;
        if let Some((_, code)) = refusal(&reply, asked)? {
            return Err(Error::Server(code));
        }
        let results = reply.decode::<MultiResponse<'_>>()?;
        let mut paths = Vec::new();
        for result in results.iter() {
            if let MultiResult::Create(created) = result {
                paths.push(String::from(created.path));
            }
        }
        let answered = paths.len();
        let nodes = Nodes::new(paths, reply.zxid).filter(|_| answered == asked);
        nodes.ok_or(Error::Results { asked, answered })
    }

    fn make_parents(&mut self, owner: &mut Owner<'_>, turn: &mut Turn<'_>) -> Progress {
        // Servers do not delete a container that was never used.
        if self.is_cancelled {
            return Progress::NotCreated;
        }
        match self.parents.attempt(&owner.config.lock_path, owner.config, turn) {
            Err(error) => Progress::Failed(error),
            Ok(requests) => {
                self.step = CreationStep::MakingParents { requests };
                Progress::Pending
            }
        }
    }

    // ---- The outcome is unknown ----------------------------------------------------------------

    fn resolve(&mut self, config: &AttemptConfig, turn: &mut Turn<'_>) {
        let path = &config.lock_path;
        let read = SyncedRead::submit(path, |turn| turn.list_in_pieces(path), turn);
        self.step = CreationStep::Resolving { read, listing: None };
    }

    /// Searches for what a request that failed may have left or not shown, or gives up.
    fn failed(&mut self, error: Error, owner: &mut Owner<'_>, turn: &mut Turn<'_>) -> Progress {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.resolve(owner.config, turn),
            RetryPolicy::Later => {
                self.step = CreationStep::Unresolved;
                turn.set_timer(RETRY_AFTER);
            }
            RetryPolicy::Never => return Progress::Failed(error.into()),
        }
        Progress::Pending
    }

    fn listed(
        &mut self,
        result: Result<Reply, Error>,
        owner: &mut Owner<'_>,
        turn: &mut Turn<'_>,
    ) -> Progress {
        let CreationStep::Resolving { listing, .. } = &mut self.step else {
            return Progress::Pending;
        };
        let paths = match ours(self.mode, listing, result, owner) {
            Ok(Some(paths)) => paths,
            Ok(None) => return Progress::Pending,
            Err(Error::Server(ErrorCode::NO_NODE)) => return Progress::NotCreated,
            // A name is too long, or the list is forbidden. The session's own nodes can be listed
            // all the same, to delete ours.
            Err(unread @ (Error::ReplyTooLarge { .. } | Error::Server(ErrorCode::NO_AUTH))) => {
                let list = turn.list_own(&prefix(self.mode, owner.config));
                self.step = CreationStep::ListingOwn { list, unread };
                return Progress::Pending;
            }
            Err(error) => return self.failed(error, owner, turn),
        };
        // A server creates all of them or none. More are a forgery, and the lowest count.
        let mut found = paths.into_iter();
        let paths: Vec<_> = found.by_ref().take(self.count()).collect();
        self.strays.extend(found);
        let Some(first) = paths.first() else {
            return Progress::NotCreated;
        };
        let stat = turn.stat(first);
        self.step = CreationStep::Adopting { stat, paths };
        Progress::Pending
    }

    fn listed_own(
        &mut self,
        result: Result<Reply, Error>,
        unread: Error,
        owner: &mut Owner<'_>,
        turn: &mut Turn<'_>,
    ) -> Progress {
        match ours(self.mode, &mut None, result, owner) {
            Ok(paths) => self.strays.append(&mut paths.unwrap_or_default()),
            Err(error) if RetryPolicy::of(&error) == RetryPolicy::Never => {}
            Err(error) => return self.failed(error, owner, turn),
        }
        Progress::Failed(unread.into())
    }

    fn adopted(
        &mut self,
        result: Result<Reply, Error>,
        mut paths: Vec<String>,
        owner: &mut Owner<'_>,
        turn: &mut Turn<'_>,
    ) -> Progress {
        let progress = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(ExistsResponse { stat })
                if stat.ephemeral_owner == owner.config.session && paths.len() == self.count() =>
            {
                return Nodes::new(paths, stat.czxid).map_or(Progress::NotCreated, Progress::Found);
            }
            Ok(_) => Progress::NotCreated,
            Err(Error::Server(ErrorCode::NO_NODE)) => {
                paths.remove(0);
                Progress::NotCreated
            }
            Err(error) if RetryPolicy::of(&error) == RetryPolicy::Never => {
                Progress::Failed(error.into())
            }
            Err(error) => return self.failed(error, owner, turn),
        };
        self.strays.append(&mut paths);
        progress
    }

    fn count(&self) -> usize {
        self.batch.map_or(1, |(count, _)| count as usize)
    }
}

/// Returns the paths of our nodes in a list of names or of paths, lowest first, once the list is
/// complete.
fn ours(
    mode: LockMode,
    listing: &mut Option<Box<Listing>>,
    result: Result<Reply, Error>,
    owner: &Owner<'_>,
) -> Result<Option<Vec<String>>, Error> {
    let reader = QueueReader { mode, ..QueueReader::new(owner.config) };
    let lock_path = &*owner.config.lock_path;
    let seen = Listing::read(listing, &result?, &mut |seen, names| {
        for node in each(names) {
            if path::parent(node).is_none_or(|parent| parent == lock_path) {
                reader.find_ours(path::name(node), seen);
            }
        }
    });
    let to_path =
        |(_, name): &(_, String)| (!(owner.is_leaving)(name)).then(|| path::child(lock_path, name));
    Ok(seen?.map(|seen| seen.ours.iter().filter_map(to_path).collect()))
}

/// Submits the create of one node, or of `batch` nodes at once, to an owner without a [`Creation`].
pub(crate) fn submit_create(
    mode: LockMode,
    batch: Option<Batch>,
    config: &AttemptConfig,
    turn: &mut Turn<'_>,
) -> OpId {
    let prefix = prefix(mode, config);
    let AttemptConfig { data, acl, .. } = config;
    match batch {
        Some((count, _)) => turn.create_nodes(&prefix, count, data, acl),
        None => turn.create_node(&prefix, data, acl),
    }
}

fn prefix(mode: LockMode, config: &AttemptConfig) -> String {
    let mut path = String::with_capacity(config.lock_path.len() + NAME_CAPACITY);
    path.push_str(&config.lock_path);
    if !path.ends_with('/') {
        path.push('/');
    }
    config.scheme.push_prefix(&mut path, mode, config.own_guid(), config.session);
    path
}

/// Returns the node that a create of one node has created. A reply that cannot be read leaves the
/// outcome unknown.
pub(crate) fn created_node(result: Result<Reply, Error>) -> Result<Node, Error> {
    let reply = result?;
    if cfg!(feature = "full") && reply.opcode == OpCode::CREATE {
        // It has no stat, but the zxid of a write is that of its transaction.
        let CreateResponse { path } = reply.decode()?;
        return Ok(Node::new(path, reply.zxid));
    }
    let Create2Response { path, stat } = reply.decode()?;
    Ok(Node::new(path, stat.czxid))
}
