//! Requests that only read.

use alloc::vec::Vec;

use zk_proto::{
    ExistsRequest, GetAclRequest, GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest,
    GetEphemeralsRequest, MultiReadOp, OpCode, Request, SyncRequest,
};

use super::MultiOperation;

/// A request that only reads, so it can be repeated.
#[derive(Clone, Copy)]
pub(super) enum Read {
    Exists,
    Data,
    Children,
    Descendants,
    Ephemerals,
    AccessList,
    Sync,
    Identities,
}

impl Read {
    pub(super) const fn opcode(self) -> OpCode {
        match self {
            Self::Exists => OpCode::EXISTS,
            Self::Data => OpCode::GET_DATA,
            Self::Children => OpCode::GET_CHILDREN2,
            Self::Descendants => OpCode::GET_ALL_CHILDREN_NUMBER,
            Self::Ephemerals => OpCode::GET_EPHEMERALS,
            Self::AccessList => OpCode::GET_ACL,
            Self::Sync => OpCode::SYNC,
            Self::Identities => OpCode::WHO_AM_I,
        }
    }

    /// Returns the request for a server's path. Not every read can set a watch.
    pub(super) fn request(self, path: &str, watch: bool) -> Request<'_> {
        match self {
            Self::Exists => Request::Exists(ExistsRequest { path, watch }),
            Self::Data => Request::GetData(GetDataRequest { path, watch }),
            Self::Children => Request::GetChildren2(GetChildrenRequest { path, watch }),
            Self::Descendants => {
                Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path })
            }
            Self::Ephemerals => {
                Request::GetEphemerals(GetEphemeralsRequest { prefix_path: Some(path) })
            }
            Self::AccessList => Request::GetAcl(GetAclRequest { path }),
            Self::Sync => Request::Sync(SyncRequest { path }),
            Self::Identities => Request::WhoAmI(()),
        }
    }
}

/// Returns the records of several reads.
pub(super) fn read_operations(reads: &[MultiOperation]) -> Vec<MultiReadOp<'_>> {
    let mut records = Vec::with_capacity(reads.len());
    for (operation, path) in reads {
        records.push(match *operation {
            OpCode::GET_DATA => MultiReadOp::GetData(GetDataRequest { path, watch: false }),
            _ => MultiReadOp::GetChildren(GetChildrenRequest { path, watch: false }),
        });
    }
    records
}
