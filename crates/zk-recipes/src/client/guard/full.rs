//! Guards with the feature `full`: turns, conversions, and leaving a double barrier.

use zk_session::{End, State};

use super::{Guard, Holder, Holding, LATE, over, released};
use crate::attempt::{Command, LockMode};
use crate::client::session_client::before;
use crate::client::status::{HeldNode, MachineReport};
use crate::client::{Pending, SessionClient};
use crate::error::{LeaveError, LockError, ModeError, RecipeError};

impl<C: SessionClient> Guard<C> {
    pub(crate) const fn client(&self) -> &C {
        &self.client
    }

    /// Changes the mode of the lock. On failure it is held as before, or lost.
    pub(crate) async fn convert(
        &mut self,
        operation: &'static str,
        mode: LockMode,
    ) -> Result<(), RecipeError<ModeError>> {
        if let Holder::Special(holder) = &mut self.handle
            && !holder.keep()
        {
            return Err(self.call(operation).failed(ModeError::NotAlone));
        }
        self.handle.command(Command::Convert(mode));
        let converted = self.handle.status.wait(converted).await;
        let converted = converted.flatten().unwrap_or_else(|| Err(self.lost_error().into()));
        self.node = converted.map_err(|error| self.call(operation).failed(error))?;
        Ok(())
    }

    /// Releases the lock when the recipe allows it, or at once if the value is dropped.
    pub(crate) fn leave(self) -> Pending<(), C, RecipeError<LeaveError>> {
        self.handle.command(Command::Leave);
        Pending::new(&self.client.clone(), |end| async move {
            let left = before(&self.client, end, self.handle.status.wait(over)).await;
            let left = left.map_or(Err(LATE), released);
            let is_connected = matches!(self.client.state(), State::Connected { .. });
            let left = left.map_err(|error| match error {
                LATE if is_connected => LeaveError::OthersInside,
                error => error.into(),
            });
            left.map_err(|error| self.call("leave").failed(error))
        })
    }

    fn lost_error(&self) -> LockError {
        match self.state() {
            Holding::Lost(loss) => LockError::Lost(loss),
            // The runtime was shut down.
            Holding::Held | Holding::Suspended => LockError::Ended(End::Closed),
        }
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
