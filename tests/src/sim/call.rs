//! The requests that simulated clients submit. Each leaves a distinct effect, so that the checker
//! can find it.

use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, CreateMode, CreateRequest, DeleteRequest, ExistsRequest,
    GetDataRequest, Request, SetDataRequest, SyncRequest,
};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Creates a node whose data is its own path.
    Create {
        /// The path, without the sequence number.
        path: String,
        /// The kind of node.
        mode: CreateMode,
    },
    /// Deletes a node.
    Delete {
        /// The path.
        path: String,
    },
    /// Sets the data of a node.
    Write {
        /// The path.
        path: String,
        /// The data, unique among all writes.
        data: String,
    },
    /// Reads the data of a node and sets a watch.
    Read {
        /// The path.
        path: String,
    },
    /// Checks whether a node exists and sets a watch.
    Look {
        /// The path.
        path: String,
    },
    /// Checks whether a node exists.
    Peek {
        /// The path.
        path: String,
    },
    /// Waits until the server has applied all writes before this request.
    Sync {
        /// The path.
        path: String,
    },
    /// Sets a persistent watch.
    Watch {
        /// The path.
        path: String,
        /// Whether the watch is recursive.
        below: bool,
    },
}

impl Call {
    /// Returns the path of the node.
    pub fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Delete { path }
            | Self::Write { path, .. }
            | Self::Read { path }
            | Self::Look { path }
            | Self::Peek { path }
            | Self::Sync { path }
            | Self::Watch { path, .. } => path,
        }
    }

    /// Returns whether the request sets a one-shot watch.
    pub fn watches_once(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Look { .. })
    }

    /// Returns whether the request sets a watch of any kind.
    pub fn watches(&self) -> bool {
        self.watches_once() || matches!(self, Self::Watch { .. })
    }

    /// Returns the request of the protocol.
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
            Self::Sync { .. } => Request::Sync(SyncRequest { path }),
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
