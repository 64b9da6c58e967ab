//! Leaving a double barrier, and waiting until all others have left.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};

use zk_session::Error;
use zk_session::proto::{ErrorCode, GetChildrenResponse, path};
use zk_session::session::Reply;

use super::super::retry_policy::RetryPolicy;
use super::super::{Event, Input, Machine, OpId, Operation};
use super::{Participant, READY, Step};

/// The state of a participant that leaves.
#[derive(Clone, Debug)]
pub(super) struct Leave {
    /// The participants that are still waited for. `None` until they are listed. Later arrivals are
    /// not waited for, since they have been outside in between.
    others: Option<BTreeSet<String>>,
    /// Whether our own node still exists.
    is_in: bool,
    task: Task,
}

#[derive(Clone, Debug)]
enum Task {
    /// Lists the participants.
    Listing { list: OpId },
    /// Watches a participant's node.
    Watching { watch: OpId },
    /// Deletes our own node.
    GettingOut,
    /// All have left. Deletes `ready`.
    Tidying { delete: OpId },
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
enum Next<'a> {
    /// All others have left.
    Finish,
    /// Delete our node, and list again.
    GetOut,
    /// Wait for the end of this participant's node.
    WaitFor(&'a str),
}

/// Returns the next action. The first participant by name stays until all others have left: they
/// wait for the first, and it waits for the last.
fn next<'a>(own: &str, is_in: bool, others: &'a BTreeSet<String>) -> Next<'a> {
    match (others.first(), others.last()) {
        (Some(first), _) if is_in && first.as_str() < own => Next::GetOut,
        (Some(_), Some(last)) if is_in => Next::WaitFor(last),
        (Some(first), _) => Next::WaitFor(first),
        (None, _) => Next::Finish,
    }
}

impl Participant {
    pub(super) fn leave(&mut self) {
        let list = self.list();
        self.step =
            Step::Leaving(Leave { others: None, is_in: true, task: Task::Listing { list } });
    }

    pub(super) fn handle_leave(&mut self, op: OpId, result: Result<Reply, Error>) {
        let Step::Leaving(leave) = &self.step else { return };
        match leave.task {
            Task::Listing { list } if list == op => self.listed(result),
            Task::Watching { watch } if watch == op => match result {
                Ok(_) => {}
                // It was deleted between the list and the watch.
                Err(Error::Server(ErrorCode::NO_NODE)) => self.look_around(),
                Err(error) => self.retry_or_fail(error),
            },
            Task::Tidying { delete } if delete == op => self.tidied(result),
            _ => {}
        }
    }

    pub(super) fn other_is_gone(&mut self, op: OpId) {
        if let Step::Leaving(leave) = &self.step
            && leave.watch() == Some(op)
        {
            self.look_around();
        }
    }

    pub(super) fn look_around(&mut self) {
        self.unwatch_others();
        let list = self.list();
        self.work_on(Task::Listing { list });
    }

    fn listed(&mut self, result: Result<Reply, Error>) {
        let there: BTreeSet<_> = match result {
            Ok(reply) => match reply.decode::<GetChildrenResponse<'_>>() {
                Ok(response) => response.children.iter().map(ToString::to_string).collect(),
                Err(error) => return self.fail(error.into()),
            },
            Err(Error::Server(ErrorCode::NO_NODE)) => BTreeSet::new(),
            Err(error) => return self.retry_or_fail(error),
        };
        let own = self.own_node.as_ref().map(|node| node.name.as_str());
        let Step::Leaving(leave) = &mut self.step else { return };
        match &mut leave.others {
            Some(others) => others.retain(|other| there.contains(other)),
            others @ None => {
                let is_other = |name: &String| name != READY && Some(name.as_str()) != own;
                *others = Some(there.into_iter().filter(is_other).collect());
            }
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        let (Step::Leaving(leave), Some(own_node)) = (&self.step, &self.own_node) else { return };
        let nobody = BTreeSet::new();
        match next(&own_node.name, leave.is_in, leave.others.as_ref().unwrap_or(&nobody)) {
            Next::WaitFor(other) => {
                let other = path::child(&self.lock_path, other);
                let watch = self.outputs.submit(Operation::watch(other));
                self.work_on(Task::Watching { watch });
            }
            Next::Finish if !leave.is_in => {
                let delete = self.outputs.submit(Operation::delete(self.ready()));
                self.work_on(Task::Tidying { delete });
            }
            Next::Finish | Next::GetOut => {
                self.work_on(Task::GettingOut);
                self.node.handle(Input::Release);
            }
        }
    }

    pub(super) fn node_is_gone(&mut self) {
        let Step::Leaving(leave) = &mut self.step else { return };
        leave.is_in = false;
        match &leave.others {
            Some(others) if !others.is_empty() => self.look_around(),
            _ => self.go_on(),
        }
    }

    fn tidied(&mut self, result: Result<Reply, Error>) {
        match result {
            Err(error)
                if RetryPolicy::of(&error) == RetryPolicy::Never
                    && error != Error::Server(ErrorCode::NO_NODE) =>
            {
                self.outputs.conclude(Event::Failed(error.into()));
            }
            // A leftover `ready` does no harm.
            _ => self.outputs.conclude(Event::Released),
        }
        self.step = Step::Done;
    }

    fn work_on(&mut self, task: Task) {
        if let Step::Leaving(leave) = &mut self.step {
            leave.task = task;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_participant_stays_until_it_is_alone() {
        let others = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let all: BTreeSet<_> = others(&["b", "d"]);
        assert_eq!(next("a", true, &all), Next::WaitFor("d"));
        assert_eq!(next("c", true, &all), Next::GetOut);
        assert_eq!(next("c", false, &all), Next::WaitFor("b"));
        assert_eq!(next("a", true, &others(&[])), Next::Finish);
        assert_eq!(next("c", false, &others(&[])), Next::Finish);
    }
}
