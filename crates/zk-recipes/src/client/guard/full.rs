//! Guards with the feature `full`: turns, conversions, and leaving a double barrier.

use zk_session::{End, State};

use super::Guard;
use crate::attempt::{Command, LockMode};
use crate::client::held_lock::{Holder, LATE, over, released};
use crate::client::report::{HeldNode, MachineReport};
use crate::client::session_client::before;
use crate::client::{Pending, SessionClient};
use crate::error::{LeaveError, LockError, ModeError, RecipeError};

impl<C: SessionClient> Guard<C> {
    pub(crate) const fn client(&self) -> &C {
        &self.held.client
    }

    /// Changes the mode of the lock. On failure it is held as before, or lost.
    pub(crate) async fn convert(
        &mut self,
        operation: &'static str,
        mode: LockMode,
    ) -> Result<(), RecipeError<ModeError>> {
        let call = self.held.call(operation);
        if let Holder::Special(holder) = &mut self.held.holder
            && !holder.keep()
        {
            return Err(call.failed(ModeError::NotAlone));
        }
        self.held.holder.command(Command::Convert(mode));
        let converted = self.held.holder.status.wait(converted).await;
        let converted = converted.flatten().unwrap_or_else(|| {
            // Without a loss, the runtime was shut down.
            let loss = self.state().loss().map(LockError::Lost);
            Err(loss.unwrap_or(LockError::Ended(End::Closed)).into())
        });
        self.held.node = converted.map_err(|error| call.failed(error))?;
        Ok(())
    }

    /// Releases the lock when the recipe allows it, or at once if the value is dropped.
    pub(crate) fn leave(self) -> Pending<(), C, RecipeError<LeaveError>> {
        self.held.holder.command(Command::Leave);
        let call = self.held.call("leave");
        Pending::new(&call.client.clone(), |end| async move {
            let left = before(&call.client, end, self.held.holder.status.wait(over)).await;
            let left = left.map_or(Err(LATE), released);
            let is_connected = matches!(call.client.state(), State::Connected { .. });
            left.map_err(|error| match error {
                LATE if is_connected => call.failed(LeaveError::OthersInside),
                error => call.failed(error.into()),
            })
        })
    }
}

/// The result of a conversion. `None` if the lock was lost instead.
type Converted = Option<Result<HeldNode, ModeError>>;

/// Returns the result of a conversion, once it is reported.
fn converted(report: &mut MachineReport) -> Option<Converted> {
    match report.take_answer() {
        // Then the conversion cannot succeed.
        None if !report.status.is_open() => Some(None),
        result => result.map(Some),
    }
}
