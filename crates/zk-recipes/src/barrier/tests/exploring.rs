//! Every course of waiting at a barrier within bounds.

use crate::tests::exploring::world::{
    Bug, OutsideChange, Owner, Progress, ReportContext, Timing, Tree, Workload,
};
use crate::tests::exploring::*;

const BARRIER: &str = "/barrier";

#[derive(Clone, Hash)]
struct Barrier {
    waiters: usize,
    is_open: bool,
}

impl Workload for Barrier {
    type Machine = BarrierWait;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        alloc::vec![(BARRIER, b"")]
    }

    fn machines(&self) -> Vec<BarrierWait> {
        let wait = |_| BarrierWait::new(BARRIER.into(), WaitPolicy::Queue);
        (0..self.waiters).map(wait).collect()
    }

    fn twin(&self, client: usize) -> Option<usize> {
        client.checked_sub(1)
    }

    fn reported(
        &mut self,
        client: usize,
        event: &Event,
        mut context: ReportContext<'_>,
    ) -> Result<Progress, String> {
        let Owner { progress, release } = context.owners[client];
        let is_closed = context.tree.find_at(BARRIER, context.now).is_some();
        if progress == Progress::Nothing && matches!(event, Event::Waiting { .. }) {
            return Ok(progress);
        }
        context.reach(match event {
            _ if progress == Progress::Over => {
                return Err(format!("{client} reports {event:?} at the end"));
            }
            Event::Released if release => "gives up",
            Event::Released if is_closed => {
                return Err(format!("{client} passes while it is closed"));
            }
            Event::Released => "passes",
            Event::Failed(LockError::Ended(_)) => "ends with its session",
            event => return Err(format!("{client} reports {event:?}")),
        });
        Ok(Progress::Over)
    }

    /// Another program opens the barrier in the end. Before, it may open and close it at once.
    fn outside_changes(
        &self,
        _: &[Owner],
        _: &Tree,
        may_go_wrong: bool,
    ) -> Vec<(OutsideChange, Timing)> {
        match self.is_open {
            true => Vec::new(),
            false => {
                let again = may_go_wrong.then_some((OutsideChange::Recreate, Timing::Optional));
                again.into_iter().chain([(OutsideChange::Change, Timing::Eventually)]).collect()
            }
        }
    }

    fn apply_outside(&mut self, outside: OutsideChange, tree: &mut Tree) {
        if let OutsideChange::Recreate = outside {
            return tree.recreate(BARRIER);
        }
        self.is_open = true;
        let node = tree.find_at(BARRIER, tree.log).expect("it is closed");
        tree.delete(node);
    }
}

fn barrier(waiters: usize, bounds: Bounds) -> World<Barrier> {
    World::new(bounds, Barrier { waiters, is_open: false })
}

#[test]
fn two_that_wait_pass_when_it_opens() {
    let bounds = Bounds { early_commands: 1, late: true, ..Bounds::CALM };
    search::prove(barrier(2, bounds), 42, &["passes", "gives up"]);
}

#[test]
fn two_that_wait_pass_in_spite_of_faults_and_lagging_servers() {
    let bounds = Bounds { servers: 2, faults: 2, late: true, ..Bounds::CALM };
    search::prove(barrier(2, bounds), 3_274, &["passes", "ends with its session"]);
}

#[test]
fn one_that_waits_passes_in_spite_of_many_faults() {
    let bounds = Bounds { servers: 3, faults: 4, early_commands: 1, late: true, ..Bounds::CALM };
    search::prove(barrier(1, bounds), 2_733, &["passes", "gives up", "ends with its session"]);
}

const RENEWING: Bounds = Bounds { servers: 2, renews: true, late: true, ..Bounds::CALM };

#[test]
fn two_that_wait_pass_in_spite_of_renewals() {
    search::prove(barrier(2, Bounds { faults: 2, ..RENEWING }), 3_438, &["passes"]);
}

#[test]
fn two_that_wait_pass_in_spite_of_many_renewals() {
    search::prove(barrier(2, Bounds { faults: 3, ..RENEWING }), 15_704, &["passes"]);
}

#[test]
fn three_that_wait_pass_on_three_servers() {
    let bounds = Bounds { servers: 3, faults: 1, late: true, ..Bounds::CALM };
    search::prove(barrier(3, bounds), 3_823, &["passes"]);
}

#[test]
fn without_a_watch_one_waits_for_ever() {
    let bounds = Bounds { bug: Some(Bug::DataUnwatched), late: true, ..Bounds::CALM };
    search::refute(barrier(1, bounds), "0 waits for ever", 5);
}
