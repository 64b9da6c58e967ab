//! The server's part: what it has, and what it answers.

use super::*;

impl Wish {
    pub(super) fn is_write(&self) -> bool {
        !matches!(self, Self::List(_) | Self::Sync | Self::Stat(_) | Self::Watch(_))
    }

    /// How the server may refuse this. What it may not, only costs the borrower the knowledge of
    /// what there is to clean up.
    pub(super) fn refusals(&self) -> &'static [Refusal] {
        match self {
            Self::Enter => &[Refusal::ForGood, Refusal::Garbage],
            Self::Lease(_) | Self::Watch(Target::Leases | Target::Maximum) => {
                &[Refusal::ForNow, Refusal::ForGood, Refusal::Garbage]
            }
            Self::CreateMaximum(_) => &[Refusal::ForNow, Refusal::ForGood],
            Self::List(Kind::Lease) | Self::Stat(_) => &[Refusal::ForNow, Refusal::Garbage],
            Self::Sync | Self::Delete(_) | Self::Watch(_) => &[Refusal::ForNow],
            Self::Directory(..) | Self::List(_) => &[],
        }
    }
}

impl World {
    pub(super) fn serve(&mut self, borrower: usize) {
        let party = &self.parties[borrower];
        let answer = self.execute(borrower, party.line.next());
        self.send(borrower, answer);
    }

    pub(super) fn refuse(&mut self, borrower: usize, refusal: Refusal) {
        let party = &self.parties[borrower];
        let wish = party.line.next();
        let answer = match refusal {
            Refusal::ForNow => Answer::No(ErrorCode::THROTTLED_OP),
            Refusal::ForGood => Answer::No(ErrorCode::NO_AUTH),
            Refusal::Garbage => {
                self.execute(borrower, wish);
                Answer::Garbage
            }
        };
        self.send(borrower, answer);
    }

    fn send(&mut self, borrower: usize, answer: Answer) {
        self.parties[borrower].line.reply(answer, self.log);
    }

    pub(super) fn execute(&mut self, borrower: usize, wish: Wish) -> Answer {
        let absent = Answer::No(ErrorCode::NO_NODE);
        match wish {
            Wish::Enter if !self.directories.contains(&Kind::Place) => absent,
            Wish::Lease(_) | Wish::List(Kind::Lease) | Wish::Watch(Target::Leases)
                if !self.directories.contains(&Kind::Lease) =>
            {
                absent
            }
            Wish::List(kind) if !self.directories.contains(&kind) => absent,
            Wish::Enter => self.create(borrower, Kind::Place, 1),
            Wish::Lease(count) => self.create(borrower, Kind::Lease, count),
            Wish::CreateMaximum(_) if self.maximum_at(self.log).is_some() => {
                Answer::No(ErrorCode::NODE_EXISTS)
            }
            Wish::CreateMaximum(maximum) => {
                self.change_maximum(Some(maximum));
                Answer::Done
            }
            Wish::Directory(kind, is_last) => {
                if is_last && !self.directories.contains(&kind) {
                    self.directories.push(kind);
                    self.directories.sort_unstable_by_key(|kind| *kind as u8);
                }
                Answer::Done
            }
            Wish::Watch(Target::Maximum) if self.maximum_at(self.log).is_none() => absent,
            Wish::Stat(node) | Wish::Watch(Target::Node(node))
                if !self.nodes[node].exists_at(self.log) =>
            {
                absent
            }
            Wish::Delete(node) if !self.delete(node) => absent,
            Wish::Watch(target) => {
                self.watch(borrower, target);
                Answer::Done
            }
            Wish::List(_) | Wish::Sync | Wish::Stat(_) | Wish::Delete(_) => Answer::Done,
        }
    }

    fn watch(&mut self, borrower: usize, target: Target) {
        let target = match (self.bounds.flaw, target) {
            (Some(Flaw::MaximumUnwatched), Target::Maximum) => return,
            (Some(Flaw::OneLeaseWatched), Target::Leases) => {
                let leases = (0..self.nodes.len()).filter(|node| {
                    let node = &self.nodes[*node];
                    node.kind == Kind::Lease && node.exists_at(self.log) && node.owner != borrower
                });
                let Some(lease) = leases.rev().nth(usize::from(self.bounds.maximum) - 1) else {
                    return;
                };
                Target::Node(lease)
            }
            (_, target) => target,
        };
        self.parties[borrower].line.watched.insert(target);
    }

    fn create(&mut self, owner: usize, kind: Kind, count: u32) -> Answer {
        self.log += 1;
        let first = self.nodes.len();
        for _ in 0..count {
            let same = self.nodes.iter().filter(|node| node.kind == kind).count();
            let number = i32::try_from(same).expect("few nodes");
            self.nodes.push(Node { kind, number, owner, created: self.log, deleted: None });
        }
        if kind == Kind::Lease {
            self.fire(Target::Leases);
        }
        Answer::Created(first)
    }

    pub(super) fn delete(&mut self, node: NodeId) -> bool {
        let exists = self.nodes[node].deleted.is_none();
        if exists {
            self.log += 1;
            self.gone(node);
        }
        exists
    }

    fn gone(&mut self, node: NodeId) {
        self.nodes[node].deleted = Some(self.log);
        self.fire(Target::Node(node));
        if self.nodes[node].kind == Kind::Lease {
            self.fire(Target::Leases);
        }
    }

    pub(super) fn expire(&mut self, borrower: usize) {
        self.parties[borrower].line.expired = true;
        self.log += 1;
        for node in 0..self.nodes.len() {
            if self.nodes[node].owner == borrower && self.nodes[node].deleted.is_none() {
                self.gone(node);
            }
        }
    }

    pub(super) fn change_maximum(&mut self, maximum: Option<u8>) {
        self.log += 1;
        self.maximum.push((self.log, maximum));
        self.fire(Target::Maximum);
    }

    fn fire(&mut self, target: Target) {
        if target == Target::Leases {
            self.leases_changed = self.log;
        }
        for party in &mut self.parties {
            party.line.fire(target, self.log);
        }
    }

    pub(super) fn maximum_at(&self, index: Index) -> Option<u8> {
        self.maximum.iter().rfind(|(since, _)| *since <= index).and_then(|(_, maximum)| *maximum)
    }

    pub(super) fn name(&self, node: NodeId) -> String {
        let Node { kind, number, owner, .. } = self.nodes[node];
        let marker = match kind {
            Kind::Place => "lock-",
            Kind::Lease => "lease-",
        };
        format!("_c_{}-{marker}{number:010}", guid(owner).as_hyphenated())
    }
}
