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

    /// Schedules the next check, if there are nodes that can expire.
    pub(super) fn plan_reaping(&mut self, now: Duration) {
        if self.container_check.is_none() && self.tree().has_perishable() {
            let interval = self.config.container_check.as_millis().max(1);
            let due = (now.as_millis() / interval + 1) * interval;
            let due = Duration::from_millis(u64::try_from(due).unwrap_or(u64::MAX));
            self.container_check = Some(due);
        }
    }
}
