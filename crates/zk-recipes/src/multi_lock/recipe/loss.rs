//! The loss of one lock among several.

use alloc::string::String;
use core::fmt;

use crate::error::Loss;

/// Which of several locks is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MultiLoss {
    /// The path of the lock.
    pub path: String,
    /// Why it is not held any more.
    pub loss: Loss,
}

impl MultiLoss {
    /// Returns the name of the [loss](Loss::name).
    pub const fn name(&self) -> &'static str {
        self.loss.name()
    }
}

impl fmt::Display for MultiLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.loss)
    }
}

impl core::error::Error for MultiLoss {}
