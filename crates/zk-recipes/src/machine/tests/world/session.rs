//! The session's part: what it notes, loses and replays, and what it has to tell.

use zk_session::Outcome;

use super::ensemble::{Answer, Wish};
use super::party::News;
use super::*;

impl Party {
    fn receive(&mut self) {
        let is_refusal = |answer: &Answer| matches!(answer, Answer::Refused(_));
        self.line.receive(is_refusal, |event, watched| event == watched);
    }
}

impl World {
    pub(super) fn cut(&mut self, contender: usize, received: usize, sent: usize, applied: usize) {
        let party = &mut self.parties[contender];
        for _ in 0..received {
            party.receive();
        }
        let served = party.line.served;
        for (_, wish) in party.line.asked.iter().skip(served).take(applied) {
            self.ensemble.execute(contender, party.guid, *wish);
        }
        let trusts_lost_sync = self.bounds.flaw == Some(Flaw::LostSyncTrusted);
        party.line.cut(served + sent, |wish| match wish {
            Wish::Sync if trusts_lost_sync => Answer::Done,
            _ => Answer::Lost,
        });
        party.member = None;
    }

    pub(super) fn resume(&mut self, contender: usize, member: usize) {
        let party = &mut self.parties[contender];
        if party.line.expired {
            return party.line.end(Answer::Ended);
        }
        party.member = Some(member);
        party.line.inbox.push_back(News::Connected);
        let now = self.ensemble.now(member);
        let mut armed: Vec<_> = party.line.armed().collect();
        armed.sort_unstable_by_key(|node| (guid(self.ensemble.node(*node).label.guid), *node));
        armed.dedup();
        for node in armed {
            party.line.watched.insert(node);
            if !self.ensemble.node(node).exists_at(now) {
                party.line.fire(node, now);
            }
        }
    }

    /// The machine hears the next of what its session has to tell.
    pub(super) fn hear(&mut self, contender: usize) -> Result<(), String> {
        let party = &mut self.parties[contender];
        if party.line.inbox.is_empty() {
            party.receive();
        }
        let newest_state = party.line.inbox.iter().copied().rfind(|news| news.is_state());
        let news = match newest_state {
            // Of several changes only the last one is seen.
            Some(state) if self.bounds.overtaking => {
                party.line.inbox.retain(|news| !news.is_state());
                Some(state)
            }
            // The watch had been dropped.
            _ => party.line.inbox.pop_front(),
        };
        let unnoticed = self.bounds.flaw == Some(Flaw::ReconnectUnnoticed)
            && party.told == Told::Nothing
            && matches!(news, Some(News::Suspended | News::Connected));
        match news {
            Some(news) if !unnoticed => {
                let input = self.input(contender, news);
                self.perform(contender, Some(input), Some(news))
            }
            _ => Ok(()),
        }
    }

    fn input(&self, contender: usize, news: News) -> Input {
        match news {
            News::Suspended => Input::Session(State::Suspended),
            News::Connected => {
                Input::Session(State::Connected { member: 0, session: session(contender) })
            }
            News::Expired => Input::Session(State::Ended(End::Expired)),
            News::Fired(op, _) => {
                Input::Watch { op: OpId(op), event_type: EventType::NODE_DELETED }
            }
            News::Reply(op, wish, answer, now) => {
                let result = match answer {
                    Answer::Refused(code) if matches!(wish, Wish::Replace(_)) => {
                        replaced(Some(code))
                    }
                    Answer::Refused(code) => refused(code),
                    Answer::Lost => lost(),
                    Answer::Ended => {
                        Err(Error::Ended { end: End::Expired, outcome: Outcome::NotApplied })
                    }
                    Answer::Created(node) => {
                        let (path, stat) = (self.path(node, contender), self.stat(node, contender));
                        reply(OpCode::CREATE2, &Create2Response { path: &path, stat })
                    }
                    Answer::Done => self.answer(contender, wish, now),
                };
                Input::Reply { op: OpId(op), result }
            }
        }
    }

    fn answer(&self, contender: usize, wish: Wish, now: Index) -> Result<Reply, Error> {
        match wish {
            Wish::List | Wish::ListInVain => {
                let guid = self.parties[contender].guid;
                let names: Vec<_> = self
                    .ensemble
                    .at(now)
                    .filter(|(_, node)| wish == Wish::List || node.label.guid != guid)
                    .map(|(id, _)| self.name(id, contender))
                    .collect();
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
            }
            Wish::Stat(label) => {
                let node = self.ensemble.find(label).expect("it was there");
                reply(OpCode::EXISTS, &ExistsResponse { stat: self.stat(node, contender) })
            }
            Wish::Replace(_) => replaced(None),
            _ => ok(),
        }
    }

    fn stat(&self, node: NodeId, contender: usize) -> Stat {
        const STRANGER: SessionId = SessionId(-1);
        let node = self.ensemble.node(node);
        let owner = match self.bounds.flaw {
            Some(Flaw::OwnerUnchecked) => Some(contender),
            _ => node.owner,
        };
        let ephemeral_owner = owner.map_or(STRANGER, session);
        Stat { czxid: Zxid(node.created.into()), ephemeral_owner, ..Stat::default() }
    }
}
