//! What a transaction changes.

use std::io;

use zk_proto::{Acl, CheckVersionRequest, Decode, DecodeError, ErrorCode, List, OpCode, Reader};
use zk_proto::{SetAclRequest, SetDataRequest};

use super::damaged;

/// The length of a digest of all nodes, which servers since 3.6 append to transactions.
const DIGEST: usize = 12;

/// The body of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A node is created.
    Create {
        /// Its path, with its sequence number.
        path: &'a str,
        /// Its data.
        data: Option<&'a [u8]>,
        /// Whether it ends with the session.
        is_ephemeral: bool,
    },
    /// A node is deleted.
    Delete {
        /// Its path.
        path: &'a str,
    },
    /// The data of a node is replaced.
    SetData {
        /// Its path.
        path: &'a str,
        /// The new data.
        data: Option<&'a [u8]>,
        /// The version of the new data.
        version: i32,
    },
    /// The access control list of a node is replaced.
    SetAcl {
        /// Its path.
        path: &'a str,
    },
    /// A part of a multi that has checked a version.
    Check {
        /// The path of the node.
        path: &'a str,
    },
    /// The session begins.
    OpenSession,
    /// The session ends, and all its ephemeral nodes.
    CloseSession {
        /// These nodes, unless the server logs none.
        paths: Vec<&'a str>,
    },
    /// Nothing: the request was refused.
    Failed(ErrorCode),
    /// All of these, in order. Nothing, if one has [failed](Self::Failed).
    Multi(Vec<Self>),
}

impl<'a> Change<'a> {
    /// Decodes the body of a transaction.
    ///
    /// # Errors
    ///
    /// If the operation is unknown, or the bytes are not such a body.
    pub fn decode(operation: OpCode, body: &'a [u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        let change = match operation {
            OpCode::MULTI => Self::multi(&mut reader)?,
            OpCode::CLOSE_SESSION => return Self::close_session(body),
            operation => Self::single(operation, &mut reader)?,
        };
        match reader.rest().len() {
            0 | DIGEST => Ok(change),
            left => Err(damaged(format!("{left} bytes behind a transaction: {operation:?}"))),
        }
    }

    /// Decodes what is legal inside a multi, too.
    fn single(operation: OpCode, reader: &mut Reader<'a>) -> io::Result<Self> {
        let change = match operation {
            OpCode::CREATE | OpCode::CREATE2 => Self::create(reader, |reader| {
                let is_ephemeral = bool::decode(reader)?;
                i32::decode(reader).map(|_parent_version| is_ephemeral)
            }),
            OpCode::CREATE_CONTAINER => {
                Self::create(reader, |reader| i32::decode(reader).map(|_parent_version| false))
            }
            OpCode::CREATE_TTL => Self::create(reader, |reader| {
                let _parent_version = i32::decode(reader)?;
                i64::decode(reader).map(|_time_to_live| false)
            }),
            OpCode::DELETE | OpCode::DELETE_CONTAINER => {
                <&str>::decode(reader).map(|path| Self::Delete { path })
            }
            // A reconfiguration sets the data of `/zookeeper/config`.
            OpCode::SET_DATA | OpCode::RECONFIG => {
                SetDataRequest::decode(reader).map(|SetDataRequest { path, data, version }| {
                    Self::SetData { path, data, version }
                })
            }
            OpCode::SET_ACL => {
                SetAclRequest::decode(reader).map(|set| Self::SetAcl { path: set.path })
            }
            OpCode::CHECK => {
                CheckVersionRequest::decode(reader).map(|check| Self::Check { path: check.path })
            }
            OpCode::CREATE_SESSION => i32::decode(reader).map(|_timeout| Self::OpenSession),
            OpCode::ERROR => ErrorCode::decode(reader).map(Self::Failed),
            operation => return Err(damaged(format!("a transaction of {operation:?}"))),
        };
        change.map_err(damaged)
    }

    fn create(
        reader: &mut Reader<'a>,
        is_ephemeral: impl FnOnce(&mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let path = <&str>::decode(reader)?;
        let data = reader.buffer()?;
        List::<Acl<'_>>::decode(reader)?;
        Ok(Self::Create { path, data, is_ephemeral: is_ephemeral(reader)? })
    }

    fn multi(reader: &mut Reader<'a>) -> io::Result<Self> {
        let count = i32::decode(reader).map_err(damaged)?;
        let mut parts = Vec::new();
        for _ in 0..count {
            let operation = OpCode::decode(reader).map_err(damaged)?;
            let mut body = Reader::new(reader.buffer().map_err(damaged)?.unwrap_or_default());
            parts.push(Self::single(operation, &mut body)?);
            body.finish().map_err(damaged)?;
        }
        Ok(Self::Multi(parts))
    }

    /// Servers list the nodes since 3.6, unless an option forbids it. A digest alone is no list: its
    /// version, 2, would be a count of paths that do not fit.
    fn close_session(body: &'a [u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        let paths = List::<&str>::decode(&mut reader).map(|paths| paths.iter().collect());
        match (paths, reader.rest().len()) {
            (Ok(paths), 0 | DIGEST) => Ok(Self::CloseSession { paths }),
            _ if matches!(body.len(), 0 | DIGEST) => Ok(Self::CloseSession { paths: Vec::new() }),
            _ => Err(damaged("a session that is closed with other bytes than paths")),
        }
    }
}
