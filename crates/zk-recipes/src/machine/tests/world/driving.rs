//! Drives the machines: does what they want.

use super::ensemble::{Answer, Label, Wish};
use super::party::News;
use super::*;

impl World {
    /// Gives the machine an input and does what it wants.
    pub(super) fn perform(
        &mut self,
        contender: usize,
        input: Option<Input>,
        news: Option<News>,
    ) -> Result<(), String> {
        let mut machine = (*self.parties[contender].machine).clone();
        if let Some(input) = input {
            machine.handle(input);
        }
        while let Some(output) = machine.poll_output() {
            let party = &mut self.parties[contender];
            match output {
                Output::SetTimer(_) => party.timer = true,
                Output::Settle => machine.handle(Input::Settled),
                Output::Unwatch(OpId(op)) => party.line.unwatch(op),
                Output::Submit { op: OpId(op), operation } => {
                    let wish = operation.with_request(|request| self.wish(request));
                    self.submit(contender, op, wish);
                }
                Output::Event(event) => self.tell(contender, &event, news)?,
            }
        }
        let done = machine.is_done();
        self.parties[contender].set_machine(machine);
        if done { self.finish(contender) } else { Ok(()) }
    }

    fn submit(&mut self, contender: usize, op: u64, mut wish: Wish) {
        let flaw = self.bounds.flaw;
        let holder = self.ensemble.there().next().map(|(node, _)| node);
        let party = &mut self.parties[contender];
        if party.line.ended {
            return party.line.inbox.push_back(News::Reply(op, wish, Answer::Ended, 0));
        }
        if let Wish::Create(claim) = wish {
            party.upgrades |= claim != party.claim;
            party.creations += usize::from(claim == party.claim);
            if party.creations > 1 {
                self.sights.insert(Sight::CreatedAgain);
            }
        }
        let is_search = party.line.asked.back().is_some_and(|(_, before)| *before == Wish::Sync);
        if wish == Wish::List && is_search && flaw == Some(Flaw::NamesWithoutGuid) {
            wish = Wish::ListInVain;
        }
        if let Wish::Watch(node) = &mut wish {
            let is_own = self.ensemble.node(*node).owner == Some(contender);
            match flaw {
                Some(Flaw::Herd) if !is_own => *node = holder.unwrap_or(*node),
                _ => {}
            }
            if !(is_own && flaw == Some(Flaw::NoWatchOnOwnNode)) {
                party.line.watch(op, *node);
            }
        }
        party.line.asked.push_back((op, wish));
    }

    /// Nothing that is still outstanding may matter.
    fn finish(&mut self, contender: usize) -> Result<(), String> {
        let party = &mut self.parties[contender];
        let creating = party.line.asked.iter().any(|(_, wish)| matches!(wish, Wish::Create(_)));
        if party.told != Told::Over {
            return Err(format!("{contender} is done and has not told how"));
        }
        if !party.line.watches.is_empty() {
            return Err(format!("{contender} is done and leaves a watch"));
        }
        if creating || self.ensemble.there().any(|(_, node)| node.owner == Some(contender)) {
            return Err(format!("{contender} is done and leaves a node"));
        }
        party.forget();
        match party.precedent(self.bounds.flaw) {
            Some(precedent) => self.begin_again(contender, precedent),
            None => Ok(()),
        }
    }

    fn begin_again(&mut self, contender: usize, precedent: Precedent) -> Result<(), String> {
        self.sights.insert(Sight::Returned);
        self.parties[contender] = self.parties[contender].next(&self.bounds, contender, precedent);
        self.perform(contender, None, None)
    }

    pub(super) fn serve(&mut self, contender: usize) {
        let party = &self.parties[contender];
        let (wish, member) = (party.line.next(), party.member.expect("a connection"));
        let is_write = matches!(wish, Wish::Create(_) | Wish::Delete(_) | Wish::Replace(_));
        let mut answer = if is_write {
            self.ensemble.execute(contender, party.guid, wish)
        } else {
            Answer::Done
        };
        let is_sync = wish == Wish::Sync
            && match self.bounds.flaw {
                Some(Flaw::NoSync) => false,
                Some(Flaw::NoSyncForReader) => self.parties[contender].converting.is_none(),
                _ => true,
            };
        // A write is answered by a member when it has applied it.
        if is_write || is_sync {
            self.catch_up(member);
        }
        let now = self.ensemble.now(member);
        let exists = |node| self.ensemble.node(node).exists_at(now);
        match wish {
            Wish::Stat(label) if !self.ensemble.find(label).is_some_and(exists) => {
                answer = Answer::Refused(ErrorCode::NO_NODE);
            }
            Wish::Watch(node) if exists(node) => {
                self.parties[contender].line.watched.insert(node);
            }
            Wish::Watch(_) if self.bounds.flaw != Some(Flaw::ExistsForWatch) => {
                answer = Answer::Refused(ErrorCode::NO_NODE);
            }
            _ => {}
        }
        self.parties[contender].line.reply(answer, now);
    }

    // ---- Names ---------------------------------------------------------------------------------

    fn wish(&self, request: &Request<'_>) -> Wish {
        match request {
            Request::Create2(create) => {
                let claim = self.label(&format!("{}{:010}", create.path, 0)).claim;
                Wish::Create(claim)
            }
            Request::Multi(multi) => {
                let operations: Vec<_> = multi.iter().collect();
                let [MultiOp::Create(create), MultiOp::Delete(delete)] = &operations[..] else {
                    panic!("{operations:?}")
                };
                let (reader, writer) = (self.label(create.path), self.label(delete.path));
                assert_eq!((reader.guid, reader.number), (writer.guid, writer.number));
                assert_eq!((reader.claim, writer.claim), (Claim::Shared, Claim::Exclusive));
                Wish::Replace(writer)
            }
            Request::Delete(delete) => Wish::Delete(self.label(delete.path)),
            Request::Exists(exists) => Wish::Stat(self.label(exists.path)),
            Request::Sync(_) => Wish::Sync,
            Request::GetChildren(list) if list.watch => {
                Wish::Watch(self.ensemble.find(self.label(list.path)).expect("it was listed"))
            }
            Request::GetChildren(_) => Wish::List,
            request => panic!("{request:?}"),
        }
    }

    pub(super) fn label(&self, path: &str) -> Label {
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = self.bounds.scheme.parse(name).expect("a lock node");
        let guid = usize::try_from(name.guid.expect("a guid").as_u128()).expect("small") - 1;
        let mut number = name.sequence.0;
        if self.bounds.flaw == Some(Flaw::ReadersWatchHigherWriters) {
            number %= LATE;
        }
        Label { guid, claim: name.claim, number }
    }

    /// The name of a node in the eyes of a contender.
    pub(super) fn name(&self, node: NodeId, contender: usize) -> String {
        let node = self.ensemble.node(node);
        let Label { guid: of, claim, number } = node.label;
        let mut number = if node.owner == Some(contender) { number } else { node.listed };
        let is_late = node.owner == Some(contender)
            && claim == Claim::Shared
            && self.bounds.flaw == Some(Flaw::ReadersWatchHigherWriters);
        if is_late {
            number += LATE;
        }
        let prefix = self.bounds.scheme.prefix(claim, guid(of), SESSION);
        format!("{prefix}{}", Sequence(number))
    }

    pub(super) fn path(&self, node: NodeId, contender: usize) -> String {
        format!("{DIRECTORY}/{}", self.name(node, contender))
    }
}

/// More than there are nodes.
const LATE: i32 = 100;
