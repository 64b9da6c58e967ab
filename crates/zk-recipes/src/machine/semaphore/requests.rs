//! What a contender asks for itself: where it stands, and who takes which answer.

use alloc::string::String;
use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::Zxid;
use zk_session::session::Reply;

use super::super::parents::Parents;
use super::super::retry_policy::RETRY_AFTER;
use super::super::{Input, OpId, Operation, Output};
use super::SemaphoreMachine;

/// Where an attempt is, and which answers it waits for.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The state of the session comes first.
    Beginning,
    /// Is there room at all?
    Looking,
    /// Others are before us in the queue.
    Queueing,
    /// We are first, and want so many that it is asked first whether there are so many.
    Asking,
    /// PermitNodes are being created.
    Creating {
        create: OpId,
    },
    /// Their directory is missing.
    MakingParents {
        first: OpId,
        last: OpId,
    },
    /// Whether they were created is unknown. The list tells, but only behind a sync.
    Resolving {
        sync: OpId,
        list: OpId,
        synced: bool,
        /// Why the list could not be read. Then our own permit nodes alone are listed, to be given back.
        unread: Option<Error>,
    },
    /// PermitNodes with our guid were found. Are they ours?
    Adopting {
        stat: OpId,
        names: Vec<String>,
    },
    /// Whether they were created is unknown, and was to be asked later.
    Unresolved,
    /// There are too many permit nodes, or it is not known yet how many.
    Waiting,
    /// The permits are ours.
    Held,
    /// What the parts have to clean up is all that matters.
    Leaving,
    Done,
}

impl Step {
    /// Whether permit nodes may exist that we do not know.
    pub(super) const fn is_creating(&self) -> bool {
        matches!(
            self,
            Self::Creating { .. }
                | Self::MakingParents { .. }
                | Self::Resolving { .. }
                | Self::Adopting { .. }
                | Self::Unresolved
        )
    }
}

/// What was seen, for as long as the watch on it stands.
#[derive(Clone, Debug)]
pub(super) struct Watched<T> {
    /// The request that asked for both.
    pub(super) op: Option<OpId>,
    pub(super) seen: Option<T>,
}

impl<T> Watched<T> {
    const NOTHING: Self = Self { op: None, seen: None };

    /// Forgets it, with the watch that may be dropped now.
    pub(super) fn take(&mut self) -> Option<OpId> {
        core::mem::replace(self, Self::NOTHING).op
    }

    pub(super) fn is(&self, op: OpId) -> bool {
        self.op == Some(op)
    }
}

#[derive(Clone, Debug)]
pub(super) struct RequestState {
    pub(super) last_op: u64,
    pub(super) parents: Parents,
    /// How many permits are taken, with ours.
    pub(super) taken: Watched<usize>,
    /// How many there are.
    pub(super) maximum: Watched<u32>,
    pub(super) create_maximum: Option<OpId>,
    /// Whether their number was found to be the one that the caller has in mind.
    pub(super) agreed: bool,
    /// The transaction that created our permit nodes.
    pub(super) token: Zxid,
}

impl Default for RequestState {
    fn default() -> Self {
        Self {
            last_op: 0,
            parents: Parents::new(),
            taken: Watched::NOTHING,
            maximum: Watched::NOTHING,
            create_maximum: None,
            agreed: false,
            token: Zxid::ZERO,
        }
    }
}

impl SemaphoreMachine {
    pub(super) fn handle_own(&mut self, input: Input) {
        match input {
            Input::Reply { op, result } => self.handle_own_reply(op, result),
            Input::Watch { op, .. } if self.own.taken.is(op) => {
                self.own.taken.take();
                if matches!(self.step, Step::Looking | Step::Waiting) {
                    self.list_permit_nodes();
                }
            }
            Input::Watch { op, .. } if self.own.maximum.is(op) => {
                self.own.maximum.take();
                self.look_at_maximum();
            }
            _ => {}
        }
    }

    fn handle_own_reply(&mut self, op: OpId, result: Result<Reply, Error>) {
        if self.own.taken.is(op) {
            return self.listed(result);
        }
        if self.own.maximum.is(op) {
            return self.looked(result);
        }
        if self.own.create_maximum == Some(op) {
            self.own.create_maximum = None;
            return self.maximum_created(result);
        }
        match &mut self.step {
            Step::Creating { create } if *create == op => self.created(result),
            Step::MakingParents { first, last } if (*first..=*last).contains(&op) => {
                let is_last = op == *last;
                self.made_parent(is_last, result);
            }
            Step::Resolving { sync, synced, .. } if *sync == op => match result {
                Ok(_) => *synced = true,
                Err(error) => self.not_resolved(error),
            },
            Step::Resolving { list, synced: true, .. } if *list == op => self.resolved(result),
            // Told before the sync is, so it was refused before it was sent.
            Step::Resolving { list, .. } if *list == op => self.resolve_later(),
            Step::Adopting { stat, names } if *stat == op => {
                let names = core::mem::take(names);
                self.adopted(&names, result);
            }
            _ => {}
        }
    }

    /// What was refused or is outdated is asked for again; nothing that is under way.
    pub(super) fn ask_for_what_is_missing(&mut self) {
        match self.step {
            Step::Beginning | Step::Queueing | Step::Held | Step::Leaving | Step::Done => return,
            Step::Unresolved => self.resolve(),
            Step::Looking | Step::Waiting if self.own.taken.op.is_none() => {
                self.list_permit_nodes();
            }
            _ => {}
        }
        self.look_at_maximum_if_unknown();
    }

    pub(super) fn look_at_maximum_if_unknown(&mut self) {
        if self.own.maximum.op.is_none() && self.own.create_maximum.is_none() {
            self.look_at_maximum();
        }
    }

    pub(super) fn unwatch_own(&mut self) {
        let watches = [self.own.taken.take(), self.own.maximum.take()];
        watches.into_iter().for_each(|watch| self.unwatch(watch));
    }

    pub(super) fn unwatch(&mut self, watch: Option<OpId>) {
        self.outputs.extend(watch.map(Output::Unwatch));
    }

    pub(super) fn set_timer(&mut self) {
        self.outputs.push_back(Output::SetTimer(RETRY_AFTER));
    }

    pub(super) fn submit(&mut self, operation: Operation) -> OpId {
        self.own.last_op += 1;
        let op = OpId(self.own.last_op);
        self.outputs.push_back(Output::Submit { op, operation });
        op
    }
}
