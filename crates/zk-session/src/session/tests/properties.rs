//! Properties that hold for any order of inputs from transport, clock, server and callers.

use alloc::collections::BTreeSet;
use alloc::vec;
use core::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use proptest::{collection, sample};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    // The caller.
    Submit { operation: u8, path: u8 },
    SubmitUntil { operation: u8, path: u8, timeout: u64 },
    Unwatch(sample::Index),
    Close,
    // The transport and the clock.
    Reached,
    Lost,
    BadFrame,
    Take(sample::Index),
    TakeAll,
    Elapse(u64),
    Due,
    // The server: correct behaviour.
    Welcome,
    Expired,
    Answer(ErrorCode),
    AnswerPing,
    AnswerSetWatches(ErrorCode),
    Notify(i32, u8),
    // The server: incorrect behaviour.
    Reply { xid: i32, zxid: i64, err: i32 },
    Frame(Vec<u8>),
}

const PATHS: [&str; 3] = ["/", "/a", "/a/b"];

fn path() -> impl Strategy<Value = u8> {
    0..PATHS.len() as u8
}

fn code() -> impl Strategy<Value = ErrorCode> {
    prop_oneof![
        6 => Just(ErrorCode::OK),
        2 => Just(ErrorCode::NO_NODE),
        1 => Just(ErrorCode::UNIMPLEMENTED),
        1 => Just(ErrorCode::SESSION_EXPIRED),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let often = prop_oneof![
        12 => (0..6u8, path()).prop_map(|(operation, path)| Step::Submit { operation, path }),
        3 => (0..6u8, path(), 0..500u64).prop_map(|(operation, path, timeout)| {
            Step::SubmitUntil { operation, path, timeout }
        }),
        3 => any::<sample::Index>().prop_map(Step::Unwatch),
        6 => Just(Step::Reached),
        3 => any::<sample::Index>().prop_map(Step::Take),
        12 => Just(Step::TakeAll),
        3 => (0..1_500u64).prop_map(Step::Elapse),
        6 => Just(Step::Due),
        12 => Just(Step::Welcome),
        16 => code().prop_map(Step::Answer),
        3 => Just(Step::AnswerPing),
        6 => (-2..6i32, path()).prop_map(|(event, path)| Step::Notify(event, path)),
    ];
    let seldom = prop_oneof![
        4 => Just(Step::Lost),
        1 => Just(Step::BadFrame),
        1 => code().prop_map(Step::AnswerSetWatches),
        1 => (-9..9i32, -2..9i64, -130..1i32)
            .prop_map(|(xid, zxid, err)| Step::Reply { xid, zxid, err }),
        1 => collection::vec(any::<u8>(), 0..40).prop_map(Step::Frame),
    ];
    let once = prop_oneof![1 => Just(Step::Close), 20 => Just(Step::Expired)];
    prop_oneof![800 => often, 16 => seldom, 20 => once]
}

/// A session with a scripted server that records what must stay true.
struct World {
    h: Harness,
    /// Accepted requests: tokens are counted from 0. Their xids, and the ids of their watches.
    xids: Vec<Xid>,
    ids: Vec<RequestId>,
    deadlines: Vec<Option<Instant>>,
    /// The result of each, if there is one.
    answers: Vec<Option<Result<(), Error>>>,
    /// The requests that the server has received completely, by xid, in order.
    arrived: Vec<i32>,
    /// Requests on this connection without a reply.
    due: Vec<i32>,
    /// How many frames have arrived on this connection, and whether requests are among them.
    frames: usize,
    requests_began: bool,
    welcomed: bool,
    /// Watches that must not fire (any more).
    over: BTreeSet<RequestId>,
    fired: usize,
    /// Requests that were reported as not applied, and had not arrived.
    never: BTreeSet<Xid>,
    late: usize,
    handshakes: usize,
    ended: bool,
}

impl World {
    fn new() -> Self {
        let config = Config { max_pending: 20, ..Config::new(2, 0) };
        Self {
            h: Harness::with(config),
            xids: Vec::new(),
            ids: Vec::new(),
            deadlines: Vec::new(),
            answers: Vec::new(),
            arrived: Vec::new(),
            due: Vec::new(),
            frames: 0,
            requests_began: false,
            welcomed: false,
            over: BTreeSet::new(),
            fired: 0,
            never: BTreeSet::new(),
            late: 0,
            handshakes: 0,
            ended: false,
        }
    }

    fn may_overtake(&self, result: &Result<Reply, Error>) -> bool {
        matches!(
            result,
            Err(Error::DeadlinePassed { .. }
                | Error::Unsupported { .. }
                | Error::Server(
                    ErrorCode::UNIMPLEMENTED
                        | ErrorCode::NOT_READ_ONLY
                        | ErrorCode::NO_AUTH
                        | ErrorCode::INVALID_ACL
                        | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH
                ))
        )
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Submit { operation, path } => self.submit(*operation, *path, None),
            Step::SubmitUntil { operation, path, timeout } => {
                self.submit(*operation, *path, Some(self.h.now + ms(*timeout)));
            }
            Step::Unwatch(index) => {
                if !self.ids.is_empty() {
                    let id = *index.get(&self.ids);
                    self.h.session.unwatch(id);
                    self.over.insert(id);
                }
            }
            Step::Close => self.h.session.close(),
            Step::Reached => {
                self.h.session.handle_connected(self.h.now);
            }
            Step::Lost => self.h.disconnect(),
            Step::BadFrame => {
                self.h.session.handle_bad_frame(self.h.now, frame::FrameError::Negative(-1));
            }
            Step::Take(index) => {
                let length = self.h.session.output().len();
                self.h.take(index.index(length + 1));
            }
            Step::TakeAll => self.h.take_all(),
            Step::Elapse(millis) => self.h.advance(ms(*millis)),
            Step::Due => {
                if let Some(due) = self.h.session.poll_timeout() {
                    let wait = due - self.h.now;
                    self.h.advance(wait);
                }
            }
            Step::Welcome => {
                if self.frames > 0 && !self.welcomed {
                    self.welcomed = true;
                    self.handshakes += 1;
                    self.h.welcome();
                }
            }
            Step::Expired => {
                if self.frames > 0 && !self.welcomed {
                    self.h.answer_handshake(0, SessionId::NONE);
                }
            }
            Step::Answer(err) => {
                if !self.due.is_empty() && self.welcomed {
                    let xid = self.due.remove(0);
                    self.h.reply(xid, self.arrived.len() as i64, *err);
                }
            }
            // A correct server sends nothing else before it has answered the handshake.
            Step::AnswerPing | Step::AnswerSetWatches(_) | Step::Notify(..) if !self.welcomed => {}
            Step::AnswerPing => self.h.reply(Xid::PING.0, 1, ErrorCode::OK),
            Step::AnswerSetWatches(err) => self.h.reply(Xid::SET_WATCHES.0, 1, *err),
            Step::Notify(event, path) => {
                self.h.notify(EventType(*event), PATHS[usize::from(*path)]);
            }
            Step::Reply { xid, zxid, err } => self.h.reply(*xid, *zxid, ErrorCode(*err)),
            Step::Frame(bytes) => {
                self.h.session.handle_frame(self.h.now, Bytes::copy_from_slice(bytes));
            }
        }
        self.look();
    }

    fn submit(&mut self, operation: u8, path: u8, deadline: Option<Instant>) {
        let path = PATHS[usize::from(path)];
        let request = match operation {
            0 => exists(path),
            1 | 2 => get_data(path),
            3 => get_children(path),
            4 => create(path),
            _ => SYNC,
        };
        let token = self.xids.len() as u32;
        let submitted = match deadline {
            Some(deadline) => self.h.session.submit_until(&request, token, deadline),
            None => self.h.session.submit(&request, token),
        };
        match submitted {
            Ok(id) => {
                self.deadlines.push(deadline);
                self.answers.push(None);
                self.xids.push(self.h.session.outbox.last_xid());
                self.ids.push(id);
            }
            Err(error) => {
                assert_eq!(error.outcome(), Outcome::NotApplied);
                assert!(
                    self.ended || self.h.session.end().is_some() || self.h.session.pending() >= 20
                );
            }
        }
    }

    fn look(&mut self) {
        self.look_at_the_wire();
        if !self.h.actions().is_empty() {
            self.h.received.clear();
            self.due.clear();
            self.frames = 0;
            self.requests_began = false;
            self.welcomed = false;
        }
        for event in self.h.events() {
            self.look_at(event);
        }
        let session = &self.h.session;
        assert_eq!(matches!(session.state(), State::Ended(_)), self.ended);
        assert_eq!(session.poll_timeout().is_none(), self.ended, "nothing would ever happen");
        if self.ended {
            assert!(self.answers.iter().all(Option::is_some));
            assert_eq!((session.pending(), session.output()), (0, &b""[..]));
        }
    }

    fn look_at_the_wire(&mut self) {
        while let Some(payload) = self.h.payload() {
            self.frames += 1;
            if self.frames == 1 {
                ConnectRequest::decode_all(&payload).expect("a handshake comes first");
                continue;
            }
            assert!(self.welcomed || self.h.session.stage() != Some(Stage::Handshaking));
            let mut reader = Reader::new(&payload);
            let header = RequestHeader::decode(&mut reader).expect("then requests");
            Request::decode(header.opcode, reader.rest()).expect("well-formed ones");
            if header.xid == Xid::SET_WATCHES {
                assert!(!self.requests_began, "watches are set before any request");
            } else {
                self.requests_began = true;
            }
            if header.xid >= Xid::FIRST {
                assert!(self.arrived.last() < Some(&header.xid.0), "out of order, or twice");
                assert!(!self.never.contains(&header.xid), "said not to be applied");
                self.arrived.push(header.xid.0);
                self.due.push(header.xid.0);
            }
        }
    }

    fn look_at(&mut self, event: Event<u32>) {
        assert!(!self.ended, "{event:?} after the end");
        match event {
            Event::Reply { token, result } => {
                let place = token as usize;
                assert_eq!(self.answers[place], None, "answered twice");
                // Only callers that stop waiting, and early refusals of a server, are out of order.
                let in_order = |(answer, deadline): (&Option<_>, &Option<_>)| {
                    answer.is_some() || deadline.is_some()
                };
                if !self.may_overtake(&result) {
                    let mut before = self.answers[..place].iter().zip(&self.deadlines[..place]);
                    assert!(before.all(in_order), "answers come in order");
                }
                let arrived = self.arrived.contains(&self.xids[token as usize].0);
                let applied = result.as_ref().map_or_else(Error::outcome, |_| Outcome::Unknown);
                match &result {
                    Ok(_) | Err(Error::Server(_) | Error::Unsupported { .. }) => assert!(arrived),
                    Err(Error::DeadlinePassed { .. }) => {
                        let passed = self.deadlines[place].is_some_and(|at| at <= self.h.now);
                        assert!(passed, "before its deadline");
                        assert!(!arrived || applied == Outcome::Unknown);
                        self.late += 1;
                    }
                    Err(_) => assert_eq!(arrived, applied == Outcome::Unknown, "{result:?}"),
                }
                if applied == Outcome::NotApplied && !arrived {
                    self.never.insert(self.xids[place]);
                }
                self.answers[place] = Some(result.map(drop));
            }
            Event::Watch { requests, .. } => {
                for id in requests {
                    assert!(
                        self.over.insert(id),
                        "a watch fires once, and not after it is dropped"
                    );
                    self.fired += 1;
                    let token = self.ids.binary_search(&id).expect("an id that was handed out");
                    assert!(
                        matches!(self.answers[token], Some(Ok(()) | Err(Error::Server(_)))),
                        "a watch fires after it is set"
                    );
                }
            }
            Event::State(State::Ended(_)) => self.ended = true,
            Event::State(_) | Event::Disconnected { .. } => {}
            Event::Gap { .. }
            | Event::WatchLost { .. }
            | Event::LeaseEnded
            | Event::Room
            | Event::Authenticate { .. }
            | Event::AuthenticationReply { .. } => {}
        }
    }
}

fn world_after(steps: &[Step], mut check: impl FnMut(&mut World)) -> World {
    let mut world = World::new();
    for step in steps {
        world.run(step);
        check(&mut world);
    }
    world
}

/// Counts of events without which a property was not tested.
#[derive(Debug, Default)]
struct Reached {
    succeeded: usize,
    unknown: usize,
    not_applied: usize,
    fired: usize,
    resumed: usize,
    expired: usize,
    closed: usize,
    late: usize,
}

impl Reached {
    fn count(&mut self, world: &World) {
        let outcomes = |outcome| {
            let is = |answer: &&Result<(), Error>| {
                answer.as_ref().is_err_and(|error| error.outcome() == outcome)
            };
            world.answers.iter().flatten().filter(is).count()
        };
        self.succeeded += world.answers.iter().flatten().filter(|answer| answer.is_ok()).count();
        self.unknown += outcomes(Outcome::Unknown);
        self.not_applied += outcomes(Outcome::NotApplied);
        self.fired += world.fired;
        self.late += world.late;
        self.resumed += world.handshakes.saturating_sub(1);
        self.expired += usize::from(world.h.session.state() == State::Ended(End::Expired));
        self.closed += usize::from(world.h.session.state() == State::Ended(End::Closed));
    }

    fn least(&self) -> usize {
        let Self { succeeded, unknown, not_applied, fired, resumed, expired, closed, late } = self;
        *[succeeded, unknown, not_applied, fired, resumed, expired, closed, late]
            .into_iter()
            .min()
            .expect("there are some")
    }
}

#[test]
fn every_request_is_answered_once_in_order_and_correctly() {
    let reached = RefCell::new(Reached::default());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let property = runner.run(&collection::vec(step(), 1..300), |steps| {
        let (mut zxid, mut lease) = (Zxid::ZERO, None);
        let mut world = world_after(&steps, |world| {
            let session = &world.h.session;
            assert!(session.last_zxid() >= zxid);
            assert!(session.lease_start >= lease);
            (zxid, lease) = (session.last_zxid(), session.lease_start);
        });
        world.run(&Step::Close);
        world.run(&Step::Lost);
        assert!(world.ended);
        assert!(world.answers.iter().all(Option::is_some));
        reached.borrow_mut().count(&world);
        Ok(())
    });
    if let Err(failure) = property {
        panic!("{failure}");
    }
    assert!(reached.borrow().least() > 25, "{reached:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each deadline there is a later one, so a loop that sleeps until the next one makes
    /// progress.
    #[test]
    fn no_deadline_keeps_the_clock_from_moving_on(steps in collection::vec(step(), 1..100)) {
        world_after(&steps, |world| {
            world.h.session.handle_timeout(world.h.now);
            world.look();
            let due = world.h.session.poll_timeout();
            assert!(due.is_none_or(|due| due > world.h.now));
        });
    }
}
