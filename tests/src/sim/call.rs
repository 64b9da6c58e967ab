//! The requests that simulated clients make for themselves. Each can be told from every other one
//! by what it leaves behind.

use zk_proto::{
    Acl, CreateMode, CreateRequest, DeleteRequest, ExistsRequest, GetDataRequest, Request,
    SetDataRequest,
};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Creates a node that holds its own name.
    Create {
        /// The node, or what stands before its number.
        path: String,
        /// What kind of node.
        mode: CreateMode,
    },
    /// Deletes a node.
    Delete {
        /// The node.
        path: String,
    },
    /// Sets the data of a node.
    Write {
        /// The node.
        path: String,
        /// The data, which nobody else writes.
        data: String,
    },
    /// Reads the data of a node and watches it.
    Read {
        /// The node.
        path: String,
    },
    /// Looks whether there is a node and watches that.
    Look {
        /// The node.
        path: String,
    },
}

impl Call {
    /// The node that it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Delete { path }
            | Self::Write { path, .. }
            | Self::Read { path }
            | Self::Look { path } => path,
        }
    }

    /// Whether it asks for a watch.
    pub fn watches(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Look { .. })
    }

    /// The request on the wire.
    pub fn request(&self) -> Request<'_> {
        const OPEN: &[Acl<'static>] = &[Acl::OPEN];
        let path = self.path();
        match self {
            Self::Create { mode, .. } => Request::Create2(CreateRequest {
                path,
                data: Some(path.as_bytes()),
                acl: OPEN.into(),
                mode: *mode,
            }),
            Self::Delete { .. } => Request::Delete(DeleteRequest { path, version: -1 }),
            Self::Write { data, .. } => {
                Request::SetData(SetDataRequest { path, data: Some(data.as_bytes()), version: -1 })
            }
            Self::Read { .. } => Request::GetData(GetDataRequest { path, watch: true }),
            Self::Look { .. } => Request::Exists(ExistsRequest { path, watch: true }),
        }
    }
}
