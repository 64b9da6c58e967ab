//! Several writes, all or none.

use alloc::vec::Vec;

use super::{Answer, Client};
use crate::face::{Transaction, TransactionResult, transaction};

impl Client {
    /// Several writes, all or none.
    pub fn transaction(&self) -> Transaction<'_, Self> {
        Transaction::new(self, &self.chroot)
    }
}

impl Transaction<'_, Client> {
    /// Sends the transaction, in the order of this call among other requests.
    ///
    /// # Errors
    ///
    /// [`Error::Transaction`](crate::Error::Transaction) names the operation that made it fail;
    /// nothing was applied then.
    pub fn commit(self) -> Answer<Vec<TransactionResult>> {
        Answer::of(transaction::commit(self))
    }
}
