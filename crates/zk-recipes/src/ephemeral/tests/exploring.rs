//! Every course of an ephemeral node that is kept alive, within bounds.

use crate::tests::Command;
use crate::tests::exploring::world::{
    Bug, Owner, Progress, ReportContext, Timing, Tree, Workload, guid, session,
};
use crate::tests::exploring::*;

const NODE: &str = "/services/name";

/// Services that keep a node at the same path.
#[derive(Clone, Hash)]
struct Services {
    /// For each service, the transaction that created its last node.
    last: Vec<Zxid>,
    /// Whether they have to create the parent.
    is_fresh: bool,
}

impl Workload for Services {
    type Machine = EphemeralMachine;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        (!self.is_fresh).then_some(("/services", &b""[..])).into_iter().collect()
    }

    fn machines(&self) -> Vec<EphemeralMachine> {
        let machine = |client| {
            let session = session(client);
            let config = AttemptConfig::of_node(NODE.into(), SCHEME, guid(client, 0), session);
            EphemeralMachine::new(config)
        };
        (0..self.last.len()).map(machine).collect()
    }

    fn twin(&self, client: usize) -> Option<usize> {
        client.checked_sub(1)
    }

    /// A service need not close its node.
    fn owner_actions(&self, client: usize, owners: &[Owner]) -> Vec<(Command, Timing)> {
        let Owner { progress, release } = owners[client];
        let may_close = !release && progress != Progress::Over;
        may_close.then_some((Command::Release, Timing::Budgeted)).into_iter().collect()
    }

    fn reported(
        &mut self,
        client: usize,
        event: &Event,
        mut context: ReportContext<'_>,
    ) -> Result<Progress, String> {
        let Owner { progress, release } = context.owners[client];
        let is_held = progress.is_held();
        let (progress, milestone) = match event {
            _ if progress == Progress::Over => {
                return Err(format!("{client} reports {event:?} at the end"));
            }
            Event::Enqueued { .. } if !release && !is_held => return Ok(progress),
            Event::Acquired { token, .. } if !release && !is_held => {
                let mut own = context.tree.owned_by(client, context.now);
                if !own.any(|node| Zxid(node.created.into()) == *token) {
                    return Err(format!("{client} reports a node that it does not have"));
                }
                let before = core::mem::replace(&mut self.last[client], *token);
                if before >= *token {
                    return Err(format!("{client} reports a node that it has lost"));
                }
                (
                    Progress::Held,
                    if before > Zxid::ZERO { "creates again" } else { ACQUIRES[client] },
                )
            }
            Event::Waiting { .. } if !is_held => (Progress::Nothing, "finds that of another"),
            Event::Lost(Loss::Renewed) if is_held => (Progress::Nothing, "loses its session"),
            Event::Lost(Loss::NodeDeleted) if is_held => (Progress::Nothing, "loses its node"),
            Event::Lost(Loss::Ended(_)) if is_held => (Progress::Over, "ends with its session"),
            Event::Failed(LockError::Ended(_)) if !is_held => {
                (Progress::Over, "ends with its session")
            }
            Event::Released if release => (Progress::Over, "closes"),
            event => return Err(format!("{client} reports {event:?}")),
        };
        context.reach(milestone);
        Ok(progress)
    }

    /// In the end, a service has its node, or waits for the end of another's.
    fn may_wait(&self, client: usize, owners: &[Owner], tree: &Tree) -> bool {
        let is_own = tree.find(NODE).map(|node| node.owner == Some(client));
        is_own == Some(owners[client].progress.is_held())
    }
}

fn services(services: usize, bounds: Bounds) -> World<Services> {
    let last = alloc::vec![Zxid::ZERO; services];
    World::new(bounds, Services { last, is_fresh: false })
}

const LATE: Bounds = Bounds { deletions: Some(0), late: true, ..Bounds::CALM };
const RENEWING: Bounds = Bounds { renews: true, ..LATE };
const FOUND: &str = "finds that of another";
/// The node of the last session is found by the next one, on a server that lags.
const RENEWED: [&str; 3] = ["creates again", "loses its session", FOUND];

#[test]
fn the_next_service_creates_the_node_when_one_closes_it() {
    let bounds = Bounds { early_commands: 2, ..LATE };
    search::prove(services(2, bounds), 392, &[ONE, TWO, FOUND, "closes"]);
}

#[test]
fn of_three_services_one_has_the_node() {
    let bounds = Bounds { early_commands: 2, ..LATE };
    search::prove(services(3, bounds), 3_682, &[ONE, TWO, THREE, FOUND, "closes"]);
}

#[test]
fn a_deleted_node_is_created_again() {
    let bounds = Bounds { deletions: Some(2), early_commands: 1, servers: 2, ..LATE };
    search::prove(services(1, bounds), 104, &[ONE, "creates again", "loses its node", "closes"]);
}

#[test]
fn missing_parents_are_created_in_spite_of_a_fault() {
    let bounds = Bounds { faults: 1, early_commands: 1, ..LATE };
    let world = World::new(bounds, Services { last: alloc::vec![Zxid::ZERO], is_fresh: true });
    search::prove(world, 275, &[ONE, "closes"]);
}

#[test]
fn the_node_is_there_in_the_next_session() {
    let bounds = Bounds { faults: 3, early_commands: 1, servers: 2, ..RENEWING };
    search::prove(services(1, bounds), 2_923, &[&RENEWED[..], &[ONE, "closes"]].concat());
}

#[test]
fn the_node_is_there_after_a_deletion_and_two_sessions_on_servers_that_lag() {
    let bounds = Bounds { faults: 4, deletions: Some(1), servers: 3, ..RENEWING };
    search::prove(services(1, bounds), 23_101, &[&RENEWED[..], &[ONE, "loses its node"]].concat());
}

#[test]
fn two_services_in_spite_of_faults_and_renewals() {
    let bounds = Bounds { faults: 2, early_commands: 1, servers: 2, ..RENEWING };
    search::prove(services(2, bounds), 28_481, &[&RENEWED[..], &[ONE, TWO, "closes"]].concat());
}

#[test]
fn two_services_in_spite_of_deletions_and_renewals() {
    let bounds = Bounds { faults: 2, deletions: Some(1), ..RENEWING };
    search::prove(
        services(2, bounds),
        11_035,
        &[&RENEWED[..], &[ONE, TWO, "loses its node"]].concat(),
    );
}

#[test]
fn a_node_whose_deletion_is_not_noticed_stays_away() {
    let bounds = Bounds { deletions: Some(1), bug: Some(Bug::NoWatchOnOwnNode), ..LATE };
    search::refute(services(1, bounds), "0 waits for ever", 7);
}
