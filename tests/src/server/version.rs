//! Which release a server behaves like.

use zk_proto::OpCode;

/// The release whose behaviour an [`Ensemble`](super::Ensemble) shows, as far as clients can tell
/// the difference. Where patch releases differ, it is the one that is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 3.4.14: the operations up to `multi`.
    V3_4,
    /// 3.5.10: `create2`, `reconfig`, the removal of watches, containers and times to live.
    V3_5,
    /// 3.6.4: persistent watches, `multiRead`, and what 103 to 106 are. The counter of a directory
    /// stops at its end.
    V3_6,
    /// 3.8.0, as Debian has it: `whoAmI`; events are withheld from those who may not read the node,
    /// as in 3.8.4. A read-only server makes local sessions only.
    #[default]
    V3_8,
    /// 3.9.3: events tell their zxid; `exists` needs [`Perms::READ`](zk_proto::Perms::READ); one path
    /// can have watches of several modes.
    V3_9,
}

impl Version {
    /// Its number.
    pub fn number(self) -> &'static str {
        match self {
            Self::V3_4 => "3.4.14",
            Self::V3_5 => "3.5.10",
            Self::V3_6 => "3.6.4",
            Self::V3_8 => "3.8.0",
            Self::V3_9 => "3.9.3",
        }
    }

    /// Whether it knows an operation.
    pub fn serves(self, opcode: OpCode) -> bool {
        since(opcode).is_some_and(|since| since <= self)
    }

    /// Whether events tell the transaction they come from.
    pub(super) fn tells_zxid_of_events(self) -> bool {
        self >= Self::V3_9
    }

    /// Whether events are told only to those who may read the node (CVE-2024-23944).
    pub(super) fn guards_events(self) -> bool {
        self >= Self::V3_8
    }

    /// Whether `exists` tells only those who may read the node.
    pub(super) fn guards_exists(self) -> bool {
        self >= Self::V3_9
    }

    /// Whether watches of several modes live next to each other on one path. If not, each one set
    /// takes the place of the one before.
    pub(super) fn keeps_modes_apart(self) -> bool {
        self >= Self::V3_9
    }

    /// Whether the servers of the ensemble are told in a node.
    pub(super) fn has_config(self) -> bool {
        self >= Self::V3_5
    }

    /// Whether the counter of a directory stops at its end instead of wrapping.
    pub(super) fn counter_stops(self) -> bool {
        self >= Self::V3_6
    }

    /// Whether a multi tells `create2` from `create`, and is refused as a whole for a mode that is
    /// unknown. Before, the first is not told, and the second is the failure of that part.
    pub(super) fn reads_multi_strictly(self) -> bool {
        self >= Self::V3_9
    }

    /// Whether `deleteContainer` can be asked for by clients. Before, it is refused whatever it
    /// says.
    pub(super) fn deletes_containers(self) -> bool {
        self >= Self::V3_9
    }

    /// Whether a read-only server has sessions of its own only, and those only if it is configured
    /// to.
    pub(super) fn is_read_only_locally(self) -> bool {
        self >= Self::V3_8
    }
}

/// The first of these releases that serves an operation.
fn since(opcode: OpCode) -> Option<Version> {
    Some(match opcode {
        OpCode::CREATE2
        | OpCode::RECONFIG
        | OpCode::CHECK_WATCHES
        | OpCode::REMOVE_WATCHES
        | OpCode::CREATE_CONTAINER
        | OpCode::DELETE_CONTAINER
        | OpCode::CREATE_TTL => Version::V3_5,
        OpCode::MULTI_READ
        | OpCode::GET_EPHEMERALS
        | OpCode::GET_ALL_CHILDREN_NUMBER
        | OpCode::SET_WATCHES2
        | OpCode::ADD_WATCH => Version::V3_6,
        OpCode::WHO_AM_I => Version::V3_8,
        opcode if opcode.is_request() => Version::V3_4,
        _ => return None,
    })
}
