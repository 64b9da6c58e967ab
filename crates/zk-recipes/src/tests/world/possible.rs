//! What can happen next in a world: steps, and faults at the expense of the budget.

use super::*;

impl<P: Workload> World<P> {
    pub(crate) fn local_actions(
        &self,
        index: usize,
        steps: &mut Vec<Action>,
        faults: &mut Vec<Action>,
    ) {
        let client = &self.clients[index];
        if client.line.has_events() {
            steps.push(Action::Receive(index));
        }
        if client.settling.is_some() && client.line.inbox.is_empty() {
            steps.push(Action::Settle(index));
        }
        if client.timer && self.bounds.timers == Timers::Always {
            steps.push(Action::Timer(index));
        }
        if self.bounds.leases > 0 {
            faults.push(Action::LeaseEnds(index));
        }
        for (act, when) in self.workload.owner_actions(index, &self.owners) {
            match when {
                Timing::Eventually => steps.push(Action::Command(index, act)),
                Timing::Budgeted if self.bounds.early_commands == 0 => {}
                Timing::Optional | Timing::Budgeted => faults.push(Action::Command(index, act)),
            }
        }
    }

    /// Adds the faults that lose the messages in transit.
    ///
    /// Others may act before the connection breaks. That matters only if a write of this client is
    /// executed in between.
    pub(crate) fn losses(&self, index: usize, faults: &mut Vec<Action>) {
        let line = &self.clients[index].line;
        if self.bounds.faults > 0 && line.inbox.is_empty() {
            faults.extend(cuts_before_writes(index, line));
            faults.extend(line.unserved_writes().next().map(|_| Action::LoseReplies(index)));
        }
    }

    pub(crate) fn session_actions(
        &self,
        index: usize,
        steps: &mut Vec<Action>,
        faults: &mut Vec<Action>,
    ) {
        let client = &self.clients[index];
        let unserved = client.line.unserved();
        if client.line.loses_replies {
            steps.extend(cuts_after_writes(index, &client.line));
            // Others may act between two writes.
            let is_last = client.line.unserved_writes().count() == 1;
            return steps.extend((!is_last).then_some(Action::Serve(index)));
        }
        if client.server.is_some() && unserved > 0 {
            steps.push(Action::Serve(index));
            if self.bounds.refusals > 0 {
                let next = &client.line.next().operation;
                let refusals = next.with_request(|request| self.workload.refusals(request));
                faults.extend(refusals.iter().map(|it| Action::Refuse(index, *it)));
            }
        }
        if client.server.is_none() && !client.line.ended && !client.line.is_renewing {
            let orders = if client.line.has_several_watches() { 2 } else { 1 };
            for (server, at) in self.resumptions(client.line.seen) {
                let resume = |reversed| Action::Resume { client: index, server, at, reversed };
                steps.extend([false, true].into_iter().take(orders).map(resume));
            }
        }
        if self.bounds.faults > 0 {
            match client.server {
                Some(_) => {
                    faults.extend(cuts_before_writes(index, &client.line));
                    faults.extend(cuts_after_writes(index, &client.line));
                }
                None if !client.line.expired => faults.push(Action::Expire(index)),
                None => {}
            }
        }
    }
}

/// Returns the cuts that leave the pending writes unexecuted.
pub(crate) fn cuts_before_writes(client: usize, line: &Line) -> impl Iterator<Item = Action> {
    (0..=line.unserved()).map(move |sent| Action::Cut { client, sent, applied: 0 })
}

/// Returns the cuts after a pending write is executed.
pub(crate) fn cuts_after_writes(client: usize, line: &Line) -> impl Iterator<Item = Action> {
    let all = line.unserved_writes().map(|before| before + 1);
    let cut = move |applied, sent| Action::Cut { client, sent, applied };
    all.flat_map(move |applied| (applied..=line.unserved()).map(move |sent| cut(applied, sent)))
}
