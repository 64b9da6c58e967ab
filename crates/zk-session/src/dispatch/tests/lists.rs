//! Lists that machines share.

use alloc::string::ToString as _;

use zk_proto::{DeleteRequest, Xid};

use super::*;

/// The number of a machine, and how many deletions its list shows.
type Answer = (u64, Result<u64, Error>);

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Answer>>>);

impl Received {
    fn take(&self) -> Vec<Answer> {
        core::mem::take(&mut *self.0.lock().expect("nobody panics"))
    }
}

const DELETE: u64 = 0;
const LIST: u64 = 1;

/// A machine that deletes something, and lists in the same step.
struct Lister {
    number: u64,
    path: &'static str,
    received: Received,
    is_done: bool,
}

impl Attached for Lister {
    fn handle(&mut self, input: Input, _: &mut Port<'_>) {
        if let Input::Reply { tag: LIST, result } = input {
            let shown = |reply: Reply| {
                let DeleteRequest { path, .. } = reply.decode().expect("what was sent");
                path.parse().expect("a number")
            };
            let has_more = result.as_ref().is_ok_and(|reply| reply.has_more);
            let result = if has_more { Ok(u64::MAX) } else { result.map(shown) };
            self.received.0.lock().expect("nobody panics").push((self.number, result));
        }
    }

    fn command(&mut self, message: &mut dyn Any, port: &mut Port<'_>) {
        if message.is::<()>() {
            self.is_done = true;
            return;
        }
        port.submit(DELETE, &Request::Delete(DeleteRequest { path: self.path, version: -1 }));
        port.list(LIST, &Arc::from(self.path));
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// A world with a server that answers in order.
struct Lists {
    world: World,
    received: Received,
    keys: Vec<Key>,
    /// Requests that were sent, and not answered.
    unanswered: Vec<(Xid, OpCode)>,
    deletions: u64,
}

impl Lists {
    fn new(config: Config) -> Self {
        let mut world = World::new();
        world.dispatcher = Dispatcher::new(Session::new(world.now, config));
        world.connect();
        world.drain();
        let received = Received::default();
        Self { world, received, keys: Vec::new(), unanswered: Vec::new(), deletions: 0 }
    }

    /// Attaches a machine that deletes and lists at once. Returns its number.
    fn begin(&mut self, path: &'static str) -> u64 {
        let number = self.keys.len() as u64;
        let machine = Lister { number, path, received: self.received.clone(), is_done: false };
        let World { dispatcher, now, .. } = &mut self.world;
        let key = dispatcher.attach(*now, Box::new(machine));
        self.keys.push(key);
        dispatcher.command(*now, key, &mut 0);
        number
    }

    fn begin_all(&mut self, count: usize) {
        for _ in 0..count {
            self.begin(NODE);
        }
    }

    fn drain(&mut self) {
        self.world.drain();
        self.world.dispatcher.take_effects().run();
    }

    /// Sends the waiting requests. Returns how many of them are lists.
    fn send(&mut self) -> usize {
        self.drain();
        let World { dispatcher, now, received, .. } = &mut self.world;
        let session = dispatcher.session_mut();
        received.extend_from_slice(session.output());
        let count = session.output().len();
        session.handle_sent(*now, count);
        let mut lists = 0;
        while let Some(frame) = frame::split_bytes(received, usize::MAX).expect("frames") {
            let header = RequestHeader::decode(&mut Reader::new(&frame)).expect("a header");
            lists += usize::from(header.opcode == OpCode::GET_CHILDREN);
            if header.xid > Xid(0) {
                self.unanswered.push((header.xid, header.opcode));
            }
        }
        lists
    }

    /// Answers the oldest request.
    fn answer(&mut self) -> bool {
        if self.unanswered.is_empty() {
            return false;
        }
        let (xid, opcode) = self.unanswered.remove(0);
        let header = ReplyHeader { xid, zxid: Zxid(1), err: ErrorCode::OK };
        self.deletions += u64::from(opcode == OpCode::DELETE);
        match opcode {
            OpCode::DELETE => self.world.deliver(&(header, ())),
            _ => {
                let shown = self.deletions.to_string();
                self.world.deliver(&(header, DeleteRequest { path: &shown, version: 0 }));
            }
        }
        true
    }

    fn answer_all(&mut self) {
        loop {
            self.send();
            if !self.answer() {
                return;
            }
        }
    }

    fn lose_connection(&mut self) {
        let now = self.world.now;
        self.world.session().handle_disconnected(now);
        self.unanswered.clear();
        self.drain();
    }

    fn connect(&mut self) {
        self.world.sleep(Duration::from_secs(2));
        self.drain();
        self.world.connect();
        self.drain();
    }
}

fn lists() -> Lists {
    Lists::new(Config::new(1, 0))
}

#[test]
fn four_lists_are_under_way_and_all_others_share_the_next() {
    let mut lists = lists();
    for number in 0..100 {
        assert_eq!(lists.begin(NODE), number);
    }
    assert_eq!(lists.send(), 4);
    assert!(lists.answer(), "a deletion");
    assert_eq!(lists.send(), 0);
    assert!(lists.answer(), "a list");
    assert_eq!(lists.send(), 1, "for the other 96");
    assert_eq!(lists.begin(NODE), 100);
    assert_eq!(lists.begin("/other"), 101);
    assert_eq!(lists.send(), 1, "of the other node");
    lists.answer_all();
    let received = lists.received.take();
    let alone = (0..4).map(|number| (number, Ok(number + 1)));
    let shared = (4..100).map(|number| (number, Ok(100)));
    let late = [(101, Ok(102)), (100, Ok(102))];
    assert_eq!(received, alone.chain(shared).chain(late).collect::<Vec<_>>());
    assert_eq!(lists.begin(NODE), 102);
    assert_eq!(lists.send(), 1, "as if there had been none");
}

#[test]
fn every_piece_reaches_all_that_share_a_list() {
    let mut lists = lists();
    lists.begin_all(7);
    lists.send();
    while lists.unanswered.len() > 1 {
        lists.answer();
        lists.send();
    }
    lists.received.take();
    let (xid, _) = lists.unanswered.remove(0);
    let header = ReplyHeader { xid, zxid: Zxid(1), err: ErrorCode::OK };
    let mut start = BytesMut::new();
    header.encode(&mut start);
    let mut body = BytesMut::new();
    DeleteRequest { path: "9", version: 0 }.encode(&mut body);
    let now = lists.world.now;
    lists.world.session().handle_oversized(now, &start, start.len() + 4 + body.len());
    for piece in [bytes::Bytes::from_static(b"some"), body.freeze()] {
        lists.world.session().handle_rest(now, piece);
        assert_eq!(lists.send(), 0);
    }
    let pieces = (4..7).map(|number| (number, Ok(u64::MAX)));
    let ends = (4..7).map(|number| (number, Ok(9)));
    assert_eq!(lists.received.take(), pieces.chain(ends).collect::<Vec<_>>());
}

#[test]
fn a_machine_that_ends_while_it_waits_receives_nothing() {
    let mut lists = lists();
    lists.begin_all(8);
    for number in [1, 4, 6] {
        assert!(lists.world.end(lists.keys[number]));
    }
    // This machine reuses the slot of one of them.
    lists.begin(NODE);
    lists.answer_all();
    let received: Vec<_> = lists.received.take().into_iter().map(|(number, _)| number).collect();
    assert_eq!(received, [0, 2, 3, 5, 7, 8]);
}

#[test]
fn lists_that_wait_outlive_a_connection_and_are_answered_before_the_end() {
    let mut lists = lists();
    lists.begin_all(7);
    lists.send();
    lists.lose_connection();
    let lost = (0..4).map(|number| (number, Err(Error::ConnectionLost)));
    assert_eq!(lists.received.take(), lost.collect::<Vec<_>>());
    lists.connect();
    assert_eq!(lists.send(), 1);
    lists.answer_all();
    assert_eq!(lists.received.take(), [4, 5, 6].map(|number| (number, Ok(0))), "lost deletions");

    lists.begin_all(7);
    lists.send();
    let now = lists.world.now;
    lists.world.dispatcher.close(now);
    lists.lose_connection();
    let received = lists.received.take();
    assert_eq!(received.len(), 7);
    assert!(received.iter().all(|(_, result)| matches!(result, Err(Error::Ended { .. }))));
}

#[test]
fn lists_of_an_expired_session_do_not_reach_the_next_one() {
    let mut lists = Lists::new(Config { renew: true, ..Config::new(1, 0) });
    lists.begin_all(7);
    lists.send();
    lists.lose_connection();
    lists.world.sleep(Duration::from_secs(1));
    while lists.world.session().poll_action().is_some() {}
    let now = lists.world.now;
    lists.world.session().handle_connected(now);
    lists.world.sent();
    lists.world.deliver(&ConnectResponse {
        protocol_version: 0,
        timeout: 0,
        session_id: SessionId::NONE,
        password: Some(&[0; 16]),
        read_only: None,
    });
    lists.drain();
    assert_eq!(lists.received.take().len(), 7);
    assert_eq!(lists.world.dispatcher.attached(), 0);
    lists.connect();
    assert_eq!(lists.send(), 0);
    lists.begin_all(7);
    assert_eq!(lists.send(), 4);
    lists.answer_all();
    assert_eq!(lists.received.take().len(), 7);
}

#[test]
fn a_list_shows_what_its_receivers_have_done_before_and_each_is_answered_once() {
    const PATHS: [&str; 2] = ["/a", "/b"];
    for seed in 0..2_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut lists = lists();
        let mut begun = Vec::new();
        let (mut ended, mut losses) = (Vec::new(), 0);
        // The deletions of the connection so far, and of those before.
        let mut submitted = 0;
        let mut answers: Vec<Answer> = Vec::new();
        for _ in 0..rng.usize(20..80) {
            match rng.u8(..16) {
                0..8 => {
                    let number = lists.begin(PATHS[rng.usize(..2)]);
                    submitted += 1;
                    begun.push((number, submitted));
                }
                8..10 => _ = lists.send(),
                10..14 => {
                    lists.send();
                    lists.answer();
                }
                14 if !begun.is_empty() => {
                    let (number, _) = begun[rng.usize(..begun.len())];
                    if lists.world.end(lists.keys[number as usize]) {
                        ended.push(number);
                    }
                }
                _ => {
                    lists.send();
                    lists.answer_all();
                    // After three, the session would refuse deletions.
                    if losses < 2 && rng.bool() {
                        losses += 1;
                        (0..rng.u8(..12)).for_each(|_| {
                            let number = lists.begin(PATHS[0]);
                            submitted += 1;
                            begun.push((number, u64::MAX));
                        });
                        lists.send();
                        for _ in 0..rng.u8(..6) {
                            lists.answer();
                        }
                        lists.lose_connection();
                        lists.connect();
                        // What was lost is never executed.
                        lists.answer_all();
                        lists.deletions = submitted;
                    }
                }
            }
            answers.extend(lists.received.take());
        }
        lists.answer_all();
        answers.extend(lists.received.take());
        for (number, own) in begun {
            let mut own_answers = answers.iter().filter(|(of, _)| *of == number);
            match (own_answers.next(), ended.contains(&number)) {
                (Some((_, Ok(shown))), _) => {
                    assert!(own == u64::MAX || *shown >= own, "seed {seed}: {number}");
                }
                (Some((_, Err(error))), _) => assert_eq!(*error, Error::ConnectionLost),
                (None, is_ended) => assert!(is_ended, "seed {seed}: {number} has no answer"),
            }
            assert_eq!(own_answers.next(), None, "seed {seed}: {number}");
        }
    }
}
