//! Generators of replies to a request, for the features `proptest` and `arbitrary`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::codes::{CreateMode, ErrorCode};
use crate::operations::owned::{Request, Response};
use crate::owned::{Multi, MultiOp, MultiReadOp, MultiReadResult, MultiResult};
use crate::records::ErrorResponse;

#[cfg(feature = "proptest")]
mod strategies {
    use proptest::prelude::*;

    use super::*;
    use crate::generate::GeneratorMode;

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
}

#[cfg(feature = "arbitrary")]
mod sources {
    use arbitrary::{Result, Unstructured};

    use super::*;

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
}

/// Returns an operation of a multi as a request.
fn alone(op: &MultiOp) -> Request {
    match op.clone() {
        MultiOp::Create(body) => Request::Create(body),
        MultiOp::Delete(body) => Request::Delete(body),
        MultiOp::SetData(body) => Request::SetData(body),
        MultiOp::Check(body) => Request::Check(body),
        MultiOp::Create2(body) => Request::Create2(body),
        MultiOp::CreateContainer(body) => Request::CreateContainer(body),
        MultiOp::CreateTtl(body) => Request::CreateTtl(body),
    }
}

fn alone_read(op: &MultiReadOp) -> Request {
    match op.clone() {
        MultiReadOp::GetData(body) => Request::GetData(body),
        MultiReadOp::GetChildren(body) => Request::GetChildren(body),
    }
}

/// Returns the reply to a multi: the results of all operations, or the errors of one that failed
/// and of those around it.
fn transaction(results: Vec<Response>, failure: Option<(u8, ErrorCode)>) -> Response {
    let count = results.len().max(1);
    let failed = failure.filter(|(_, err)| is_failure(err));
    let failed = failed.map(|(place, err)| (usize::from(place) % count, err));
    let result = |(place, result): (usize, Response)| match (failed, result) {
        (Some((failed, _)), _) if place < failed => error(ErrorCode::OK),
        (Some((failed, err)), _) if place == failed => error(err),
        (Some(_), _) => error(ErrorCode::RUNTIME_INCONSISTENCY),
        (None, Response::Create(body)) => MultiResult::Create(body),
        (None, Response::SetData(body)) => MultiResult::SetData(body),
        (None, Response::Check(())) => MultiResult::Check(()),
        (
            None,
            Response::Create2(body) | Response::CreateContainer(body) | Response::CreateTtl(body),
        ) => MultiResult::Create2(body),
        // The only other operation of a multi.
        (None, _) => MultiResult::Delete(()),
    };
    Response::Multi(Multi(results.into_iter().enumerate().map(result).collect()))
}

fn error(err: ErrorCode) -> MultiResult {
    MultiResult::Error(ErrorResponse { err })
}

/// Returns whether a result with this error says that an operation failed.
fn is_failure(err: &ErrorCode) -> bool {
    *err != ErrorCode::OK && *err != ErrorCode::RUNTIME_INCONSISTENCY
}

/// Returns the reply to a multiRead, some of whose reads failed.
fn reads(results: Vec<(Response, Option<ErrorCode>)>) -> Response {
    let failed = |err| MultiReadResult::Error(ErrorResponse { err });
    let result = |(result, failure): (_, Option<_>)| match (failure.filter(is_failure), result) {
        (Some(err), _) => failed(err),
        (None, Response::GetData(body)) => MultiReadResult::GetData(body),
        (None, Response::GetChildren(body)) => MultiReadResult::GetChildren(body),
        (None, _) => failed(ErrorCode::UNIMPLEMENTED),
    };
    Response::MultiRead(Multi(results.into_iter().map(result).collect()))
}

impl Response {
    /// Makes paths, lengths and counts fit the request and each other.
    fn fitted(mut self, request: &Request) -> Self {
        match (&mut self, request) {
            (Self::Create(reply), Request::Create(asked)) => {
                reply.path = created(&asked.path, asked.mode, &reply.path);
            }
            (
                Self::Create2(reply) | Self::CreateContainer(reply),
                Request::Create2(asked) | Request::CreateContainer(asked),
            ) => {
                reply.path = created(&asked.path, asked.mode, &reply.path);
                reply.stat.data_length = length(&asked.data);
                reply.stat.num_children = 0;
            }
            (Self::CreateTtl(reply), Request::CreateTtl(asked)) => {
                reply.path = created(&asked.path, asked.mode, &reply.path);
                reply.stat.data_length = length(&asked.data);
                reply.stat.num_children = 0;
            }
            (Self::GetData(reply) | Self::Reconfig(reply), _) => {
                reply.stat.data_length = length(&reply.data);
            }
            (Self::SetData(reply), Request::SetData(asked)) => {
                reply.stat.data_length = length(&asked.data);
            }
            (Self::GetChildren2(reply), _) => {
                reply.stat.num_children = count(reply.children.len());
            }
            (Self::GetEphemerals(reply), Request::GetEphemerals(asked)) => {
                let prefix = asked.prefix_path.as_deref().unwrap_or_default();
                reply.ephemerals.0.iter_mut().for_each(|paths| {
                    paths.retain(|path| path.starts_with(prefix));
                });
            }
            (Self::Sync(reply), Request::Sync(asked)) => reply.path.clone_from(&asked.path),
            (Self::AddWatch(reply), _) => reply.err = ErrorCode::OK,
            _ => {}
        }
        self
    }
}

/// Returns the path of a new node. `random` determines its sequence number.
fn created(asked: &str, mode: CreateMode, random: &str) -> String {
    let number: u32 = random.bytes().map(u32::from).sum();
    if mode.is_sequential() { format!("{asked}{number:010}") } else { asked.into() }
}

fn length(data: &Option<Vec<u8>>) -> i32 {
    count(data.as_ref().map_or(0, Vec::len))
}

fn count(items: usize) -> i32 {
    i32::try_from(items).unwrap_or(i32::MAX)
}
