//! Several writes, all or none.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::Future;

use bytes::Bytes;
use zk_proto::{
    Acl, CheckVersionRequest, CreateMode, CreateRequest, DeleteRequest, ErrorCode, List, Multi,
    MultiOp, MultiResponse, MultiResult, OpCode, Request, SetDataRequest, Stat,
};

use super::{Client, any_version};
use crate::chroot::Chroot;
use crate::error::Error;

/// Several writes that are applied all, or none; made by [`Client::transaction`].
///
/// Later operations see the effects of earlier ones.
#[derive(Debug)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'c> {
    client: &'c Client,
    operations: Vec<Operation>,
    invalid: Option<Error>,
}

#[derive(Debug)]
struct Operation {
    path: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Create { data: Bytes, mode: CreateMode },
    Delete { version: i32 },
    SetData { data: Bytes, version: i32 },
    Check { version: i32 },
}

/// What an operation of a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionResult {
    /// A node was created.
    Created {
        /// Its path, with its sequence number if it has one.
        path: String,
    },
    /// A node was deleted.
    Deleted,
    /// A node's data was replaced; this is its stat now.
    DataSet(Stat),
    /// The check held.
    Checked,
}

impl<'c> Transaction<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        Self { client, operations: Vec::new(), invalid: None }
    }

    fn push(mut self, path: &str, kind: Kind) -> Self {
        let server_path = match &kind {
            Kind::Create { mode, .. } => self.client.server_path_to_create(path, *mode),
            _ => self.client.server_path(path),
        };
        match server_path {
            Ok(path) => self.operations.push(Operation { path: path.into_owned(), kind }),
            Err(error) => {
                self.invalid.get_or_insert(error);
            }
        }
        self
    }

    /// Creates a node that is open to everybody.
    pub fn create(self, path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Self {
        self.push(path, Kind::Create { data: data.into(), mode })
    }

    /// Deletes a node, if it has this version, or whatever version it has.
    pub fn delete(self, path: &str, version: Option<i32>) -> Self {
        self.push(path, Kind::Delete { version: any_version(version) })
    }

    /// Replaces a node's data, if it has this version, or whatever version it has.
    pub fn set_data(self, path: &str, data: impl Into<Bytes>, version: Option<i32>) -> Self {
        self.push(path, Kind::SetData { data: data.into(), version: any_version(version) })
    }

    /// Has everything fail unless a node exists and has this version, if one is given.
    pub fn check(self, path: &str, version: Option<i32>) -> Self {
        self.push(path, Kind::Check { version: any_version(version) })
    }

    /// Sends the transaction, in the order of this call among others.
    ///
    /// # Errors
    ///
    /// [`Error::Transaction`] names the operation that made it fail; nothing was applied then.
    pub fn commit(
        self,
    ) -> impl Future<Output = Result<Vec<TransactionResult>, Error>> + Send + use<> {
        let operations: Vec<MultiOp<'_>> = self.operations.iter().map(Operation::record).collect();
        let request = Request::Multi(Multi::new(&operations));
        let chroot = self.client.chroot.clone();
        let answer = match self.invalid {
            Some(error) => Err(error),
            None => Ok(self.client.submit(&request)),
        };
        async move {
            let reply = answer?.await?;
            let response: MultiResponse<'_> = reply.decode()?;
            match response.failure().or_else(|| first_error(&response)) {
                Some((index, code)) => Err(Error::Transaction { index, code }),
                None => Ok(response.iter().filter_map(|item| result(item, &chroot)).collect()),
            }
        }
    }
}

impl Operation {
    fn record(&self) -> MultiOp<'_> {
        const OPEN: List<'static, Acl<'static>> = List::new(&[Acl::OPEN]);
        let path = self.path.as_str();
        match &self.kind {
            Kind::Create { data, mode } => {
                let body = CreateRequest { path, data: Some(data), acl: OPEN, mode: *mode };
                match super::create_opcode(*mode) {
                    OpCode::CREATE_CONTAINER => MultiOp::CreateContainer(body),
                    _ => MultiOp::Create(body),
                }
            }
            Kind::Delete { version } => MultiOp::Delete(DeleteRequest { path, version: *version }),
            Kind::SetData { data, version } => {
                MultiOp::SetData(SetDataRequest { path, data: Some(data), version: *version })
            }
            Kind::Check { version } => {
                MultiOp::Check(CheckVersionRequest { path, version: *version })
            }
        }
    }
}

/// Any error at all, should the server not say which of them is to blame.
fn first_error(response: &MultiResponse<'_>) -> Option<(usize, ErrorCode)> {
    response.iter().enumerate().find_map(|(place, result)| match result {
        MultiResult::Error(body) => Some((place, body.err)),
        _ => None,
    })
}

fn result(result: MultiResult<'_>, chroot: &Chroot) -> Option<TransactionResult> {
    let created =
        |path| TransactionResult::Created { path: chroot.strip(path).unwrap_or(path).to_string() };
    Some(match result {
        MultiResult::Create(body) => created(body.path),
        MultiResult::Create2(body) => created(body.path),
        MultiResult::Delete(()) => TransactionResult::Deleted,
        MultiResult::SetData(body) => TransactionResult::DataSet(body.stat),
        MultiResult::Check(()) => TransactionResult::Checked,
        _ => return None,
    })
}
