//! The four operations that create a node, in one form, and how a multi reads them
//! (`MultiOperationRecord.java`, `Op.java`).

use zk_proto::{
    CreateMode, CreateRequest, CreateTtlRequest, EncodeMultiItem, ErrorCode, MultiOp, OpCode,
    SessionId,
};

use super::tree::Life;
use super::version::Version;

/// Returns a creation without a time to live.
pub(super) fn plain(request: CreateRequest<'_>) -> CreateTtlRequest<'_> {
    let CreateRequest { path, data, acl, mode } = request;
    CreateTtlRequest { path, data, acl, mode, ttl: -1 }
}

/// Returns whether a release knows a mode.
pub(super) fn is_known(mode: CreateMode, version: Version) -> bool {
    let last = match version {
        Version::V3_4 => CreateMode::EPHEMERAL_SEQUENTIAL,
        _ => CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL,
    };
    (CreateMode::PERSISTENT..=last).contains(&mode)
}

/// Returns whether nodes of a mode have a time to live.
pub(super) fn has_ttl(mode: CreateMode) -> bool {
    matches!(mode, CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL)
}

/// Returns the lifetime of the new node. The operation makes a container, whatever the mode says
/// (`DataTree.processTxn`).
pub(super) fn life(opcode: OpCode, mode: CreateMode, ttl: i64, session: SessionId) -> Life {
    match opcode {
        OpCode::CREATE_CONTAINER => Life::Container,
        OpCode::CREATE_TTL if has_ttl(mode) => Life::Ttl(ttl),
        _ if mode.is_ephemeral() => Life::Ephemeral(session),
        _ => Life::Persistent,
    }
}

/// Returns whether a release can decode a part of a multi. Otherwise it refuses the whole multi,
/// before it checks any part.
pub(super) fn is_decodable(op: &MultiOp<'_>, version: Version) -> bool {
    match op {
        MultiOp::Create(request)
        | MultiOp::Create2(request)
        | MultiOp::CreateContainer(request)
            if version.reads_multi_strictly() =>
        {
            is_known(request.mode, version) && !has_ttl(request.mode)
        }
        _ => version.serves(op.header().opcode),
    }
}

/// Returns the effective operation of a part of a multi. The mode decides it, not the opcode.
///
/// # Errors
///
/// If a real server throws an exception as it checks the part, and so refuses the whole multi.
pub(super) fn as_part_of_multi(
    op: MultiOp<'_>,
    version: Version,
) -> Result<MultiOp<'_>, ErrorCode> {
    let opcode = op.header().opcode;
    let request = match op {
        MultiOp::Create(request)
        | MultiOp::Create2(request)
        | MultiOp::CreateContainer(request) => request,
        // A time to live is ignored if the mode has none.
        MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, mode, .. }) if !has_ttl(mode) => {
            CreateRequest { path, data, acl, mode }
        }
        _ => return Ok(op),
    };
    match request.mode {
        mode if has_ttl(mode) => Err(ErrorCode::MARSHALLING_ERROR),
        CreateMode::CONTAINER => Ok(MultiOp::CreateContainer(request)),
        _ if version.reads_multi_strictly()
            && matches!(opcode, OpCode::CREATE2 | OpCode::CREATE_CONTAINER) =>
        {
            Ok(op)
        }
        _ => Ok(MultiOp::Create(request)),
    }
}
