//! Strategies for replies.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::GeneratorMode;
use crate::codes::ErrorCode;
use crate::generate::replies::{alone, alone_read, reads, transaction};
use crate::owned::{Multi, Request, Response};

impl Request {
    /// Returns a strategy for bodies of successful replies to this request.
    ///
    /// A multi has one result for each operation: those of the operations, or the errors of
    /// a transaction that failed. In mode [`GeneratorMode::Valid`], paths, lengths and counts
    /// fit the request and each other, too.
    ///
    /// ```
    /// use proptest::prelude::*;
    /// use zk_proto::{GeneratorMode, owned::Request};
    ///
    /// proptest!(|((request, reply) in any::<Request>().prop_flat_map(|request| {
    ///     let replies = request.replies(GeneratorMode::Valid);
    ///     (Just(request), replies)
    /// }))| {
    ///     prop_assert_eq!(request.opcode(), reply.opcode());
    /// });
    /// ```
    pub fn replies(&self, mode: GeneratorMode) -> BoxedStrategy<Response> {
        let error = || any_with::<ErrorCode>(mode);
        match self {
            Self::Multi(Multi(ops)) => {
                let results: Vec<_> = ops.iter().map(|op| alone(op).replies(mode)).collect();
                let failure = proptest::option::weighted(0.3, (any::<u8>(), error()));
                (results, failure)
                    .prop_map(|(results, failure)| transaction(results, failure))
                    .boxed()
            }
            Self::MultiRead(Multi(ops)) => {
                let failure = || proptest::option::weighted(0.3, error());
                let read = |op| (alone_read(op).replies(mode), failure());
                let results: Vec<_> = ops.iter().map(read).collect();
                results.prop_map(reads).boxed()
            }
            _ if mode == GeneratorMode::Valid => {
                let request = self.clone();
                Response::any_to(self, mode).prop_map(move |it| it.fitted(&request)).boxed()
            }
            _ => Response::any_to(self, mode),
        }
    }
}
