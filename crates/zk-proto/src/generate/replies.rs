//! Replies that fit a request.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::codes::{CreateMode, ErrorCode};
use crate::operations::owned::{Request, Response};
use crate::owned::{Multi, MultiOp, MultiReadOp, MultiReadResult, MultiResult};
use crate::records::ErrorResponse;

/// Returns an operation of a multi as a request.
pub(super) fn alone(op: &MultiOp) -> Request {
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

pub(super) fn alone_read(op: &MultiReadOp) -> Request {
    match op.clone() {
        MultiReadOp::GetData(body) => Request::GetData(body),
        MultiReadOp::GetChildren(body) => Request::GetChildren(body),
    }
}

/// Returns the reply to a multi: the results of all operations, or the errors of one that failed
/// and of those around it.
pub(super) fn transaction(results: Vec<Response>, failure: Option<(u8, ErrorCode)>) -> Response {
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
pub(super) fn reads(results: Vec<(Response, Option<ErrorCode>)>) -> Response {
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
    pub(super) fn fitted(mut self, request: &Request) -> Self {
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
