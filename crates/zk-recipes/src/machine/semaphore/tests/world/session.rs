//! The session's part: what it notes, loses and replays, and what it has to tell.

use zk_session::proto::{
    Create2Response, CreateResponse, EventType, ExistsResponse, GetChildrenResponse,
    GetDataResponse, Multi, MultiResult, OpCode, Stat, Zxid,
};
use zk_session::session::Reply;
use zk_session::{End, Error, Outcome};

use super::super::super::super::tests::{lost, ok, refused, reply};
use super::*;

impl World {
    fn receive(&mut self, borrower: usize) {
        let line = &mut self.parties[borrower].line;
        if let Some(Message::Fired(_, now)) = line.wire.front() {
            line.seen = line.seen.max(*now);
        }
        let one_lease = self.bounds.flaw == Some(Flaw::OneLeaseWatched);
        let is_refusal = |answer: &Answer| matches!(answer, Answer::No(_));
        line.receive(is_refusal, |event, watched| {
            event == watched || one_lease && watched == Target::Leases
        });
    }

    pub(super) fn cut(&mut self, borrower: usize, applied: usize) {
        let served = self.parties[borrower].line.served;
        for place in served..served + applied {
            self.execute(borrower, self.parties[borrower].line.asked[place].1);
        }
        let party = &mut self.parties[borrower];
        party.line.cut(party.line.asked.len(), |_| Answer::Lost);
        party.connected = false;
    }

    pub(super) fn resume(&mut self, borrower: usize) {
        let party = &mut self.parties[borrower];
        if party.line.expired {
            return party.line.end(Answer::Ended);
        }
        party.connected = true;
        party.line.inbox.push_back(News::Connected);
        let (seen, armed): (_, BTreeSet<_>) = (party.line.seen, party.line.armed().collect());
        for target in armed {
            let changed = match target {
                Target::Node(node) => !self.nodes[node].exists_at(self.log),
                Target::Leases => self.leases_changed > seen,
                Target::Maximum => {
                    self.bounds.flaw != Some(Flaw::MaximumUnwatched)
                        && self.maximum.last().is_some_and(|(since, _)| *since > seen)
                }
            };
            let line = &mut self.parties[borrower].line;
            line.watched.insert(target);
            if changed {
                line.fire(target, self.log);
            }
        }
    }

    /// The machine hears the next of what its session has to tell.
    pub(super) fn hear(&mut self, borrower: usize) -> Result<(), String> {
        if self.parties[borrower].line.inbox.is_empty() {
            self.receive(borrower);
        }
        match self.parties[borrower].line.inbox.pop_front() {
            Some(news) => {
                if let News::Reply(_, Wish::Stat(node), Answer::Done, _) = news
                    && self.nodes[node].kind == Kind::Lease
                {
                    self.sights.insert(Sight::Adopted);
                }
                let input = self.input(borrower, news);
                self.perform(borrower, Some(input), Some(news))
            }
            // The watch had been dropped.
            None => Ok(()),
        }
    }

    fn input(&self, borrower: usize, news: News) -> Input {
        let connected = State::Connected { member: 0, session: session(borrower) };
        match news {
            News::Suspended => Input::Session(State::Suspended),
            News::Connected => Input::Session(connected),
            News::Expired => Input::Session(State::Ended(End::Expired)),
            // Which event it is only matters for nodes of the queue and leases.
            News::Fired(op, _) => {
                Input::Watch { op: OpId(op), event_type: EventType::NODE_DELETED }
            }
            News::Reply(op, wish, answer, now) => {
                let result = match answer {
                    Answer::No(code) => refused(code),
                    Answer::Lost => lost(),
                    Answer::Garbage => ok(),
                    Answer::Ended => {
                        Err(Error::Ended { end: End::Expired, outcome: Outcome::NotApplied })
                    }
                    Answer::Created(node) => self.creation(node, wish, now),
                    Answer::Done => self.answer(borrower, wish, now),
                };
                Input::Reply { op: OpId(op), result }
            }
        }
    }

    fn creation(&self, first: NodeId, wish: Wish, now: Index) -> Result<Reply, Error> {
        let path = |node: NodeId| format!("{DIRECTORY}/x/{}", self.name(node));
        let Wish::Lease(count) = wish else {
            let path = format!("{DIRECTORY}/locks/{}", self.name(first));
            let stat = self.stat(first);
            return reply(OpCode::CREATE2, &Create2Response { path: &path, stat });
        };
        let paths: Vec<_> = (first..first + count as usize).map(path).collect();
        let created = |path| MultiResult::Create(CreateResponse { path });
        let results: Vec<_> = paths.iter().map(|path| created(path)).collect();
        let answer = reply(OpCode::MULTI, &Multi::new(&results));
        answer.map(|reply| Reply { zxid: Zxid(now.into()), ..reply })
    }

    fn answer(&self, borrower: usize, wish: Wish, now: Index) -> Result<Reply, Error> {
        let list = |kind: Kind| {
            let listed = |node: &NodeId| {
                let Node { owner, kind: of, .. } = self.nodes[*node];
                let as_of = match self.bounds.flaw {
                    Some(Flaw::CountedBeforeCreated)
                        if kind == Kind::Lease && owner != borrower =>
                    {
                        self.parties[borrower].asked_for_leases
                    }
                    _ => now,
                };
                of == kind && self.nodes[*node].exists_at(as_of)
            };
            let names: Vec<_> =
                (0..self.nodes.len()).filter(listed).map(|node| self.name(node)).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
        };
        match wish {
            Wish::List(kind) => list(kind),
            Wish::Watch(Target::Leases) => list(Kind::Lease),
            Wish::Watch(Target::Maximum) => {
                let maximum = u32::from(self.maximum_at(now).expect("there is one"));
                let data = maximum.to_be_bytes();
                let response = GetDataResponse { data: Some(&data), stat: Stat::default() };
                reply(OpCode::GET_DATA, &response)
            }
            Wish::Stat(node) => reply(OpCode::EXISTS, &ExistsResponse { stat: self.stat(node) }),
            _ => ok(),
        }
    }

    fn stat(&self, node: NodeId) -> Stat {
        let Node { owner, created, .. } = self.nodes[node];
        Stat { czxid: Zxid(created.into()), ephemeral_owner: session(owner), ..Stat::default() }
    }
}
