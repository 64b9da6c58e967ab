//! Every course of the textbook lock within bounds.

use crate::tests::exploring::world::{
    Bug, Cause, Index, Line, Milestones, Node, Owner, Progress, ReportContext, Tree, Workload,
    guid, session,
};
use crate::tests::exploring::*;

const LOCK: &str = "/lock";

/// A lock that is one node, and its contenders.
#[derive(Clone, Hash)]
struct OneNode {
    /// The transaction that created the node of each contender, once it has acquired the lock.
    tokens: Vec<Index>,
    /// Whether the last contender does not wait.
    trier: bool,
    /// Whether no node is deleted but by its owner, or with its session.
    nobody_meddles: bool,
    /// An injected bug: all contenders have one GUID.
    has_one_guid: bool,
}

impl OneNode {
    fn is_there(&self, contender: usize, tree: &Tree, now: Index) -> bool {
        let is_own =
            |node: &Node| node.owner == Some(contender) && node.created == self.tokens[contender];
        tree.at(now).any(|(_, node)| is_own(node))
    }
}

impl Workload for OneNode {
    type Machine = SimpleContender;

    fn nodes(&self) -> Vec<(&str, &[u8])> {
        Vec::new()
    }

    fn machines(&self) -> Vec<SimpleContender> {
        let machine = |contender: usize| {
            let tries = self.trier && contender + 1 == self.tokens.len();
            let guid = guid(if self.has_one_guid { 0 } else { contender }, 0);
            let session = session(contender);
            let config = AttemptConfig::of_node(LOCK.into(), SCHEME, guid, session);
            let wait_policy = if tries { WaitPolicy::OnlyIfFirst } else { WaitPolicy::Queue };
            SimpleContender::new(AttemptConfig { wait_policy, ..config })
        };
        (0..self.tokens.len()).map(machine).collect()
    }

    fn twin(&self, contender: usize) -> Option<usize> {
        let tries = self.trier && contender + 1 == self.tokens.len();
        contender.checked_sub(1).filter(|_| !tries)
    }

    fn reported(
        &mut self,
        contender: usize,
        event: &Event,
        mut context: ReportContext<'_>,
    ) -> Result<Progress, String> {
        let owner = &context.owners[contender];
        let after = owner.after(contender, event)?;
        let has_held = owner.progress != Progress::Nothing;
        match event {
            Event::Waiting { .. } => context.reach("waits"),
            Event::Acquired { token, .. } => {
                let token = Index::try_from(token.0).expect("a transaction of this world");
                self.tokens[contender] = token;
                if !self.is_there(contender, context.tree, context.now) {
                    return Err(format!("{contender} is granted the lock without its node"));
                }
                context.reach(ACQUIRES[contender]);
                if context.cause != Cause::Created {
                    context.reach("adopts");
                }
            }
            Event::Resumed if !self.is_there(contender, context.tree, context.now) => {
                return Err(format!("{contender} resumes a lock that it has lost"));
            }
            Event::Resumed => context.reach("resumes"),
            Event::Lost(loss) => context.reach(lost_by(contender, loss)?),
            Event::Released if !has_held => context.reach("gives up"),
            Event::Failed(error) => context.reach(match error {
                LockError::TimedOut => "is busy",
                LockError::NoConnection => "has no connection",
                LockError::Ended(_) => "ends with its session",
                error => return Err(format!("{contender} fails: {error}")),
            }),
            _ => {}
        }
        Ok(after)
    }

    fn check(
        &mut self,
        tree: &Tree,
        owners: &[Owner],
        lines: &[&Line],
        milestones: &mut Milestones,
    ) -> Result<(), String> {
        let is_robbed = |contender: &usize| {
            let relies = owners[*contender].holds() && !lines[*contender].expired;
            relies && !self.is_there(*contender, tree, tree.log)
        };
        if self.nobody_meddles
            && let Some(contender) = (0..owners.len()).find(is_robbed)
        {
            return Err(format!("the node of {contender} is deleted by another"));
        }
        if lines.iter().filter(|line| line.is_watched(LOCK)).count() > 2 {
            milestones.insert("a herd waits");
        }
        Ok(())
    }
}

const CALM: Bounds = Bounds { deletions: Some(0), late: true, ..Bounds::CALM };

fn lock(contenders: usize, bounds: Bounds) -> World<OneNode> {
    World::new(bounds, one_node(contenders, bounds))
}

fn one_node(contenders: usize, bounds: Bounds) -> OneNode {
    OneNode {
        tokens: alloc::vec![0; contenders],
        trier: false,
        nobody_meddles: bounds.deletions == Some(0),
        has_one_guid: false,
    }
}

#[test]
fn three_take_turns() {
    search::prove(lock(3, CALM), 108, &[ONE, TWO, THREE, "waits"]);
}

#[test]
fn a_herd_waits_for_one_node() {
    search::prove(
        lock(4, Bounds { late: false, ..CALM }),
        203,
        &[ONE, TWO, THREE, FOUR, "waits", "a herd waits"],
    );
}

#[test]
fn two_of_which_one_gives_up() {
    let bounds = Bounds { early_commands: 1, ..CALM };
    search::prove(lock(2, bounds), 88, &[ONE, TWO, "waits", "gives up"]);
}

#[test]
fn one_that_does_not_wait() {
    let bounds = Bounds { faults: 1, ..CALM };
    let workload = OneNode { trier: true, ..one_node(2, bounds) };
    let milestones = [ONE, TWO, "adopts", "resumes", "waits", "is busy", "has no connection"];
    search::prove(World::new(bounds, workload), 2_927, &milestones);
}

const SURVIVED: [&str; 5] = [ONE, TWO, "waits", "adopts", "resumes"];

#[test]
fn two_survive_one_fault_on_servers_that_lag() {
    search::prove(lock(2, Bounds { servers: 2, faults: 1, ..CALM }), 3_329, &SURVIVED);
}

#[test]
fn two_survive_a_deletion_by_another() {
    let bounds = Bounds { deletions: Some(1), early_commands: 1, ..CALM };
    search::prove(lock(2, bounds), 878, &[ONE, TWO, "waits", "gives up", "loses its node"]);
}

#[test]
fn two_survive_a_deletion_and_a_fault() {
    let bounds = Bounds { deletions: Some(1), faults: 1, ..CALM };
    search::prove(lock(2, bounds), 7_907, &[&SURVIVED[..], &["loses its node"]].concat());
}

// ---- Negative controls --------------------------------------------------------------------------

fn refutes(contenders: usize, bounds: Bounds, bug: Bug, wrong: &str, steps: usize) {
    search::refute(lock(contenders, Bounds { bug: Some(bug), ..bounds }), wrong, steps);
}

#[test]
fn a_deletion_that_is_sent_again_deletes_the_node_of_the_next_owner() {
    let bounds = Bounds { faults: 1, ..CALM };
    refutes(2, bounds, Bug::ResendsDeletions, "the node of 1 is deleted by another", 10);
}

#[test]
fn without_a_sync_a_deletion_is_repeated_after_it_was_applied() {
    let bounds = Bounds { servers: 2, faults: 1, ..CALM };
    refutes(2, bounds, Bug::NoSync, "the node of 1 is deleted by another", 15);
}

#[test]
fn without_a_watch_one_waits_for_ever() {
    refutes(2, CALM, Bug::DataUnwatched, "1 waits for ever", 10);
}

#[test]
fn without_a_guid_in_the_data_one_waits_for_its_own_node() {
    let bounds = Bounds { faults: 1, ..CALM };
    refutes(1, bounds, Bug::NamesWithoutGuid, "0 waits for ever", 9);
}

#[test]
fn without_an_owner_check_a_node_with_the_same_guid_is_adopted() {
    let bounds = Bounds { bug: Some(Bug::OwnerUnchecked), ..CALM };
    let workload = OneNode { has_one_guid: true, ..one_node(2, bounds) };
    search::refute(World::new(bounds, workload), "1 is granted the lock without its node", 6);
}
