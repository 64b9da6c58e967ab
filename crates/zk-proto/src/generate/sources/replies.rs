//! Replies drawn from bytes.

use arbitrary::{Result, Unstructured};

use crate::generate::replies::{alone, alone_read, reads, transaction};
use crate::owned::{Multi, Request, Response};

impl Request {
    /// Draws the body of a successful reply to this request.
    ///
    /// A multi has one result for each operation: those of the operations, or the errors of
    /// a transaction that failed. Paths, lengths and counts fit the request and each other.
    ///
    /// # Errors
    ///
    /// As [`Arbitrary::arbitrary`](arbitrary::Arbitrary::arbitrary).
    pub fn reply_from(&self, source: &mut Unstructured<'_>) -> Result<Response> {
        match self {
            Self::Multi(Multi(ops)) => {
                let results: Result<_> =
                    ops.iter().map(|op| alone(op).reply_from(source)).collect();
                let failure = match source.ratio(1, 3)? {
                    true => Some(source.arbitrary()?),
                    false => None,
                };
                Ok(transaction(results?, failure))
            }
            Self::MultiRead(Multi(ops)) => {
                let results: Result<_> = ops
                    .iter()
                    .map(|op| {
                        let result = alone_read(op).reply_from(source)?;
                        let failure = match source.ratio(1, 3)? {
                            true => Some(source.arbitrary()?),
                            false => None,
                        };
                        Ok((result, failure))
                    })
                    .collect();
                Ok(reads(results?))
            }
            _ => Response::draw_to(self, source).map(|it| it.fitted(self)),
        }
    }
}
