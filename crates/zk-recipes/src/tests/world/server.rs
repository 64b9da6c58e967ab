//! The servers: replies to requests, also with the injected bugs of servers.

use super::*;

impl<P: Workload> World<P> {
    pub(crate) fn serve(&mut self, index: usize) {
        let server = self.clients[index].server.expect("a connection");
        let asked = self.clients[index].line.next().clone();
        let answer =
            asked.operation.with_request(|request| self.answer(index, server, &asked, request));
        let is_cut = self.bounds.in_pieces && asked.operation.comes_in_pieces();
        self.client(index).line.reply(answer, is_cut);
    }

    pub(crate) fn refuse(&mut self, index: usize, refusal: Refusal) {
        let server = self.clients[index].server.expect("a connection");
        let result = match refusal {
            Refusal::Temporary => refused(ErrorCode::THROTTLED_OP),
            Refusal::Permanent => refused(ErrorCode::NO_AUTH),
            Refusal::Garbage => {
                let asked = self.clients[index].line.next().clone();
                asked.operation.with_request(|request| drop(self.tree.write(index, request)));
                self.catch_up(server);
                ok()
            }
        };
        let asked = &self.clients[index].line.next().operation;
        let watch = (result.is_ok() && asked.watches()).then(|| {
            let now = self.tree.now(server);
            asked.with_request(|request| self.tree.read(index, request, now).1)
        });
        let answer = Answer::new(result, watch, self.tree.now(server));
        self.client(index).line.reply(answer, false);
    }

    /// A server replies to a write, or a sync, after it has applied everything before it.
    pub(crate) fn catch_up(&mut self, server: usize) {
        while self.tree.is_lagging(server) {
            self.apply_next(server);
        }
    }

    pub(crate) fn answer(
        &mut self,
        index: usize,
        server: usize,
        asked: &PendingRequest,
        request: &Request<'_>,
    ) -> Answer {
        if let Some(result) = self.tree.write(index, request) {
            self.catch_up(server);
            return Answer::new(result, None, self.tree.now(server));
        }
        let bug = self.bounds.bug;
        if let Request::Sync(_) = request {
            let is_for_stat = || {
                let next = self.clients[index].line.asked.get(self.clients[index].line.served + 1);
                next.is_some_and(|next| next.is(|next| matches!(next, Request::Exists(_))))
            };
            let waits = match bug {
                Some(Bug::NoSync) => false,
                Some(Bug::NoSyncForReader) => !is_for_stat(),
                _ => true,
            };
            if waits {
                self.catch_up(server);
            }
        }
        let now = self.tree.now(server);
        let (mut result, mut watch) = self.tree.read(index, request, now);
        let is_set = result.is_ok() || watch == tree::Watched::Absence;
        if let Request::GetChildren(list) = request
            && !asked.operation.watches()
            && self.workload.overlooks_others(index, &self.tree, now)
        {
            result = self.tree.list(list.path, index, now, |it| it.owner == Some(index));
        }
        if let Request::GetChildren(list) = request {
            let noted = self.clients[index].noted;
            match bug {
                Some(Bug::NamesWithoutGuid) if asked.is_behind_sync => {
                    let own = guid(index, 0).as_hyphenated().to_string();
                    result = self.tree.list(list.path, index, now, |it| !it.path.contains(&own));
                }
                Some(Bug::SplitNameDropped) if asked.operation.comes_in_pieces() => {
                    let mut names = self.tree.at(now).filter(|(_, it)| it.is_in(list.path));
                    let first = names.next().filter(|(_, it)| it.owner != Some(index));
                    let first = first.map(|(_, node)| node.path.clone());
                    let rest = |it: &Node| first.as_ref() != Some(&it.path);
                    result = self.tree.list(list.path, index, now, rest);
                }
                Some(Bug::CountedBeforeCreated) if list.path.ends_with("/leases") => {
                    let counts = |it: &Node| it.owner == Some(index) || it.exists_at(noted);
                    result = self.tree.list(list.path, index, now, counts);
                }
                Some(Bug::OnePermitWatched(maximum)) if list.path.ends_with("/leases") => {
                    let others = self.tree.at(now).map(|(_, node)| node);
                    let others: Vec<_> = others
                        .filter(|it| it.is_in(list.path) && it.owner != Some(index))
                        .map(|it| it.path.clone())
                        .collect();
                    let one = others.into_iter().rev().nth(maximum - 1);
                    self.client(index).line.redirect(asked.op, one.unwrap_or_else(|| "/".into()));
                    watch = tree::Watched::Children;
                }
                _ => {}
            }
        }
        let is_watched = asked.operation.watches() && is_set;
        Answer::new(result, is_watched.then_some(watch), now)
    }
}
