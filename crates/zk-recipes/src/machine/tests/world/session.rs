//! The session's part: what it notes, loses and replays, and what it has to tell.

use super::*;

impl World {
    /// The session reads the next message and notes what it has to tell.
    fn receive(&mut self, contender: usize) {
        let party = &mut self.parties[contender];
        match party.wire.pop_front().expect("a message") {
            Message::Reply(answer, now) => {
                let (op, wish) = party.asked.pop_front().expect("a request");
                party.served -= 1;
                party.seen = party.seen.max(now);
                match answer {
                    Answer::NoNode => party.watches.retain(|watch| watch.op != op),
                    _ => party.watches.iter_mut().for_each(|watch| watch.armed |= watch.op == op),
                }
                party.inbox.push_back(News::Reply(op, wish, answer, now));
            }
            Message::Deleted(node, now) => {
                let fired = |watch: &mut SessionWatch| watch.armed && watch.node == node;
                let fired = party.watches.extract_if(.., fired);
                party.inbox.extend(fired.map(|watch| News::Deleted(watch.op, now)));
            }
        }
    }

    pub(super) fn cut(&mut self, contender: usize, received: usize, sent: usize, applied: usize) {
        for _ in 0..received {
            self.receive(contender);
        }
        let served = self.parties[contender].served;
        for place in served..served + applied {
            self.execute(contender, self.parties[contender].asked[place].1);
        }
        let flaw = self.bounds.flaw;
        let party = &mut self.parties[contender];
        for (op, wish) in party.asked.drain(..served + sent) {
            party.watches.retain(|watch| watch.op != op);
            let trusted = flaw == Some(Flaw::LostSyncTrusted) && wish == Wish::Sync;
            let answer = if trusted { Answer::Done } else { Answer::Lost };
            party.inbox.push_back(News::Reply(op, wish, answer, 0));
        }
        party.inbox.push_back(News::Suspended);
        party.member = None;
        party.served = 0;
        party.wire.clear();
        party.watches_of_member.clear();
    }

    pub(super) fn resume(&mut self, contender: usize, member: usize) {
        let party = &mut self.parties[contender];
        if party.expired {
            party.ended = true;
            party.watches.clear();
            let lost = party.asked.drain(..);
            party.inbox.extend(lost.map(|(op, wish)| News::Reply(op, wish, Answer::Ended, 0)));
            return party.inbox.push_back(News::Expired);
        }
        party.member = Some(member);
        party.inbox.push_back(News::Connected);
        let now = self.members[member];
        let armed = party.watches.iter().filter(|watch| watch.armed).map(|watch| watch.node);
        let mut armed: Vec<_> = armed.collect();
        armed.sort_unstable_by_key(|node| (guid(self.nodes[*node].owner), *node));
        armed.dedup();
        for node in armed {
            if self.nodes[node].exists_at(now) {
                party.watches_of_member.insert(node);
            } else {
                party.wire.push_back(Message::Deleted(node, now));
            }
        }
    }

    /// The machine hears the next of what its session has to tell.
    pub(super) fn hear(&mut self, contender: usize) -> Result<(), String> {
        if self.parties[contender].inbox.is_empty() {
            self.receive(contender);
        }
        let party = &mut self.parties[contender];
        let newest_state = party.inbox.iter().copied().rfind(News::is_state);
        let news = match newest_state {
            // Of several changes only the last one is seen.
            Some(state) if self.bounds.overtaking => {
                party.inbox.retain(|news| !news.is_state());
                Some(state)
            }
            // The watch had been dropped.
            _ => party.inbox.pop_front(),
        };
        let unnoticed = self.bounds.flaw == Some(Flaw::ReconnectUnnoticed)
            && party.told == Told::Nothing
            && matches!(news, Some(News::Suspended | News::Connected));
        match news {
            Some(news) if !unnoticed => {
                let input = self.input(news);
                self.perform(contender, Some(input), Some(news))
            }
            _ => Ok(()),
        }
    }

    fn input(&self, news: News) -> Input {
        match news {
            News::Suspended => Input::Session(State::Suspended),
            News::Connected => Input::Session(CONNECTED),
            News::Expired => Input::Session(State::Ended(End::Expired)),
            News::Deleted(op, _) => {
                Input::Watch { op: OpId(op), event_type: EventType::NODE_DELETED }
            }
            News::Reply(op, wish, answer, now) => {
                let result = match answer {
                    Answer::NoNode => refused(ErrorCode::NO_NODE),
                    Answer::Lost => lost(),
                    Answer::Ended => {
                        Err(Error::Ended { end: End::Expired, outcome: Outcome::NotApplied })
                    }
                    Answer::Created(node) => {
                        let (path, stat) = (self.path(node), self.stat(node));
                        reply(OpCode::CREATE2, &Create2Response { path: &path, stat })
                    }
                    Answer::Done => self.answer(wish, now),
                };
                Input::Reply { op: OpId(op), result }
            }
        }
    }

    fn answer(&self, wish: Wish, now: Index) -> Result<Reply, Error> {
        match wish {
            Wish::List => {
                let there = (0..self.nodes.len()).filter(|node| self.nodes[*node].exists_at(now));
                let names: Vec<_> = there.map(|node| self.name(node)).collect();
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
            }
            Wish::Stat(node) => reply(OpCode::EXISTS, &ExistsResponse { stat: self.stat(node) }),
            _ => ok(),
        }
    }

    fn name(&self, node: NodeId) -> String {
        format!(
            "{}{node:010}",
            SCHEME.prefix(Claim::Exclusive, guid(self.nodes[node].owner), SESSION)
        )
    }

    fn path(&self, node: NodeId) -> String {
        format!("{DIRECTORY}/{}", self.name(node))
    }

    fn stat(&self, node: NodeId) -> Stat {
        let LockNode { owner, created, .. } = self.nodes[node];
        Stat { czxid: Zxid(created.into()), ephemeral_owner: session(owner), ..Stat::default() }
    }
}
