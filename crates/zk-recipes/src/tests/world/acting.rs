//! What an action changes: the budget, the connection, or what the server and the machine do.

use super::*;

impl<P: Workload> World<P> {
    pub(crate) fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Serve(client) => self.serve(client),
            Action::Refuse(client, refusal) => {
                self.bounds.refusals -= 1;
                self.refuse(client, refusal);
            }
            Action::Receive(client) => self.receive(client)?,
            Action::Settle(client) => {
                let since = self.client(client).settling.take().unwrap_or_default();
                self.perform(client, Some(Input::Settled.into()), Cause::Settled, since)?;
            }
            Action::Timer(client) => {
                self.client(client).timer = false;
                self.perform(client, Some(Input::Timer.into()), Cause::Other, 0)?;
            }
            Action::Command(client, act) => {
                let actions = self.workload.owner_actions(client, &self.owners);
                let is_whim = actions.contains(&(act, Timing::Budgeted));
                self.bounds.early_commands -= usize::from(is_whim);
                self.workload.owner_acted(client, act, &self.owners, &mut self.milestones);
                self.owners[client].release |= act == Command::Release;
                self.perform(client, Some(act.into()), Cause::Other, 0)?;
            }
            Action::LoseReplies(client) => {
                self.bounds.faults -= 1;
                self.client(client).line.lose_replies();
            }
            Action::Cut { client, sent, applied } => {
                self.bounds.faults -= usize::from(!self.clients[client].line.loses_replies);
                self.cut(client, sent, applied);
            }
            Action::Resume { client, server, at, reversed } => {
                self.resume(client, server, at, reversed);
            }
            Action::Expire(client) => {
                self.bounds.faults -= 1;
                self.client(client).line.expired = true;
                self.tree.expire(client);
            }
            Action::LeaseEnds(client) => {
                self.bounds.leases -= 1;
                self.perform(client, Some(Input::LeaseEnded.into()), Cause::Other, 0)?;
            }
            Action::DeleteNode(node) => {
                let budget = self.bounds.deletions.as_mut().unwrap_or(&mut self.bounds.faults);
                *budget -= 1;
                self.tree.delete(node);
            }
            Action::OutsideChange(outside) => {
                let is_fault = matches!(outside, OutsideChange::Forge(_) | OutsideChange::Recreate);
                self.bounds.faults -= usize::from(is_fault);
                self.workload.apply_outside(outside, &mut self.tree);
            }
            Action::CatchUp(server) => self.apply_next(server),
        }
        Ok(())
    }

    pub(crate) fn apply_next(&mut self, server: usize) {
        let (now, events) = self.tree.apply_next(server);
        for client in 0..self.clients.len() {
            if self.clients[client].server == Some(server) {
                let line = &mut self.client(client).line;
                events.iter().for_each(|(path, event)| line.fire(path, *event, now));
            }
        }
    }

    pub(crate) fn cut(&mut self, index: usize, sent: usize, applied: usize) {
        let line = &self.clients[index].line;
        let lost: Vec<_> = line.asked.iter().skip(line.served).take(applied).cloned().collect();
        for asked in lost {
            asked.operation.with_request(|request| drop(self.tree.write(index, request)));
        }
        let bug = self.bounds.bug;
        let client = self.client(index);
        client.line.cut(sent, |asked| {
            asked.operation.with_request(|request| match (bug, request) {
                (Some(Bug::LostSyncTrusted), Request::Sync(_)) => AfterLoss::SeemsAnswered,
                (Some(Bug::ResendsDeletions), Request::Delete(_)) => AfterLoss::IsResent,
                _ => AfterLoss::Fails,
            })
        });
        client.server = None;
    }

    pub(crate) fn resume(&mut self, index: usize, server: usize, at: Index, reversed: bool) {
        let client = Arc::make_mut(&mut self.clients[index]);
        match client.line.expired {
            true if self.bounds.renews => client.line.renew(),
            true => client.line.end(),
            false => {
                client.server = Some(server);
                self.tree.advance(server, at);
                client.line.resume(&self.tree, at, self.tree.session(index), reversed);
            }
        }
    }
}
