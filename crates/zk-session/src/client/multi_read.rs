//! Several reads in one request.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::{
    ErrorCode, GetChildrenRequest, GetDataRequest, Multi, MultiReadOp, MultiReadResponse,
    MultiReadResult, OpCode, Request, Stat,
};

use super::decode::expect_results;
use super::methods::methods;
use super::{RawClient, server_path};
use crate::chroot::Chroot;
use crate::error::{Error, RequestError};
use crate::session::Reply;

/// Several reads in one request, made by `Client::multi_read`. Each may fail by itself.
///
/// No write comes between them: they show one state of the tree. This needs servers since 3.6.
///
/// ```no_run
/// # #[cfg(feature = "blocking")]
/// # fn example(client: &zk_session::blocking::Client) -> Result<(), zk_session::RequestError> {
/// use zk_session::ReadResult;
///
/// for result in client.multi_read().get_data("/a").get_children("/b").send()? {
///     match result {
///         ReadResult::Data(data, stat) => println!("version {}: {data:?}", stat.version),
///         ReadResult::Children(names) => println!("{names:?}"),
///         ReadResult::Failed(code) => println!("{code}"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is read until it is sent"]
pub struct MultiRead<'c, C> {
    client: &'c C,
    chroot: &'c Chroot,
    reads: Vec<(What, String)>,
    invalid: Option<RequestError>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Data,
    Children,
}

/// The result of one of several reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// A node's data and stat.
    Data(Bytes, Stat),
    /// The names of a node's children, in no order.
    Children(Vec<String>),
    /// This read failed. It does not fail the others.
    Failed(ErrorCode),
}

impl<'c, C> MultiRead<'c, C> {
    pub(crate) fn new(client: &'c C, chroot: &'c Chroot) -> Self {
        Self { client, chroot, reads: Vec::new(), invalid: None }
    }

    fn push(mut self, what: What, path: &str) -> Self {
        let opcode = match what {
            What::Data => OpCode::GET_DATA,
            What::Children => OpCode::GET_CHILDREN,
        };
        match server_path(self.chroot, opcode, path) {
            Ok(path) => self.reads.push((what, path.into_owned())),
            Err(error) => {
                self.invalid.get_or_insert(error);
            }
        }
        self
    }

    /// Adds a read of a node's data and stat.
    pub fn get_data(self, path: &str) -> Self {
        self.push(What::Data, path)
    }

    /// Adds a list of a node's children.
    pub fn get_children(self, path: &str) -> Self {
        self.push(What::Children, path)
    }
}

methods! {
    impl MultiRead<'_, Client> {
        /// Sends the reads. Returns one result for each of them, in their order.
        ///
        /// # Errors
        ///
        /// [`Error::Unsupported`](crate::Error::Unsupported) from a server before 3.6, which also
        /// closes the connection. A read that fails does not fail the others.
        request fn send(self) -> Vec<ReadResult> {
            send(self)
        }
    }
}

fn send<C: RawClient>(reads: MultiRead<'_, C>) -> Result<C::Answer<Vec<ReadResult>>, RequestError> {
    if let Some(error) = reads.invalid {
        return Err(error);
    }
    let operations: Vec<MultiReadOp<'_>> = reads
        .reads
        .iter()
        .map(|(what, path)| match what {
            What::Data => MultiReadOp::GetData(GetDataRequest { path, watch: false }),
            What::Children => MultiReadOp::GetChildren(GetChildrenRequest { path, watch: false }),
        })
        .collect();
    let count = operations.len();
    reads.client.send(&Request::MultiRead(Multi::new(&operations)), move |answer, _| {
        results(&answer?, count)
    })
}

fn results(reply: &Reply, count: usize) -> Result<Vec<ReadResult>, Error> {
    let response: MultiReadResponse<'_> = reply.decode()?;
    expect_results(count, response.iter().count())?;
    let result = |result: MultiReadResult<'_>| {
        Some(match result {
            MultiReadResult::GetData(body) => ReadResult::Data(
                body.data.map_or(Bytes::new(), |data| reply.body.slice_ref(data)),
                body.stat,
            ),
            MultiReadResult::GetChildren(body) => {
                ReadResult::Children(body.children.iter().map(ToString::to_string).collect())
            }
            MultiReadResult::Error(body) => ReadResult::Failed(body.err),
            _ => return None,
        })
    };
    Ok(response.iter().filter_map(result).collect())
}
