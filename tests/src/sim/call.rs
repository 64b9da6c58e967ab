//! The requests that simulated clients make for themselves. Each can be told from every other one
//! by what it leaves behind.

use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, CreateMode, CreateRequest, DeleteRequest, ExistsRequest,
    GetDataRequest, Request, SetDataRequest,
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
    /// Looks whether there is a node, and no more.
    Peek {
        /// The node.
        path: String,
    },
    /// Watches a node until that is not wanted any more.
    Watch {
        /// The node.
        path: String,
        /// Whether everything below is watched, too.
        below: bool,
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
            | Self::Look { path }
            | Self::Peek { path }
            | Self::Watch { path, .. } => path,
        }
    }

    /// Whether it asks for a watch that fires once.
    pub fn watches_once(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Look { .. })
    }

    /// Whether it asks for any watch.
    pub fn watches(&self) -> bool {
        self.watches_once() || matches!(self, Self::Watch { .. })
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
            Self::Peek { .. } => Request::Exists(ExistsRequest { path, watch: false }),
            Self::Watch { below, .. } => {
                let mode = match below {
                    true => AddWatchMode::PERSISTENT_RECURSIVE,
                    false => AddWatchMode::PERSISTENT,
                };
                Request::AddWatch(AddWatchRequest { path, mode })
            }
        }
    }
}
