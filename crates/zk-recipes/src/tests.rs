//! Tests that give a machine one input at a time and compare its outputs as lines of text, in
//! order.
//!
//! Requests read `list` or `watch a-5`, events `Suspended`, names of nodes `own-7` or `a-5`.

pub(crate) mod driven;
pub(crate) mod exploring;
pub(crate) mod harness;
pub(crate) mod labels;
pub(crate) mod noise;
pub(crate) mod search;
pub(crate) mod table;
pub(crate) mod world;

pub(crate) use alloc::format;
pub(crate) use alloc::string::{String, ToString};
pub(crate) use alloc::vec::Vec;
use std::sync::Mutex;

pub(crate) use bytes::Bytes;
pub(crate) use uuid::Uuid;
pub(crate) use zk_session::dispatch::Input;
pub(crate) use zk_session::proto::{
    Create2Response, CreateMode, CreateResponse, Encode, ErrorCode, ErrorResponse, EventType,
    ExistsResponse, GetChildrenRequest, GetChildrenResponse, GetDataResponse,
    GetEphemeralsResponse, Multi, MultiOp, MultiResult, OpCode, Request, SequenceNumber, SessionId,
    Stat, Zxid,
};
pub(crate) use zk_session::session::{Reply, State};
pub(crate) use zk_session::{End, Error, Outcome};

pub(crate) use crate::attempt::Given;
pub(crate) use crate::attempt::*;
pub(crate) use crate::error::*;
pub(crate) use crate::machine::*;
pub(crate) use driven::{Driven, Operation, Output, fired};
pub(crate) use harness::Harness;
pub(crate) use labels::{label, name, prefix};
pub(crate) use table::{documented_rows, merged};
pub(crate) use zk_session::sync::Arc;

impl AttemptConfig {
    /// Returns the configuration of an attempt whose node has this GUID.
    pub(crate) fn of_node(
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

pub(crate) const SCHEME: Scheme = Scheme::CURATOR_MUTEX;
pub(crate) const READ_WRITE: Scheme = Scheme::CURATOR_READ_WRITE;
pub(crate) const PRIVATE: Scheme = Scheme::private("mine-", None);
pub(crate) const OWN: u128 = 1;
pub(crate) const SESSION: SessionId = SessionId(0x50);
/// The session that follows when the first one is renewed.
pub(crate) const NEXT: SessionId = SessionId(0x60);
/// A hint of a contender with number 6, after many free acquisitions.
pub(crate) const BEFORE: FastPathHint = FastPathHint {
    unknown_nodes: UnknownNodePolicy::RefuseOtherLocks,
    mode: LockMode::Exclusive,
    number: SequenceNumber(6),
    czxid: Zxid(105),
    followed: 99,
    is_deleted: true,
};
pub(crate) const CONNECTED: State = State::Connected { server: 0, session: SESSION };
/// Connected to a server without a quorum.
pub(crate) const READ_ONLY: State = State::ReadOnly { server: 2, session: SESSION };
pub(crate) const QUEUE_FULL: Error = Error::QueueFull { limit: 1 };

pub(crate) fn reply(opcode: OpCode, body: &impl Encode) -> Result<Reply, Error> {
    let mut bytes = Vec::new();
    body.encode(&mut bytes);
    Ok(Reply::new(opcode, Zxid(1), bytes.into()))
}

pub(crate) fn ok() -> Result<Reply, Error> {
    Ok(Reply::new(OpCode::DELETE, Zxid(1), Bytes::new()))
}

pub(crate) fn children(labels: &[&str]) -> Result<Reply, Error> {
    let names: Vec<_> = labels.iter().map(|label| name(label)).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
}

/// The transaction that created our node with this number.
pub(crate) fn czxid(number: i32) -> Zxid {
    Zxid(100 + i64::from(number))
}

pub(crate) fn stat(owner: SessionId, number: i32) -> Result<Reply, Error> {
    stat_at(owner, czxid(number))
}

pub(crate) fn stat_at(owner: SessionId, czxid: Zxid) -> Result<Reply, Error> {
    let stat = Stat { czxid, ephemeral_owner: owner, ..Stat::default() };
    reply(OpCode::EXISTS, &ExistsResponse { stat })
}

pub(crate) fn data(data: &[u8]) -> Result<Reply, Error> {
    reply(OpCode::GET_DATA, &GetDataResponse { data: Some(data), stat: Stat::default() })
}

/// A reply to a replacement of nodes. `refusal` is the error of its second operation.
pub(crate) fn replaced(refusal: Option<ErrorCode>) -> Result<Reply, Error> {
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
pub(crate) fn announced(
    checks: usize,
    refusal: Option<(usize, ErrorCode)>,
) -> Result<Reply, Error> {
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

pub(crate) fn refused(code: ErrorCode) -> Result<Reply, Error> {
    Err(Error::Server(code))
}

pub(crate) fn lost() -> Result<Reply, Error> {
    Err(Error::ConnectionLost)
}

pub(crate) fn event_line(event: &Event) -> String {
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
pub(crate) fn config() -> AttemptConfig {
    let lock_path = "/locks/printer".into();
    AttemptConfig {
        data: Bytes::from_static(b"who"),
        hint_cell: Hints::beginning_with(None),
        ..AttemptConfig::of_node(lock_path, SCHEME, Uuid::from_u128(OWN), SESSION)
    }
}

/// All hints that were left, the last one of which is valid.
#[derive(Debug)]
pub(crate) struct Hints(pub(crate) Mutex<Vec<Option<FastPathHint>>>);

impl Hints {
    /// Returns a cell that contains this hint.
    pub(crate) fn beginning_with(hint: Option<FastPathHint>) -> Option<Arc<dyn HintCell>> {
        Some(Arc::new(Self(Mutex::new(alloc::vec![hint]))))
    }
}

impl HintCell for Hints {
    fn get(&self) -> Option<FastPathHint> {
        self.0.lock().expect("no panic").last().copied().flatten()
    }

    fn set(&self, hint: Option<FastPathHint>) {
        self.0.lock().expect("no panic").push(hint);
    }
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with_lock_path("/locks/printer")
    }

    pub(crate) fn with_lock_path(lock_path: &str) -> Self {
        Self::of(|config| config.lock_path = lock_path.into())
    }

    /// Creates a contender with a changed configuration.
    pub(crate) fn of(differ: impl FnOnce(&mut AttemptConfig)) -> Self {
        let mut config = config();
        differ(&mut config);
        Self::driving(config, Contender::new)
    }

    pub(crate) fn reader_or_writer(mode: LockMode) -> Self {
        Self::of(|config| (config.scheme, config.mode) = (READ_WRITE, mode))
    }

    // ---- Fixtures ------------------------------------------------------------------------------

    pub(crate) fn creating() -> Self {
        let mut h = Self::new();
        h.expect(&["create", "list"]);
        h
    }

    /// The hint is valid if our number is 7.
    pub(crate) fn with_hint() -> Self {
        let mut h = Self::of(|config| config.hint_cell = Hints::beginning_with(Some(BEFORE)));
        h.expect(&["create"]);
        h
    }

    pub(crate) fn making_parents() -> Self {
        let mut h = Self::creating();
        h.answer("create", refused(ErrorCode::NO_NODE));
        h.answer("list", refused(ErrorCode::NO_NODE));
        h.expect(&["container /locks", "container /locks/printer"]);
        h
    }

    pub(crate) fn resolving() -> Self {
        let mut h = Self::creating();
        h.disconnect();
        h.reconnect();
        h.expect(&["sync", "list"]);
        h
    }

    pub(crate) fn adopting() -> Self {
        let mut h = Self::resolving();
        h.answer("sync", ok());
        h.answer("list", children(&["a-5", "own-7"]));
        h.expect(&["stat own-7"]);
        h
    }

    pub(crate) fn deciding() -> Self {
        let mut h = Self::creating();
        h.created(7);
        h.expect(&["Enqueued own-7 token 107"]);
        h
    }

    /// Third in line: the predecessor is watched, our own node is not.
    pub(crate) fn third() -> Self {
        let mut h = Self::deciding();
        h.answer("list", children(&["a-5", "b-6", "own-7"]));
        h.expect(&["Waiting behind b-6, 2 ahead", "watch b-6"]);
        h.answer("watch b-6", ok());
        h
    }

    /// Second in line, with both watches unconfirmed.
    pub(crate) fn second_unconfirmed() -> Self {
        let mut h = Self::deciding();
        h.answer("list", children(&["a-5", "own-7"]));
        h.expect(&["Waiting behind a-5, 1 ahead", "watch own-7", "watch a-5"]);
        h
    }

    pub(crate) fn second() -> Self {
        let mut h = Self::second_unconfirmed();
        h.answer("watch own-7", ok());
        h.answer("watch a-5", ok());
        h
    }

    /// Held, before the delay after which our own node is watched.
    pub(crate) fn held() -> Self {
        let mut h = Self::deciding();
        h.answer("list", children(&["own-7", "b-8"]));
        h.expect(&["Acquired own-7 token 107", "timer"]);
        h
    }

    pub(crate) fn held_and_watched() -> Self {
        let mut h = Self::held();
        h.feed(Input::Timer);
        h.expect(&["watch own-7"]);
        h.answer("watch own-7", ok());
        h
    }

    pub(crate) fn suspended() -> Self {
        let mut h = Self::held_and_watched();
        h.disconnect();
        h.expect(&["Suspended"]);
        h
    }
}
