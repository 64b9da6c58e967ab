//! The requests that simulated clients submit. Each leaves a distinct effect, so that the checker
//! can find it.

use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, CheckVersionRequest, CreateMode, CreateRequest,
    DeleteRequest, ExistsRequest, GetDataRequest, Multi, MultiOp, Request, SetDataRequest,
    SyncRequest,
};

/// Matches each version of a node.
const ANY_VERSION: i32 = -1;

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
    /// Sets the data of a node, if the node of the writer's lock exists.
    WriteFenced {
        /// The path.
        path: String,
        /// The path of the lock's node. `None` if it is forgotten.
        node: Option<String>,
        /// The data, unique among all writes: the fencing token, a space and more.
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
            | Self::WriteFenced { path, .. }
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

    /// Passes the request of the protocol to `send`.
    pub fn with_request<R>(&self, send: impl FnOnce(&Request<'_>) -> R) -> R {
        const OPEN: &[Acl<'static>] = &[Acl::OPEN];
        let path = self.path();
        let request = match self {
            Self::WriteFenced { node, data, .. } => {
                let data = Some(data.as_bytes());
                let check = node
                    .as_deref()
                    .map(|path| MultiOp::Check(CheckVersionRequest { path, version: ANY_VERSION }));
                let write = MultiOp::SetData(SetDataRequest { path, data, version: ANY_VERSION });
                let all: Vec<_> = check.into_iter().chain([write]).collect();
                return send(&Request::Multi(Multi::new(&all)));
            }
            Self::Create { mode, .. } => Request::Create2(CreateRequest {
                path,
                data: Some(path.as_bytes()),
                acl: OPEN.into(),
                mode: *mode,
            }),
            Self::Delete { .. } => Request::Delete(DeleteRequest { path, version: ANY_VERSION }),
            Self::Write { data, .. } => Request::SetData(SetDataRequest {
                path,
                data: Some(data.as_bytes()),
                version: ANY_VERSION,
            }),
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
        };
        send(&request)
    }
}
