//! The releases whose behaviour a server can show.

use zk_proto::OpCode;

use super::read_only::is_write;

/// A release, as far as clients can tell the difference. Where patch releases differ, the named one
/// counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 3.4.14: the operations up to `multi`.
    V3_4,
    /// 3.5.10: `create2`, `reconfig`, removal of watches, containers, times to live.
    V3_5,
    /// 3.6.3: persistent watches, `multiRead`, and opcodes 103 to 106. The counter of a parent
    /// stops at its maximum.
    V3_6,
    /// 3.8.0, as in Debian: `whoAmI`. As in 3.8.4, events are withheld from watchers without read
    /// permission. A read-only server creates local sessions only.
    #[default]
    V3_8,
    /// 3.9.5: events report their zxid, `exists` needs [`Perms::READ`](zk_proto::Perms::READ), and
    /// one path can have watches of several modes.
    V3_9,
}

impl Version {
    /// Returns the number of the release.
    pub fn number(self) -> &'static str {
        match self {
            Self::V3_4 => "3.4.14",
            Self::V3_5 => "3.5.10",
            Self::V3_6 => "3.6.3",
            Self::V3_8 => "3.8.0",
            Self::V3_9 => "3.9.5",
        }
    }

    /// Returns the release that behaves like one with this number, such as `3.8.4`. Text after the
    /// number is ignored. Returns `None` for releases older than all of these.
    pub fn of_release(number: &str) -> Option<Self> {
        let mut numbers = number.split(|char: char| !char.is_ascii_digit());
        let mut next = || numbers.next()?.parse::<u32>().ok();
        Some(match (next()?, next()?) {
            (3, 4) => Self::V3_4,
            (3, 5) => Self::V3_5,
            (3, 6) => Self::V3_6,
            (3, 7 | 8) => Self::V3_8,
            release if release >= (3, 9) => Self::V3_9,
            _ => return None,
        })
    }

    /// Returns whether it supports an operation.
    pub fn serves(self, opcode: OpCode) -> bool {
        since(opcode).is_some_and(|since| since <= self)
    }

    /// Returns whether the end of a session is logged with the paths of its ephemeral nodes.
    pub(super) fn logs_closed_paths(self) -> bool {
        self >= Self::V3_6
    }

    /// Returns whether events report their transaction.
    pub(super) fn reports_event_zxids(self) -> bool {
        self >= Self::V3_9
    }

    /// Returns whether events are withheld from watchers without read permission (CVE-2024-23944).
    pub(super) fn withholds_events(self) -> bool {
        self >= Self::V3_8
    }

    /// Returns whether `exists` needs read permission.
    pub fn checks_exists(self) -> bool {
        self >= Self::V3_9
    }

    /// Returns whether one path can have watches of several modes. Otherwise a new watch replaces
    /// the previous one.
    pub(super) fn keeps_modes_apart(self) -> bool {
        self >= Self::V3_9
    }

    /// Returns whether IPv6 addresses are valid in access control lists.
    pub(super) fn knows_ipv6(self) -> bool {
        self >= Self::V3_9
    }

    /// Returns whether a node lists the members of the ensemble.
    pub(super) fn has_config(self) -> bool {
        self >= Self::V3_5
    }

    /// Returns whether the counter of a parent stops at its maximum instead of wrapping.
    pub(super) fn counter_stops(self) -> bool {
        self >= Self::V3_6
    }

    /// Returns whether a multi distinguishes `create2` from `create`, and cannot be decoded with an
    /// unknown mode. Older releases do not distinguish them, and fail only that part.
    pub(super) fn reads_multi_strictly(self) -> bool {
        self >= Self::V3_9
    }

    /// Returns whether a write that cannot be decoded takes a zxid.
    pub(super) fn orders_undecodable(self, opcode: OpCode) -> bool {
        is_write(opcode) && (self < Self::V3_9 || opcode == OpCode::MULTI)
    }

    /// Returns whether clients may request `check` outside a multi.
    pub fn checks_outside_multi(self) -> bool {
        self < Self::V3_9
    }

    /// Returns whether clients may request `deleteContainer`. Older releases always refuse it.
    pub(super) fn deletes_containers(self) -> bool {
        self >= Self::V3_9
    }

    /// Returns whether a read-only server creates local sessions only, and only if configured to.
    pub(super) fn is_read_only_locally(self) -> bool {
        self >= Self::V3_8
    }
}

/// Returns the first of these releases that supports an operation.
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
