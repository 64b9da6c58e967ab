//! Tests that give a machine one input at a time and compare its outputs as lines of text, in
//! order.
//!
//! Requests read `list` or `watch a-5`, events `Suspended`, names of nodes `own-7` or `a-5`.

mod acquiring;
mod asking_once;
mod creation;
mod disconnect_policy;
mod double_barrier;
mod downgrading;
pub(super) mod driven;
mod election;
mod exploring;
pub(super) mod harness;
mod holding;
mod labels;
mod leaving;
mod listing;
mod long_lists;
pub(super) mod noise;
mod on_session;
mod paths;
mod ranking;
mod reading_only;
mod renewals;
mod renewing;
mod requeuing;
mod resolving;
mod returning;
mod revoking;
mod search;
mod table;
mod trying;
mod unknown_nodes;
mod upgrading;
mod world;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use uuid::Uuid;
use zk_session::proto::{
    Create2Response, CreateMode, CreateResponse, Encode, ErrorCode, ErrorResponse, EventType,
    ExistsResponse, GetChildrenRequest, GetChildrenResponse, GetDataResponse,
    GetEphemeralsResponse, Multi, MultiOp, MultiResult, OpCode, Request, SequenceNumber, SessionId,
    Stat, Zxid,
};
use zk_session::session::{Reply, State};
use zk_session::{End, Error, Outcome};

use super::*;
pub(super) use driven::{Driven, Operation, Output};
use harness::Harness;
use labels::{label, name, prefix};
pub(super) use table::{documented_rows, merged};

impl AttemptConfig {
    /// Returns the configuration of an attempt whose node has this GUID.
    pub(super) fn of_node(
        lock_path: Arc<str>,
        scheme: Scheme,
        node_guid: Uuid,
        session: SessionId,
    ) -> Self {
        let config = Self { session, ..Self::new(lock_path, scheme, node_guid) };
        // Mixed twice with the session, it is as before.
        Self { guid: config.own_guid(), ..config }
    }
}

const SCHEME: Scheme = Scheme::CURATOR_MUTEX;
const READ_WRITE: Scheme = Scheme::CURATOR_READ_WRITE;
const PRIVATE: Scheme = Scheme::private("mine-", None);
pub(super) const OWN: u128 = 1;
pub(super) const SESSION: SessionId = SessionId(0x50);
/// The session that follows when the first one is renewed.
const NEXT: SessionId = SessionId(0x60);
/// A hint of a contender with number 6, after many free acquisitions.
pub(super) const BEFORE: FastPathHint = FastPathHint {
    unknown_nodes: UnknownNodePolicy::RefuseOtherLocks,
    mode: LockMode::Exclusive,
    number: SequenceNumber(6),
    czxid: Zxid(105),
    followed: 99,
    is_deleted: true,
};
pub(super) const CONNECTED: State = State::Connected { server: 0, session: SESSION };
/// Connected to a server without a quorum.
pub(super) const READ_ONLY: State = State::ReadOnly { server: 2, session: SESSION };
pub(super) const QUEUE_FULL: Error = Error::QueueFull { limit: 1 };

pub(super) fn reply(opcode: OpCode, body: &impl Encode) -> Result<Reply, Error> {
    let mut bytes = Vec::new();
    body.encode(&mut bytes);
    Ok(Reply::new(opcode, Zxid(1), bytes.into()))
}

pub(super) fn ok() -> Result<Reply, Error> {
    Ok(Reply::new(OpCode::DELETE, Zxid(1), Bytes::new()))
}

fn children(labels: &[&str]) -> Result<Reply, Error> {
    let names: Vec<_> = labels.iter().map(|label| name(label)).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
}

/// The transaction that created our node with this number.
fn czxid(number: i32) -> Zxid {
    Zxid(100 + i64::from(number))
}

fn stat(owner: SessionId, number: i32) -> Result<Reply, Error> {
    stat_at(owner, czxid(number))
}

fn stat_at(owner: SessionId, czxid: Zxid) -> Result<Reply, Error> {
    let stat = Stat { czxid, ephemeral_owner: owner, ..Stat::default() };
    reply(OpCode::EXISTS, &ExistsResponse { stat })
}

pub(super) fn data(data: &[u8]) -> Result<Reply, Error> {
    reply(OpCode::GET_DATA, &GetDataResponse { data: Some(data), stat: Stat::default() })
}

/// A reply to a replacement of nodes. `refusal` is the error of its second operation.
fn replaced(refusal: Option<ErrorCode>) -> Result<Reply, Error> {
    let results = match refusal {
        None => [MultiResult::Create(CreateResponse { path: "" }), MultiResult::Delete(())],
        Some(err) => {
            let first = ErrorResponse { err: ErrorCode::OK };
            [MultiResult::Error(first), MultiResult::Error(ErrorResponse { err })]
        }
    };
    reply(OpCode::MULTI, &Multi::new(&results))
}

/// A reply to the announcement of a double barrier: to as many checks, and a change. `refusal` is the
/// index of the operation that was refused, and its error.
fn announced(checks: usize, refusal: Option<(usize, ErrorCode)>) -> Result<Reply, Error> {
    let results: Vec<_> = (0..=checks)
        .map(|index| match refusal {
            None if index < checks => MultiResult::Check(()),
            None => MultiResult::Create(CreateResponse { path: "" }),
            Some((refused, err)) if index == refused => MultiResult::Error(ErrorResponse { err }),
            Some((refused, _)) if index < refused => {
                MultiResult::Error(ErrorResponse { err: ErrorCode::OK })
            }
            Some(_) => MultiResult::Error(ErrorResponse { err: ErrorCode::RUNTIME_INCONSISTENCY }),
        })
        .collect();
    reply(OpCode::MULTI, &Multi::new(&results))
}

pub(super) fn refused(code: ErrorCode) -> Result<Reply, Error> {
    Err(Error::Server(code))
}

pub(super) fn lost() -> Result<Reply, Error> {
    Err(Error::ConnectionLost)
}

fn event_line(event: &Event) -> String {
    match event {
        Event::Enqueued { node, token } => format!("Enqueued {} token {}", label(node), token.0),
        Event::Waiting { behind, ahead } => {
            format!("Waiting behind {}, {ahead} ahead", label(behind))
        }
        Event::Acquired { node, token } => format!("Acquired {} token {}", label(node), token.0),
        Event::Abandoned { node, error: Error::Server(code) } => {
            format!("Abandoned {}: {code:?}", label(node))
        }
        Event::Failed(LockError::Abandoned { node }) => {
            format!("Failed: abandoned {}", label(node))
        }
        Event::Failed(LockError::Unreadable { node }) => {
            format!("Failed: unreadable {}", label(node))
        }
        Event::Failed(LockError::Request(error)) => match error {
            Error::Server(code) => format!("Failed: {code:?}"),
            Error::Reply(_) => "Failed: malformed".to_string(),
            error => format!("Failed: {error:?}"),
        },
        Event::Failed(LockError::UnknownNode { node }) => format!("Failed: foreign {node}"),
        Event::Failed(error) => format!("Failed: {error:?}"),
        Event::Converted { node, token, .. } => {
            format!("Converted to {} token {}", label(node), token.0)
        }
        Event::NotConverted(ModeError::Lock(LockError::Request(Error::Server(code)))) => {
            format!("NotConverted: {code:?}")
        }
        Event::NotConverted(ModeError::Lock(LockError::Request(error))) => {
            format!("NotConverted: {error:?}")
        }
        Event::NotConverted(ModeError::Lock(error)) => format!("NotConverted: {error:?}"),
        Event::NotConverted(error) => format!("NotConverted: {error:?}"),
        event => format!("{event:?}"),
    }
}

/// The configuration of most tests.
fn config() -> AttemptConfig {
    let lock_path = "/locks/printer".into();
    AttemptConfig {
        data: Bytes::from_static(b"who"),
        ..AttemptConfig::of_node(lock_path, SCHEME, Uuid::from_u128(OWN), SESSION)
    }
}

impl Harness {
    fn new() -> Self {
        Self::with_lock_path("/locks/printer")
    }

    fn with_lock_path(lock_path: &str) -> Self {
        Self::of(|config| config.lock_path = lock_path.into())
    }

    /// Creates a contender with a changed configuration.
    fn of(differ: impl FnOnce(&mut AttemptConfig)) -> Self {
        let mut config = config();
        differ(&mut config);
        Self::driving(config, Contender::new)
    }

    fn reader_or_writer(mode: LockMode) -> Self {
        Self::of(|config| (config.scheme, config.mode) = (READ_WRITE, mode))
    }

    // ---- Fixtures ------------------------------------------------------------------------------

    fn creating() -> Self {
        let mut h = Self::new();
        h.expect(&["create", "list"]);
        h
    }

    /// The hint is valid if our number is 7.
    fn with_hint() -> Self {
        let mut h = Self::of(|config| config.hint = Some(BEFORE));
        h.expect(&["create"]);
        h
    }

    fn making_parents() -> Self {
        let mut h = Self::creating();
        h.answer("create", refused(ErrorCode::NO_NODE));
        h.answer("list", refused(ErrorCode::NO_NODE));
        h.expect(&["container /locks", "container /locks/printer"]);
        h
    }

    fn resolving() -> Self {
        let mut h = Self::creating();
        h.disconnect();
        h.reconnect();
        h.expect(&["sync", "list"]);
        h
    }

    fn adopting() -> Self {
        let mut h = Self::resolving();
        h.answer("sync", ok());
        h.answer("list", children(&["a-5", "own-7"]));
        h.expect(&["stat own-7"]);
        h
    }

    fn deciding() -> Self {
        let mut h = Self::creating();
        h.created(7);
        h.expect(&["Enqueued own-7 token 107"]);
        h
    }

    /// Third in line: the predecessor is watched, our own node is not.
    fn third() -> Self {
        let mut h = Self::deciding();
        h.answer("list", children(&["a-5", "b-6", "own-7"]));
        h.expect(&["Waiting behind b-6, 2 ahead", "watch b-6"]);
        h.answer("watch b-6", ok());
        h
    }

    /// Second in line, with both watches unconfirmed.
    fn second_unconfirmed() -> Self {
        let mut h = Self::deciding();
        h.answer("list", children(&["a-5", "own-7"]));
        h.expect(&["Waiting behind a-5, 1 ahead", "watch own-7", "watch a-5"]);
        h
    }

    fn second() -> Self {
        let mut h = Self::second_unconfirmed();
        h.answer("watch own-7", ok());
        h.answer("watch a-5", ok());
        h
    }

    /// Held, before the delay after which our own node is watched.
    fn held() -> Self {
        let mut h = Self::deciding();
        h.answer("list", children(&["own-7", "b-8"]));
        h.expect(&["Acquired own-7 token 107", "timer"]);
        h
    }

    fn held_and_watched() -> Self {
        let mut h = Self::held();
        h.feed(Input::Timer);
        h.expect(&["watch own-7"]);
        h.answer("watch own-7", ok());
        h
    }

    fn suspended() -> Self {
        let mut h = Self::held_and_watched();
        h.disconnect();
        h.expect(&["Suspended"]);
        h
    }
}
