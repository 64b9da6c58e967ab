//! Deletion of expired nodes by the server (`ContainerManager.java`).

use core::time::Duration;

use zk_proto::SessionId;

use super::Ensemble;
use super::log::Txn;
use super::prepare::Draft;

impl Ensemble {
    /// Deletes expired nodes, if the next check is due.
    pub(super) fn reap(&mut self, now: Duration) {
        if self.container_check.is_none_or(|due| due > now) {
            return;
        }
        for path in self.tree().spent(now, self.config.max_never_used) {
            let writer = self.writer(SessionId::NONE, &[]);
            if let Ok(change) = Draft::new(self.tree(), writer).delete_container(&path) {
                self.propose(now, None, Txn::Write(change));
            }
        }
        self.container_check = None;
        self.plan_reaping(now);
    }

    /// Schedules the next check, if there are nodes that can expire. Its time counts from the first of
    /// them: at round times, a check would come into the middle of some tests.
    pub(super) fn plan_reaping(&mut self, now: Duration) {
        if self.container_check.is_none() && self.tree().has_perishable() {
            let interval = self.config.container_check.max(Duration::from_millis(1));
            self.container_check = Some(now.saturating_add(interval));
        }
    }
}
