//! Leaving a double barrier, and waiting until all others have left.

use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::{
    DeleteRequest, ErrorCode, ExistsResponse, GetChildrenResponse, Multi, MultiOp, Request, path,
};
use zk_session::session::Reply;

use super::{Participant, ParticipantStep, Position, READY, check_presence, rank};
use crate::attempt::retry_policy::RetryPolicy;
use crate::attempt::{Command, Event, OpId, Turn};

/// The state of a participant that leaves.
#[derive(Clone, Debug)]
pub(super) struct Leave {
    /// The other participants to wait for, sorted. `None` until they are listed. One that has left
    /// waits for no later arrivals, since they have been outside in between. The first one stays for
    /// them, so that they can join it.
    others: Option<Vec<Position>>,
    /// Whether our own node still exists.
    is_in: bool,
    task: Task,
}

#[derive(Clone, Debug)]
enum Task {
    /// Reads the list of participants.
    Listing { list: OpId },
    /// All others have left. Reads the version of `ready`, then the list again: if they have still
    /// left then, nobody needs this version.
    Checking { look: OpId, list: OpId, version: Option<i32> },
    /// Watches a participant's node.
    Watching { watch: OpId },
    /// Deletes `ready`, unless it was changed since.
    Tidying { deletion: OpId },
    /// Deletes our own node.
    GettingOut,
}

impl Leave {
    /// Returns whether others count it as a member.
    pub(super) const fn is_in(&self) -> bool {
        self.is_in && !matches!(self.task, Task::GettingOut)
    }

    pub(super) const fn watch(&self) -> Option<OpId> {
        match self.task {
            Task::Watching { watch } => Some(watch),
            _ => None,
        }
    }
}

/// The next action of a participant that leaves.
#[derive(Debug, PartialEq, Eq)]
enum LeaveAction<'a> {
    /// All others have left. Delete `ready` and our node, if they exist.
    Finish,
    /// Delete our node, and list again.
    GetOut,
    /// Wait for the end of this participant's node.
    WaitFor(&'a Position),
}

/// Returns the next action. The first participant stays until all others have left: they wait for
/// the first, and it waits for the last. If all names are ours, it has been inside the longest. So
/// one that comes while others leave finds it inside, and joins it.
fn next<'a>(own: &Position, is_in: bool, others: &'a [Position]) -> LeaveAction<'a> {
    match (others.first(), others.last()) {
        (Some(first), _) if is_in && first < own => LeaveAction::GetOut,
        (Some(_), Some(last)) if is_in => LeaveAction::WaitFor(last),
        (Some(first), _) => LeaveAction::WaitFor(first),
        (None, _) => LeaveAction::Finish,
    }
}

impl Participant {
    pub(super) fn begin_to_leave(&mut self, turn: &mut Turn<'_>) {
        let task = Task::Listing { list: self.list(turn) };
        self.step = ParticipantStep::Leaving(Leave { others: None, is_in: true, task });
    }

    pub(super) fn handle_leave(
        &mut self,
        op: OpId,
        result: Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) {
        let ParticipantStep::Leaving(leave) = &mut self.step else { return };
        match &mut leave.task {
            Task::Checking { look, version, .. } if *look == op => {
                match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
                    Ok(ExistsResponse { stat }) => *version = Some(stat.version),
                    Err(Error::Server(ErrorCode::NO_NODE)) => {}
                    Err(error) => self.retry_or_fail(error, turn),
                }
            }
            Task::Listing { list } | Task::Checking { list, .. } if *list == op => {
                self.listed(result, turn);
            }
            Task::Watching { watch } if *watch == op => {
                let is_in = leave.is_in;
                match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
                    // It came later than we entered. Once we are out, it may find nobody inside to
                    // join, and wait for ever.
                    Ok(ExistsResponse { stat }) if !is_in && stat.czxid > self.entered_at => {
                        self.forget_awaited(turn);
                    }
                    Ok(_) => {}
                    // It was deleted between the list and the watch.
                    Err(Error::Server(ErrorCode::NO_NODE)) => self.look_around(turn),
                    Err(error) => self.retry_or_fail(error, turn),
                }
            }
            Task::Tidying { deletion } if *deletion == op => self.tidied(result, turn),
            _ => {}
        }
    }

    pub(super) fn other_is_gone(&mut self, op: OpId, turn: &mut Turn<'_>) {
        if let ParticipantStep::Leaving(leave) = &self.step
            && leave.watch() == Some(op)
        {
            self.look_around(turn);
        }
    }

    pub(super) fn look_around(&mut self, turn: &mut Turn<'_>) {
        self.unwatch_others(turn);
        let list = self.list(turn);
        self.work_on(Task::Listing { list });
    }

    fn listed(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let mut there: Vec<_> = match result {
            Ok(reply) => match reply.decode::<GetChildrenResponse<'_>>() {
                Ok(response) => response.children.iter().map(rank).collect(),
                Err(error) => return self.fail(error.into(), turn),
            },
            Err(Error::Server(ErrorCode::NO_NODE)) => Vec::new(),
            Err(error) => return self.retry_or_fail(error, turn),
        };
        let Some(own) = self.own_node.as_ref().map(|node| rank(&node.name)) else { return };
        let ParticipantStep::Leaving(leave) = &mut self.step else { return };
        there.retain(|other| other.1 != READY && *other != own);
        there.sort_unstable();
        match &mut leave.others {
            Some(others) if !leave.is_in => {
                others.retain(|other| there.binary_search(other).is_ok());
            }
            others => *others = Some(there),
        }
        self.go_on(turn);
    }

    /// Stops waiting for the participant that is watched.
    fn forget_awaited(&mut self, turn: &mut Turn<'_>) {
        self.unwatch_others(turn);
        if let ParticipantStep::Leaving(leave) = &mut self.step
            && let Some(others) = &mut leave.others
        {
            // One that is out watches the first.
            if !others.is_empty() {
                others.remove(0);
            }
        }
        self.go_on(turn);
    }

    fn go_on(&mut self, turn: &mut Turn<'_>) {
        let (ParticipantStep::Leaving(leave), Some(own_node)) = (&self.step, &self.own_node) else {
            return;
        };
        let own = rank(&own_node.name);
        let next = next(&own, leave.is_in, leave.others.as_deref().unwrap_or_default());
        match (next, &leave.task) {
            (LeaveAction::WaitFor((_, other)), _) => {
                let other = path::child(&self.lock_path, other);
                let watch = turn.watch_presence(other);
                self.work_on(Task::Watching { watch });
            }
            (LeaveAction::Finish, _) if !leave.is_in => {
                turn.conclude(&mut self.is_concluded, Event::Released);
                self.step = ParticipantStep::Done;
            }
            // While our node exists, we are the first, and only the first deletes `ready`. If another
            // meeting was announced since we read its version, it stays.
            (LeaveAction::Finish, Task::Checking { version: Some(version), .. }) => {
                let own_node = path::child(&self.lock_path, &own_node.name);
                let ready = DeleteRequest { path: &self.ready(), version: *version };
                let both = [check_presence(&own_node), MultiOp::Delete(ready)];
                let deletion = turn.submit(&Request::Multi(Multi::new(&both)));
                self.work_on(Task::Tidying { deletion });
            }
            (LeaveAction::GetOut, _) | (LeaveAction::Finish, Task::Checking { .. }) => {
                self.get_out(turn);
            }
            (LeaveAction::Finish, _) => {
                let look = turn.stat(&self.ready());
                let list = self.list(turn);
                self.work_on(Task::Checking { look, list, version: None });
            }
        }
    }

    fn get_out(&mut self, turn: &mut Turn<'_>) {
        self.work_on(Task::GettingOut);
        self.tell_node(Command::Release.into(), turn);
    }

    pub(super) fn node_is_gone(&mut self, turn: &mut Turn<'_>) {
        let ParticipantStep::Leaving(leave) = &mut self.step else { return };
        leave.is_in = false;
        match &leave.others {
            Some(others) if !others.is_empty() => self.look_around(turn),
            _ => self.go_on(turn),
        }
    }

    fn tidied(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match result {
            Err(error) if RetryPolicy::of(&error) != RetryPolicy::Never => {
                self.retry_or_fail(error, turn);
            }
            // A leftover `ready` does no harm.
            _ => self.get_out(turn),
        }
    }

    fn work_on(&mut self, task: Task) {
        if let ParticipantStep::Leaving(leave) = &mut self.step {
            leave.task = task;
        }
    }
}

#[cfg(test)]
mod tests;
