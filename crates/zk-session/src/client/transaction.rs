//! Transactions: several writes, applied all or none.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use zk_proto::{
    Acl, CheckVersionRequest, DeleteRequest, Multi, MultiOp, MultiResponse, MultiResult, NodeKind,
    OpCode, Request, SetDataRequest, Stat,
};

use super::answer::Decoder;
use super::decode::{Arrived, expect_results};
use super::driver::Driver;
use super::{
    Answer, Client, MultiOperation, any_version, multi_answer_slot, server_path,
    server_path_to_create, stripped,
};
use crate::chroot::Chroot;
use crate::error::{Error, RequestError};

/// Several writes, applied all or none, made by `Client::transaction`.
///
/// Later operations see the effects of earlier ones. All share one zxid.
///
/// ```no_run
/// # fn example(client: &zk_session::blocking::Client) -> Result<(), zk_session::RequestError> {
/// use zk_session::TransactionResult;
/// use zk_session::proto::NodeKind;
///
/// let results = client
///     .transaction()
///     .check("/config", Some(3))
///     .create("/config/limits", b"10", NodeKind::Persistent)
///     .commit()
///     .wait()?;
/// assert_eq!(results[0], TransactionResult::Checked);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'c, C> {
    pub(crate) client: &'c C,
    chroot: &'c Chroot,
    operations: Vec<MultiOperation>,
    /// What each of `operations` does.
    kinds: Vec<OperationKind<'c>>,
    invalid: Option<RequestError>,
}

#[derive(Debug)]
enum OperationKind<'c> {
    Create { data: &'c [u8], kind: NodeKind, acl: &'c [Acl<'c>] },
    Delete { version: i32 },
    SetData { data: &'c [u8], version: i32 },
    Check { version: i32 },
}

/// The result of one operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionResult {
    /// A node was created.
    Created {
        /// The path of the node, including its sequence number if it has one.
        path: String,
    },
    /// A node was deleted.
    Deleted,
    /// The data of a node was replaced. This is its new stat.
    DataSet(Stat),
    /// The check succeeded.
    Checked,
}

impl<'c, C> Transaction<'c, C> {
    pub(crate) fn new(client: &'c C, chroot: &'c Chroot) -> Self {
        Self { client, chroot, operations: Vec::new(), kinds: Vec::new(), invalid: None }
    }

    fn push(mut self, path: &str, kind: OperationKind<'c>) -> Self {
        let opcode = kind.opcode();
        let server_path = match &kind {
            OperationKind::Create { kind, .. } => {
                server_path_to_create(self.chroot, opcode, path, kind.is_sequential())
            }
            _ => server_path(self.chroot, opcode, path),
        };
        match server_path {
            Ok(path) => {
                self.operations.push((opcode, path.into_owned()));
                self.kinds.push(kind);
            }
            Err(error) => {
                self.invalid.get_or_insert(error);
            }
        }
        self
    }

    /// Adds the creation of a node with the ACL "world:anyone".
    pub fn create(self, path: &str, data: &'c [u8], kind: NodeKind) -> Self {
        self.create_with_acl(path, data, kind, &[Acl::OPEN])
    }

    /// Adds the creation of a node with an access control list.
    pub fn create_with_acl(
        self,
        path: &str,
        data: &'c [u8],
        kind: NodeKind,
        acl: &'c [Acl<'c>],
    ) -> Self {
        self.push(path, OperationKind::Create { data, kind, acl })
    }

    /// Adds the deletion of a node, if it has this version. `None` matches any version.
    pub fn delete(self, path: &str, version: Option<i32>) -> Self {
        self.push(path, OperationKind::Delete { version: any_version(version) })
    }

    /// Adds the replacement of a node's data, if it has this version. `None` matches any version.
    pub fn set_data(self, path: &str, data: &'c [u8], version: Option<i32>) -> Self {
        self.push(path, OperationKind::SetData { data, version: any_version(version) })
    }

    /// Adds a check that a node exists and has this version. `None` matches any version.
    pub fn check(self, path: &str, version: Option<i32>) -> Self {
        self.push(path, OperationKind::Check { version: any_version(version) })
    }
}

/// # Several writes, all or none
impl<D: Driver> Client<D> {
    /// Returns an empty transaction: several writes, applied all or none.
    #[doc(alias = "multi")]
    pub fn transaction(&self) -> Transaction<'_, Self> {
        Transaction::new(self, self.chroot())
    }
}

impl<D: Driver> Transaction<'_, Client<D>> {
    /// Sends the transaction. Returns one result for each operation, in their order.
    ///
    /// # Errors
    ///
    /// [`Error::Transaction`] names the operation that failed; nothing was applied then.
    pub fn commit(self) -> Answer<Vec<TransactionResult>, D> {
        Answer::of(|| {
            if let Some(error) = self.invalid {
                return Err(error);
            }
            let pending = self.client.pending(OpCode::MULTI, multi_answer_slot(self.operations));
            let operations = pending.reply.subject().operations().iter().zip(&self.kinds);
            let operations: Vec<MultiOp<'_>> =
                operations.map(|((_, path), kind)| kind.record(path)).collect();
            let request = Request::Multi(Multi::new(&operations));
            let sent = pending.submit(&request, None);
            Ok(Answer::of_sent(pending, sent, Decoder::Reply(results)))
        })
    }
}

impl OperationKind<'_> {
    fn opcode(&self) -> OpCode {
        match self {
            Self::Create { kind, .. } => match kind.opcode() {
                OpCode::CREATE2 => OpCode::CREATE,
                opcode => opcode,
            },
            Self::Delete { .. } => OpCode::DELETE,
            Self::SetData { .. } => OpCode::SET_DATA,
            Self::Check { .. } => OpCode::CHECK,
        }
    }

    fn record<'a>(&'a self, path: &'a str) -> MultiOp<'a> {
        match *self {
            Self::Create { data, kind, acl } => kind.create_op(path, Some(data), acl.into()),
            Self::Delete { version } => MultiOp::Delete(DeleteRequest { path, version }),
            Self::SetData { data, version } => {
                MultiOp::SetData(SetDataRequest { path, data: Some(data), version })
            }
            Self::Check { version } => MultiOp::Check(CheckVersionRequest { path, version }),
        }
    }
}

fn results(arrived: Arrived<'_>) -> Result<Vec<TransactionResult>, Error> {
    let reply = arrived.answer?;
    let response: MultiResponse<'_> = reply.decode()?;
    // In case the server does not mark the failed operation.
    let mut first_error = None;
    let (mut answered, mut results) = (0, Vec::new());
    for item in response.iter() {
        if let MultiResult::Error(body) = item {
            first_error.get_or_insert((answered, body.err));
        }
        results.extend(result(item, arrived.chroot));
        answered += 1;
    }
    expect_results(arrived.subject.operations().len(), answered)?;
    match response.failure().or(first_error) {
        Some((index, code)) => Err(Error::Transaction { index, code }),
        None => Ok(results),
    }
}

fn result(result: MultiResult<'_>, chroot: &Chroot) -> Option<TransactionResult> {
    let created = |path| TransactionResult::Created { path: stripped(chroot, path).to_string() };
    Some(match result {
        MultiResult::Create(body) => created(body.path),
        MultiResult::Create2(body) => created(body.path),
        MultiResult::Delete(()) => TransactionResult::Deleted,
        MultiResult::SetData(body) => TransactionResult::DataSet(body.stat),
        MultiResult::Check(()) => TransactionResult::Checked,
        _ => return None,
    })
}
