//! A harness for semaphores.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use uuid::Uuid;
use zk_session::Error;
use zk_session::proto::{
    Create2Response, CreateResponse, ErrorCode, EventType, ExistsResponse, GetChildrenResponse,
    GetEphemeralsResponse, Multi, MultiResult, OpCode, Request, SessionId, Stat, Zxid, path,
};
use zk_session::session::Reply;

use super::super::super::tests::harness::OutputFormat;
use super::super::super::tests::{OWN, Operation, SESSION, data, lost, ok, refused, reply};
use crate::attempt::{AttemptConfig, Event, LockMode, Name, Scheme};
use crate::error::LockError;
use crate::semaphore::{PermitRequest, SemaphoreMachine};
use crate::tests::{Command, Input, fired};

const SCHEMES: [(&str, Scheme); 2] =
    [("locks", Scheme::CURATOR_MUTEX), ("leases", Scheme::CURATOR_LEASE)];

/// An attempt to acquire two of three permits, unless configured otherwise.
pub(super) type Harness = super::super::super::tests::harness::Harness<SemaphoreMachine>;

impl SemaphoreMachine {
    pub(super) fn step_name(&self) -> String {
        let step = format!("{:?}", self.step);
        let step = step.rsplit(" step: ").next().unwrap_or_default();
        step.chars().take_while(char::is_ascii_alphabetic).collect()
    }
}

/// Converts between `leases/own-3` and the whole name.
fn name(label: &str) -> String {
    let (lock_path, rest) = label.split_once('/').expect("a parent");
    let (_, scheme) = SCHEMES.into_iter().find(|(name, _)| *name == lock_path).expect("known");
    let (guid, number) = rest.split_once('-').expect("a number");
    let guid = if guid == "own" { OWN } else { u128::from_str_radix(guid, 16).expect("a guid") };
    let prefix = scheme.prefix(LockMode::Exclusive, Uuid::from_u128(guid), SESSION);
    format!("{prefix}{number:0>10}")
}

fn label(name: &str) -> String {
    let read = |(lock_path, scheme): (&str, Scheme)| {
        let Name { guid, sequence, .. } = scheme.parse(name)?;
        let guid = match guid?.as_u128() {
            OWN => "own".to_string(),
            guid => format!("{guid:x}"),
        };
        Some(format!("{lock_path}/{guid}-{}", sequence.0))
    };
    SCHEMES.into_iter().find_map(read).unwrap_or_else(|| name.to_string())
}

fn line(_: &str, operation: &Operation) -> String {
    let short = |path: &str| label(path::name(path));
    operation.with_request(|request| match request {
        Request::Create2(create) => {
            assert_eq!(short(&format!("{}0000000000", create.path)), "locks/own-0");
            "enter".to_string()
        }
        Request::Multi(multi) => format!("create {} leases", multi.iter().count()),
        Request::Create(create) => format!("create {} {:?}", short(create.path), create.data),
        Request::CreateContainer(create) => format!("container {}", create.path),
        Request::Delete(delete) => format!("delete {}", short(delete.path)),
        Request::Exists(exists) => format!("stat {}", short(exists.path)),
        Request::GetEphemerals(own) => {
            let prefix = own.prefix_path.expect("a prefix");
            let first = short(&format!("{prefix}0000000000"));
            format!("list own {}", first.strip_suffix("/own-0").expect("of ours"))
        }
        Request::Sync(sync) => format!("sync {}", short(sync.path)),
        Request::GetData(get) => format!("watch {}", short(get.path)),
        Request::GetChildren(list) if list.watch => format!("watch {}", short(list.path)),
        Request::GetChildren(list) => format!("list {}", short(list.path)),
        request => panic!("{request:?}"),
    })
}

fn event_line(event: &Event) -> String {
    match event {
        Event::Permits(nodes) => {
            let labels: Vec<_> = nodes.iter().map(|node| label(node)).collect();
            format!("Permits {}", labels.join(" "))
        }
        Event::Enqueued { node, .. } => format!("Enqueued {}", label(node)),
        Event::Waiting { behind, .. } => format!("Waiting behind {}", label(behind)),
        Event::Acquired { node, token } => format!("Acquired {} token {}", label(node), token.0),
        Event::Abandoned { node, error: Error::Server(code) } => {
            format!("Abandoned {}: {code:?}", label(node))
        }
        Event::Failed(LockError::Request(Error::Server(code))) => format!("Failed: {code:?}"),
        Event::Failed(LockError::Request(Error::Reply(_))) => "Failed: malformed".to_string(),
        Event::Failed(error) => format!("Failed: {error:?}"),
        Event::Refused(error) => format!("Refused: {error:?}"),
        event => format!("{event:?}"),
    }
}

pub(super) fn children(labels: &[&str]) -> Result<Reply, Error> {
    let names: Vec<_> = labels.iter().map(|label| name(label)).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
}

/// The server's list of our own nodes.
pub(super) fn adopt_permit_nodes(labels: &[&str]) -> Result<Reply, Error> {
    let paths: Vec<_> = labels.iter().map(|label| format!("/sem/leases/{}", name(label))).collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    reply(OpCode::GET_EPHEMERALS, &GetEphemeralsResponse { ephemerals: paths[..].into() })
}

pub(super) fn maximum(maximum: u32) -> Result<Reply, Error> {
    data(&maximum.to_be_bytes())
}

/// Transaction 100 created the permit nodes with these numbers.
pub(super) fn created(numbers: &[i32]) -> Result<Reply, Error> {
    let path = |number: &i32| format!("/sem/leases/{}", name(&format!("leases/own-{number}")));
    let paths: Vec<_> = numbers.iter().map(path).collect();
    let results: Vec<_> =
        paths.iter().map(|path| MultiResult::Create(CreateResponse { path })).collect();
    let answer = reply(OpCode::MULTI, &Multi::new(&results));
    answer.map(|reply| Reply::new(reply.opcode, Zxid(100), reply.body))
}

pub(super) fn stat(owner: SessionId) -> Result<Reply, Error> {
    let stat = Stat { czxid: Zxid(100), ephemeral_owner: owner, ..Stat::default() };
    reply(OpCode::EXISTS, &ExistsResponse { stat })
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::of(|_| {})
    }

    pub(super) fn of(differ: impl FnOnce(&mut PermitRequest)) -> Self {
        let guid = Uuid::from_u128(OWN);
        let config = AttemptConfig::of_node("/sem".into(), Scheme::CURATOR_MUTEX, guid, SESSION);
        let mut request = PermitRequest::new(config, 2, Some(3));
        differ(&mut request);
        Self::with_format(
            OutputFormat { line, event: event_line },
            "".into(),
            SemaphoreMachine::new(request),
        )
    }

    // ---- Fixtures ------------------------------------------------------------------------------

    pub(super) fn queueing(mut self) -> Self {
        self.expect(&["enter", "list locks"]);
        let path = format!("/sem/locks/{}", name("locks/own-7"));
        let stat = Stat { czxid: Zxid(99), ephemeral_owner: SESSION, ..Stat::default() };
        self.answer("enter", reply(OpCode::CREATE2, &Create2Response { path: &path, stat }));
        self.expect(&["Enqueued locks/own-7"]);
        self
    }

    pub(super) fn creating(self) -> Self {
        let mut h = self.queueing();
        h.answer("list locks", children(&["locks/own-7"]));
        h.expect(&["timer", "watch max", "create 2 leases", "watch leases"]);
        h
    }

    pub(super) fn making_parents(self) -> Self {
        let mut h = self.creating();
        h.answer("create 2 leases", refused(ErrorCode::NO_NODE));
        h.expect(&["container /sem", "container /sem/leases"]);
        h.answer("watch leases", refused(ErrorCode::NO_NODE));
        h.expect(&["unwatch leases"]);
        h
    }

    pub(super) fn resolving(self) -> Self {
        let mut h = self.creating();
        h.answer("create 2 leases", lost());
        h.expect(&["sync leases", "list leases"]);
        h
    }

    pub(super) fn adopting(self) -> Self {
        let mut h = self.resolving();
        h.answer("sync leases", ok());
        h.answer("list leases", children(&["leases/own-3", "leases/own-4"]));
        h.expect(&["stat leases/own-3"]);
        h
    }

    pub(super) fn unresolved(self) -> Self {
        let mut h = self.creating();
        h.answer("create 2 leases", refused(ErrorCode::OPERATION_TIMEOUT));
        h.expect(&["timer"]);
        h
    }

    /// Its permit nodes exist, but it has not counted the others.
    pub(super) fn counting(self) -> Self {
        let mut h = self.creating();
        h.answer("create 2 leases", created(&[3, 4]));
        h.expect(&["timer", "timer"]);
        h.answer("watch max", maximum(3));
        h
    }

    pub(super) fn waiting(self) -> Self {
        let mut h = self.counting();
        h.full("watch leases");
        h.expect(&["Waiting behind leases"]);
        h
    }

    pub(super) fn held(self) -> Self {
        let mut h = self.counting();
        h.answer("watch leases", children(&["leases/a-1", "leases/own-3", "leases/own-4"]));
        h.expect(&[
            "unwatch leases",
            "unwatch max",
            "Permits leases/own-3 leases/own-4",
            "Acquired leases/own-3 token 100",
            "delete locks/own-7",
        ]);
        h
    }

    pub(super) fn leaving(self) -> Self {
        let mut h = self.held();
        h.answer("delete locks/own-7", ok());
        h.feed(Command::Release);
        h.expect(&["delete leases/own-3", "delete leases/own-4"]);
        h
    }

    // ---- Inputs --------------------------------------------------------------------------------

    /// Two permits are taken by others.
    pub(super) fn full(&mut self, line: &str) {
        let permit_nodes = ["leases/a-1", "leases/b-2", "leases/own-3", "leases/own-4"];
        self.answer(line, children(&permit_nodes));
    }

    pub(super) fn full_again(&mut self) {
        let permit_nodes = ["leases/a-1", "leases/b-2", "leases/own-3", "leases/own-4"];
        self.renewed("watch leases", children(&permit_nodes));
    }

    pub(super) fn answer_if_asked(&mut self, line: &str, result: Result<Reply, Error>) -> bool {
        let asked = self.asked.iter_mut().find(|asked| !asked.answered && asked.line == line);
        let Some(asked) = asked else {
            return false;
        };
        asked.answered = true;
        let op = asked.op;
        self.feed(Input::Reply { tag: op.tag(), result });
        true
    }

    /// Fires the newest watch of this line, if it was confirmed.
    pub(super) fn fire_if_set(&mut self, line: &str, event_type: EventType) {
        if let Some(asked) = self.asked.iter().rfind(|a| a.answered && a.line == line) {
            let op = asked.op;
            self.feed(fired(op, event_type));
        }
    }

    pub(super) fn leases_change(&mut self) {
        self.fire_if_set("watch leases", EventType::NODE_CHILDREN_CHANGED);
    }

    pub(super) fn maximum_changes(&mut self) {
        self.fire_if_set("watch max", EventType::NODE_DATA_CHANGED);
    }

    /// Answers every request like a server that has none of our nodes.
    pub(super) fn clean_up(&mut self) {
        for _ in 0..20 {
            let Some(line) = self.asked.iter().find(|a| !a.answered).map(|a| a.line.clone()) else {
                break;
            };
            let result = match line.split(' ').next() {
                Some("delete" | "sync" | "container") => ok(),
                _ => refused(ErrorCode::NO_NODE),
            };
            self.answer(&line, result);
        }
    }
}
