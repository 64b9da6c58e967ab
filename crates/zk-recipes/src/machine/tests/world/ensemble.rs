//! The ensemble's part: a log, members that lag behind it, and the nodes.

use core::hash::Hash;

use super::*;

/// A node, by its place among all that were ever created.
pub(super) type NodeId = usize;

/// What a name says.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Label {
    pub(super) guid: usize,
    pub(super) claim: Claim,
    pub(super) number: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wish {
    Create(Claim),
    /// A writer's node by a reader's of the same number.
    Replace(Label),
    List,
    /// A list in which our node cannot be told from others.
    ListInVain,
    Sync,
    Stat(Label),
    Watch(NodeId),
    Delete(Label),
}

#[derive(Clone, Copy, Hash)]
pub(super) enum Answer {
    Done,
    Created(NodeId),
    Refused(ErrorCode),
    Lost,
    Ended,
}

#[derive(Clone, Hash)]
pub(super) struct LockNode {
    pub(super) label: Label,
    /// The number that lists show.
    pub(super) listed: i32,
    /// Nobody, if it is forged.
    pub(super) owner: Option<usize>,
    /// Where it stands in the queue: that of the writer that it was, or else its creation.
    pub(super) place: Index,
    pub(super) created: Index,
    deleted: Option<Index>,
}

impl LockNode {
    pub(super) fn exists_at(&self, index: Index) -> bool {
        self.created <= index && self.deleted.is_none_or(|deleted| deleted > index)
    }
}

#[derive(Clone)]
pub(super) struct Ensemble {
    numbers: Numbers,
    flaw: Option<Flaw>,
    nodes: Vec<LockNode>,
    /// How many nodes were created in the directory.
    counter: usize,
    log: Index,
    members: Vec<Index>,
}

impl Hash for Ensemble {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.nodes, self.counter, self.log, &self.members).hash(state);
    }
}

impl Ensemble {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let Bounds { numbers, flaw, members, created_before: counter, .. } = *bounds;
        let members = alloc::vec![0; members];
        Self { numbers, flaw, nodes: Vec::new(), counter, log: 0, members }
    }

    // ---- What there is -------------------------------------------------------------------------

    pub(super) fn node(&self, node: NodeId) -> &LockNode {
        &self.nodes[node]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (NodeId, &LockNode)> + Clone {
        self.nodes.iter().enumerate()
    }

    pub(super) fn there(&self) -> impl Iterator<Item = (NodeId, &LockNode)> + Clone {
        self.all().filter(|(_, node)| node.exists_at(self.log))
    }

    pub(super) fn forged(&self) -> impl Iterator<Item = NodeId> + Clone {
        self.there().filter(|(_, node)| node.owner.is_none()).map(|(id, _)| id)
    }

    pub(super) fn at(&self, now: Index) -> impl Iterator<Item = (NodeId, &LockNode)> + Clone {
        self.all().filter(move |(_, node)| node.exists_at(now))
    }

    /// The newest node of this name; whether it still exists is another question.
    pub(super) fn find(&self, label: Label) -> Option<NodeId> {
        self.nodes.iter().rposition(|node| {
            let Label { guid, claim, number } = node.label;
            let numbers = [number, node.listed];
            (guid, claim) == (label.guid, label.claim) && numbers.contains(&label.number)
        })
    }

    pub(super) fn deleted_at(&self, index: Index) -> Vec<NodeId> {
        let all = self.all().filter(|(_, node)| node.deleted == Some(index));
        all.map(|(id, _)| id).collect()
    }

    // ---- Members -------------------------------------------------------------------------------

    pub(super) fn is_lagging(&self, member: usize) -> bool {
        self.members[member] < self.log
    }

    pub(super) fn lagging(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(|member| self.is_lagging(*member))
    }

    pub(super) fn members_that_know(&self, index: Index) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(move |member| self.members[*member] >= index)
    }

    pub(super) fn now(&self, member: usize) -> Index {
        self.members[member]
    }

    pub(super) fn apply_next(&mut self, member: usize) -> Index {
        self.members[member] += 1;
        self.members[member]
    }

    // ---- Transactions --------------------------------------------------------------------------

    fn next_number(&mut self) -> i32 {
        self.counter += 1;
        match (self.numbers, self.flaw) {
            (Numbers::Rise, _) => i32::try_from(self.counter).expect("few") - 1,
            // Those below, in the same order, but where nobody suspects them.
            (Numbers::End, Some(Flaw::EndOfNumbersUnnoticed)) => match self.counter {
                2 => 0,
                _ => 9,
            },
            (Numbers::End, _) => match self.counter {
                2 => i32::MIN,
                _ => i32::MAX,
            },
        }
    }

    fn create(&mut self, owner: Option<usize>, guid: usize, claim: Claim) -> NodeId {
        let number = self.next_number();
        self.log += 1;
        let (created, place) = (self.log, self.log);
        let label = Label { guid, claim, number };
        let node = LockNode { label, listed: number, owner, place, created, deleted: None };
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    pub(super) fn forge(&mut self, guid: usize, claim: Claim) {
        self.create(None, guid, claim);
    }

    /// The directory is removed, and made anew.
    pub(super) fn recreate(&mut self) {
        self.log += 2;
        self.counter = 0;
    }

    /// A write reaches the log.
    pub(super) fn execute(&mut self, contender: usize, guid: usize, wish: Wish) -> Answer {
        match wish {
            Wish::Create(claim) => Answer::Created(self.create(Some(contender), guid, claim)),
            Wish::Delete(label) => match self.find(label) {
                Some(node) if self.delete(node) => Answer::Done,
                _ => Answer::Refused(ErrorCode::NO_NODE),
            },
            Wish::Replace(writer) => self.replace(writer),
            _ => Answer::Done,
        }
    }

    fn replace(&mut self, writer: Label) -> Answer {
        let reader = Label { claim: Claim::Shared, ..writer };
        let is_there = |node: &NodeId| self.nodes[*node].exists_at(self.log);
        if self.find(reader).filter(is_there).is_some() {
            return Answer::Refused(ErrorCode::NODE_EXISTS);
        }
        let Some(old) = self.find(writer).filter(is_there) else {
            return Answer::Refused(ErrorCode::NO_NODE);
        };
        self.log += 1;
        let (created, owner) = (self.log, self.nodes[old].owner);
        self.nodes[old].deleted = Some(created);
        // Every creation counts.
        let next = self.next_number();
        let listed = match self.flaw {
            Some(Flaw::DowngradeToTheEnd) => next,
            _ => writer.number,
        };
        let place = self.nodes[old].place;
        self.nodes.push(LockNode { label: reader, listed, owner, place, created, deleted: None });
        Answer::Done
    }

    pub(super) fn delete(&mut self, node: NodeId) -> bool {
        let exists = self.nodes[node].deleted.is_none();
        if exists {
            self.log += 1;
            self.nodes[node].deleted = Some(self.log);
        }
        exists
    }

    /// All nodes of a session go in one transaction.
    pub(super) fn expire(&mut self, contender: usize) {
        let now = self.log + 1;
        let of_it = |node: &&mut LockNode| node.owner == Some(contender) && node.deleted.is_none();
        for node in self.nodes.iter_mut().filter(of_it) {
            node.deleted = Some(now);
            self.log = now;
        }
    }
}
