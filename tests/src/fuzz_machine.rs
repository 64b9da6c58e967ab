//! The fuzz target `machine`: the machines of the recipes with arbitrary replies, events and
//! losses, in every order that a session can report them.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use arbitrary::Unstructured;
use bytes::Bytes;
use uuid::Uuid;
use zk_proto::{
    Create2Response, CreateResponse, Encode, ErrorCode, EventType, ExistsResponse,
    GetChildrenResponse, GetDataResponse, GetEphemeralsResponse, List, Multi, MultiOp, MultiResult,
    OpCode, Request, SessionId, SetDataResponse, Stat, SyncResponse, Zxid,
};
use zk_recipes::machine::{
    AttemptConfig, BarrierWait, Command, Contender, DisconnectPolicy, ElectionMachine,
    EphemeralMachine, Event, LockMode, Machine, OpId, Participant, PermitRequest, Scheme,
    SemaphoreMachine, SimpleContender, Turn, UnknownNodePolicy, WaitPolicy, Watches,
};
use zk_session::dispatch::{Input, Submission};
use zk_session::session::{Reply, WatchedEvent};
use zk_session::{End, Error, Outcome, State};

use crate::fuzz_cache::cache;
use crate::spied::{Spy, alone};

/// The maximum number of steps in a run.
const STEPS: usize = 300;
/// The maximum number of outputs after one input.
const OUTPUTS: usize = 64;
const SESSION: SessionId = SessionId(7);
const GUID: Uuid = Uuid::from_u128(0x1111_1111_1111_1111_1111_1111_1111_1111);
const OTHER: Uuid = Uuid::from_u128(0x2222_2222_2222_2222_2222_2222_2222_2222);

/// The first byte of inputs for caches.
const CACHES: u8 = 255;

/// The data of nodes: numbers of permits, the request to release a lock, and that of our textbook
/// lock.
const DATA: [&[u8]; 6] = [
    &[0, 0, 0, 3],
    &[0, 0, 0, 7],
    &[],
    &[255; 4],
    AttemptConfig::REVOKE,
    b"11111111-1111-1111-1111-111111111111",
];

/// Runs a machine whose session follows `data`.
///
/// The number of outputs is bounded, no request has the number of another that waits, the lock is
/// not acquired twice, and a machine is done when its session has ended.
pub fn machine(data: &[u8]) {
    let mut input = Unstructured::new(data);
    if data.first() == Some(&CACHES) {
        // Its input may end at any place.
        let _ = cache(&mut Unstructured::new(&data[1..]));
        return;
    }
    let Ok(mut world) = World::new(&mut input) else { return };
    for _ in 0..STEPS {
        if input.is_empty() || world.step(&mut input).is_err() || world.machine.is_done() {
            break;
        }
    }
    world.end();
}

struct World {
    machine: Box<dyn Machine>,
    its_watches: Watches,
    scheme: Scheme,
    is_connected: bool,
    asked: RefCell<Asked>,
    /// Requests without a reply, in order.
    waiting: Vec<(OpId, Operation)>,
    /// Requests whose watch is set.
    watches: BTreeSet<OpId>,
    /// The paths of nodes that the server claims to have created.
    nodes: Vec<String>,
    zxid: i64,
}

/// A request that was submitted.
#[derive(Debug)]
struct Operation {
    opcode: OpCode,
    body: Vec<u8>,
    watches: bool,
}

impl Operation {
    fn request(&self) -> Request<'_> {
        Request::decode(self.opcode, &self.body).expect("it was encoded")
    }
}

/// What a machine has asked for during one call.
#[derive(Debug, Default)]
struct Asked {
    outputs: usize,
    submitted: Vec<(OpId, Operation)>,
    unwatched: Vec<OpId>,
    is_holding: bool,
    has_timer: bool,
    settles: bool,
}

impl Asked {
    fn count(&mut self) {
        self.outputs += 1;
        assert!(self.outputs <= OUTPUTS, "too many outputs: {self:?}");
    }
}

impl Spy for RefCell<Asked> {
    fn submits(&self, op: OpId, request: &Request<'_>, submission: Submission) -> bool {
        assert!(!request.harms_servers());
        let (opcode, watches) = (request.opcode(), submission == Submission::Watch);
        let operation = Operation { opcode, body: encoded(request), watches };
        self.borrow_mut().count();
        self.borrow_mut().submitted.push((op, operation));
        true
    }

    fn unwatches(&self, op: OpId) {
        self.borrow_mut().count();
        self.borrow_mut().unwatched.push(op);
    }

    fn sets_timer(&self) {
        self.borrow_mut().count();
        self.borrow_mut().has_timer = true;
    }

    fn settles(&self) {
        self.borrow_mut().count();
        self.borrow_mut().settles = true;
    }

    fn reports(&self, event: &Event) -> bool {
        let mut asked = self.borrow_mut();
        asked.count();
        match event {
            Event::Acquired { .. } => {
                assert!(!core::mem::replace(&mut asked.is_holding, true), "acquired twice");
            }
            Event::Lost(_) | Event::Released | Event::Failed(_) | Event::Refused(_) => {
                asked.is_holding = false;
            }
            _ => {}
        }
        true
    }
}

impl World {
    fn new(input: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let kind = input.int_in_range(0..=8_u8)?;
        let scheme = match kind {
            0 | 1 => *input.choose(&[
                Scheme::CURATOR_READ_WRITE,
                Scheme::CURATOR_MUTEX,
                Scheme::KAZOO_READ_WRITE,
            ])?,
            2 => Scheme::CURATOR_MUTEX,
            3 => Scheme::CURATOR_LEADER,
            // The names of a double barrier.
            _ => Scheme::private("alone-", Some("member-")),
        };
        let mut config = AttemptConfig::new("/lock".into(), scheme, GUID);
        config.mode = *input.choose(&[LockMode::Exclusive, LockMode::Shared])?;
        config.wait_policy =
            *input.choose(&[WaitPolicy::Queue, WaitPolicy::OnlyIfFirst, WaitPolicy::OnlyIfFree])?;
        config.disconnect_policy = *input.choose(&[
            DisconnectPolicy::UntilLeaseEnds,
            DisconnectPolicy::UntilServerReports,
            DisconnectPolicy::WhileConnected,
        ])?;
        config.unknown_nodes = *input.choose(&[
            UnknownNodePolicy::RefuseOtherLocks,
            UnknownNodePolicy::Ignore,
            UnknownNodePolicy::Count,
        ])?;
        config.revocable = input.arbitrary()?;
        let wait_policy = config.wait_policy;
        let machine: Box<dyn Machine> = match kind {
            0 | 1 => Box::new(Contender::new(config)),
            2 => {
                let permits = input.int_in_range(1..=3)?;
                let maximum = *input.choose(&[None, Some(3), Some(7)])?;
                let mut request = PermitRequest::new(config, permits, maximum);
                request.refuses_other_locks = input.arbitrary()?;
                Box::new(SemaphoreMachine::new(request))
            }
            3 => Box::new(ElectionMachine::new(config)),
            4 | 5 => Box::new(Participant::new(config, input.int_in_range(1..=3)?)),
            6 => Box::new(BarrierWait::new("/lock".into(), wait_policy)),
            7 => Box::new(EphemeralMachine::new(config)),
            _ => Box::new(SimpleContender::new(config)),
        };
        let mut world = Self {
            machine,
            its_watches: Watches::new(None),
            scheme,
            is_connected: true,
            asked: RefCell::default(),
            waiting: Vec::new(),
            watches: BTreeSet::new(),
            nodes: Vec::new(),
            zxid: 1,
        };
        world.give(Input::State(State::Connected { server: 0, session: SESSION }));
        Ok(world)
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        match input.int_in_range(0..=15_u8)? {
            0..=7 if self.is_connected && !self.waiting.is_empty() => {
                let (op, operation) = self.waiting.remove(0);
                let result = self.reply(&operation, input)?;
                if result.is_ok() && operation.watches {
                    self.watches.insert(op);
                }
                self.give(Input::Reply { tag: op.tag(), result });
            }
            8 | 9 if self.is_connected && !self.watches.is_empty() => {
                let watches: Vec<_> = self.watches.iter().copied().collect();
                let op = *input.choose(&watches)?;
                self.watches.remove(&op);
                let event_type = EventType(input.int_in_range(-1..=5)?);
                let event = WatchedEvent::new(event_type, "/lock".into(), Zxid(self.zxid));
                self.give(Input::Watch { tag: op.tag(), event });
            }
            10 if self.is_connected && self.machine.outlives_session() && input.ratio(1, 4)? => {
                // Requests of the old session have no replies.
                self.waiting.clear();
                self.watches.clear();
                self.is_connected = false;
                self.give(Input::State(State::Renewing));
            }
            10 if self.is_connected => {
                self.lose(|| Error::ConnectionLost);
                self.is_connected = false;
                self.give(Input::State(State::Suspended));
            }
            11 if !self.is_connected => {
                self.is_connected = true;
                self.give(Input::State(State::Connected { server: 1, session: SESSION }));
            }
            12 if self.asked.get_mut().has_timer => {
                self.asked.get_mut().has_timer = false;
                self.give(Input::Timer);
            }
            13 => self.give(Input::LeaseEnded),
            14 => match input.int_in_range(0..=3_u8)? {
                0 => self.order(Command::Leave),
                1 => self.order(Command::Convert(LockMode::Shared)),
                2 => self.order(Command::Convert(LockMode::Exclusive)),
                _ => self.order(Command::Release),
            },
            _ if self.asked.get_mut().settles => {
                self.asked.get_mut().settles = false;
                self.give(Input::Settled);
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the session, after which every machine is done.
    fn end(&mut self) {
        let end = End::Expired;
        self.lose(|| Error::Ended { end, outcome: Outcome::Unknown });
        self.give(Input::State(State::Ended(end)));
        self.lose(|| Error::Ended { end, outcome: Outcome::NotApplied });
        if core::mem::take(&mut self.asked.get_mut().settles) {
            self.give(Input::Settled);
        }
        assert!(self.machine.is_done(), "not done at the end of the session: {:?}", self.machine);
        assert!(self.waiting.is_empty());
    }

    /// Fails all requests that wait.
    fn lose(&mut self, error: impl Fn() -> Error) {
        self.watches.clear();
        for (op, _) in core::mem::take(&mut self.waiting) {
            self.give(Input::Reply { tag: op.tag(), result: Err(error()) });
        }
    }

    fn give(&mut self, input: Input) {
        self.act(|machine, turn| machine.handle(input, turn));
    }

    fn order(&mut self, command: Command) {
        self.act(|machine, turn| machine.command(command, turn));
    }

    fn act(&mut self, act: impl FnOnce(&mut dyn Machine, &mut Turn<'_>)) {
        let machine = &mut *self.machine;
        self.asked.get_mut().outputs = 0;
        alone(&mut self.its_watches, &self.asked, |turn| act(machine, turn));
        let Asked { submitted, unwatched, .. } = self.asked.get_mut();
        for (op, operation) in core::mem::take(submitted) {
            let is_new = self.waiting.iter().all(|(other, _)| *other != op);
            assert!(is_new && !self.watches.contains(&op), "{op:?} is not new");
            self.waiting.push((op, operation));
        }
        for op in core::mem::take(unwatched) {
            self.watches.remove(&op);
        }
    }

    /// Returns the reply to a request: a refusal, arbitrary bytes, or one that makes sense.
    fn reply(
        &mut self,
        operation: &Operation,
        input: &mut Unstructured<'_>,
    ) -> arbitrary::Result<Result<Reply, Error>> {
        let choice = input.int_in_range(0..=9_u8)?;
        if choice == 0 {
            let codes = ErrorCode::KNOWN;
            return Ok(Err(Error::Server(*input.choose(codes)?)));
        }
        if choice == 1 {
            return Ok(Err(Error::ReplyTooLarge {
                length: 9,
                limit: 8,
                outcome: Outcome::Applied,
            }));
        }
        self.zxid += input.int_in_range(0..=3)?;
        let opcode = operation.opcode;
        let body = match choice {
            2 => {
                let length = input.int_in_range(0..=32)?;
                input.bytes(length)?.to_vec()
            }
            _ => {
                let stat = self.stat(input)?;
                let number = *input.choose(&[0, 1, 2, 3, i32::MAX, -5])?;
                let data = *input.choose(&DATA)?;
                let children = self.children(input)?;
                self.body(&operation.request(), &stat, number, data, &children)
            }
        };
        Ok(Ok(Reply::new(opcode, Zxid(self.zxid), Bytes::from(body))))
    }

    fn stat(&self, input: &mut Unstructured<'_>) -> arbitrary::Result<Stat> {
        let czxid = Zxid(self.zxid + input.int_in_range(-2..=0)?);
        let ephemeral_owner = *input.choose(&[SESSION, SESSION, SessionId(8), SessionId::NONE])?;
        let num_children = input.int_in_range(0..=2)?;
        Ok(Stat { czxid, ephemeral_owner, num_children, ..Stat::default() })
    }

    /// Returns names of children: those of created nodes, of other contenders, and of neither.
    fn children(&self, input: &mut Unstructured<'_>) -> arbitrary::Result<Vec<String>> {
        let mut children = Vec::new();
        for _ in 0..input.int_in_range(0..=4)? {
            let own = input.choose_index(self.nodes.len() + 1)?;
            children.push(match self.nodes.get(own) {
                Some(path) => path.rsplit('/').next().unwrap_or_default().to_string(),
                None if input.ratio(1, 8)? => String::from("ready"),
                None => {
                    let mode = *input.choose(&[LockMode::Exclusive, LockMode::Shared])?;
                    let own = AttemptConfig::node_guid(GUID, SESSION);
                    let guid = *input.choose(&[OTHER, own])?;
                    let prefix = self.scheme.prefix(mode, guid, SessionId(9));
                    format!("{prefix}{:010}", input.int_in_range(0..=4)?)
                }
            });
        }
        Ok(children)
    }

    /// Returns a body that fits the request.
    fn body(
        &mut self,
        request: &Request<'_>,
        stat: &Stat,
        number: i32,
        data: &[u8],
        children: &[String],
    ) -> Vec<u8> {
        let stat = *stat;
        let mut created = |path: &str, mode: zk_proto::CreateMode| {
            let path = match mode.is_sequential() {
                true => format!("{path}{number:010}"),
                false => path.to_string(),
            };
            self.nodes.push(path.clone());
            path
        };
        let names: Vec<_> = children.iter().map(String::as_str).collect();
        match request {
            Request::Create(body) => {
                encoded(&CreateResponse { path: &created(body.path, body.mode) })
            }
            Request::Create2(body) | Request::CreateContainer(body) => {
                encoded(&Create2Response { path: &created(body.path, body.mode), stat })
            }
            Request::Exists(_) => encoded(&ExistsResponse { stat }),
            Request::SetData(_) => encoded(&SetDataResponse { stat }),
            Request::GetData(_) => encoded(&GetDataResponse { data: Some(data), stat }),
            Request::GetChildren(_) => {
                encoded(&GetChildrenResponse { children: List::new(&names) })
            }
            Request::GetEphemerals(_) => {
                let paths: Vec<_> = self.nodes.iter().map(String::as_str).collect();
                encoded(&GetEphemeralsResponse { ephemerals: List::new(&paths) })
            }
            Request::Sync(body) => encoded(&SyncResponse { path: body.path }),
            Request::Multi(multi) => {
                let paths: Vec<_> = multi
                    .iter()
                    .map(|op| match op {
                        MultiOp::Create(body) | MultiOp::Create2(body) => {
                            created(body.path, body.mode)
                        }
                        _ => String::new(),
                    })
                    .collect();
                let result = |(op, path)| match op {
                    MultiOp::Create(_) | MultiOp::Create2(_) => {
                        MultiResult::Create2(Create2Response { path, stat })
                    }
                    _ => MultiResult::Delete(()),
                };
                let results: Vec<_> =
                    multi.iter().zip(paths.iter().map(String::as_str)).map(result).collect();
                encoded(&Multi::new(&results))
            }
            _ => Vec::new(),
        }
    }
}

pub(crate) fn encoded(message: &impl Encode) -> Vec<u8> {
    let mut bytes = alloc::vec![0; message.encoded_len()];
    let _ = message.encode_to_slice(&mut bytes);
    bytes
}
