//! Several reads in one request.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::{ErrorCode, Multi, MultiReadResponse, MultiReadResult, OpCode, Request, Stat};

use super::answer::Decoder;
use super::decode::{Arrived, expect_results};
use super::driver::Driver;
use super::read::read_operations;
use super::{Answer, Client, MultiOperation, multi_answer_slot, server_path};
use crate::chroot::Chroot;
use crate::error::{Error, RequestError};

/// Several reads in one request, made by `Client::multi_read`. Each may fail by itself.
///
/// No write comes between them: they show one state of the tree. This needs servers since 3.6.
///
/// ```no_run
/// # fn example(client: &zk_session::blocking::Client) -> Result<(), zk_session::RequestError> {
/// use zk_session::ReadResult;
///
/// for result in client.multi_read().get_data("/a").get_children("/b").send().wait()? {
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
    reads: Vec<MultiOperation>,
    invalid: Option<RequestError>,
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

    fn push(mut self, operation: OpCode, path: &str) -> Self {
        match server_path(self.chroot, operation, path) {
            Ok(path) => self.reads.push((operation, path.into_owned())),
            Err(error) => {
                self.invalid.get_or_insert(error);
            }
        }
        self
    }

    /// Adds a read of a node's data and stat.
    pub fn get_data(self, path: &str) -> Self {
        self.push(OpCode::GET_DATA, path)
    }

    /// Adds a list of a node's children.
    pub fn get_children(self, path: &str) -> Self {
        self.push(OpCode::GET_CHILDREN, path)
    }
}

impl<D: Driver> MultiRead<'_, Client<D>> {
    /// Sends the reads. Returns one result for each of them, in their order.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] from a server before 3.6, which also closes the connection. A read
    /// that fails does not fail the others.
    pub fn send(self) -> Answer<Vec<ReadResult>, D> {
        Answer::of(|| {
            if let Some(error) = self.invalid {
                return Err(error);
            }
            let mut pending =
                self.client.pending(OpCode::MULTI_READ, multi_answer_slot(self.reads));
            let operations = read_operations(pending.reply.subject().operations());
            let request = Request::MultiRead(Multi::new(&operations));
            let sent = pending.submit(&request, None);
            pending.repeats = self.client.handle.retries_reads.then_some(None);
            Ok(Answer::of_sent(pending, sent, Decoder::Reply(results)))
        })
    }
}

fn results(arrived: Arrived<'_>) -> Result<Vec<ReadResult>, Error> {
    let reply = arrived.answer?;
    let response: MultiReadResponse<'_> = reply.decode()?;
    let (mut answered, mut results) = (0, Vec::new());
    for result in response.iter() {
        answered += 1;
        results.push(match result {
            MultiReadResult::GetData(body) => ReadResult::Data(
                body.data.map_or(Bytes::new(), |data| reply.body.slice_ref(data)),
                body.stat,
            ),
            MultiReadResult::GetChildren(body) => {
                ReadResult::Children(body.children.iter().map(ToString::to_string).collect())
            }
            MultiReadResult::Error(body) => ReadResult::Failed(body.err),
            _ => continue,
        });
    }
    expect_results(arrived.subject.operations().len(), answered)?;
    Ok(results)
}
