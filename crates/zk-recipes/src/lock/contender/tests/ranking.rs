//! Lock paths whose sequence numbers are exhausted.

use crate::tests::*;

fn enqueued(label: &str, token: i64) -> Harness {
    let mut h = Harness::of(|config| config.scheme = PRIVATE);
    h.expect(&["create", "list"]);
    h.created_as("create", label, Zxid(token));
    h.expect(&[&*format!("Enqueued {label} token {token}")]);
    h
}

fn ranked(h: &mut Harness, ranks: &[(&str, Option<i64>)]) {
    for (label, czxid) in ranks {
        let answer = match czxid {
            Some(czxid) => stat_at(SessionId(9), Zxid(*czxid)),
            None => refused(ErrorCode::NO_NODE),
        };
        h.answer(&format!("stat {label}"), answer);
    }
}

#[test]
fn the_oldest_node_is_first_whatever_its_number() {
    let mut h = enqueued("own-M2147483647", 7);
    h.answer("list", children(&["own-M2147483647", "a-M-2147483648", "junk", "b-M2147483647"]));
    h.expect(&[
        "UnknownNode(\"junk\")",
        "stat a-M-2147483648",
        "stat b-M2147483647",
        "stat own-M2147483647",
    ]);
    ranked(&mut h, &[("a-M-2147483648", Some(8)), ("b-M2147483647", Some(9))]);
    h.expect(&[]);
    ranked(&mut h, &[("own-M2147483647", Some(7))]);
    h.expect(&["Acquired own-M2147483647 token 7", "timer"]);
}

#[test]
fn a_waiter_watches_the_node_created_right_before() {
    let mut h = enqueued("own-M-2147483647", 9);
    h.answer("list", children(&["own-M-2147483647", "a-M2147483647", "b-M-2147483648"]));
    h.wanted();
    ranked(&mut h, &[("a-M2147483647", Some(5)), ("b-M-2147483648", Some(7))]);
    ranked(&mut h, &[("own-M-2147483647", Some(9))]);
    h.expect(&["Waiting behind b-M-2147483648, 2 ahead", "watch b-M-2147483648"]);
    h.answer("watch b-M-2147483648", ok());
    h.deleted("watch b-M-2147483648");
    h.expect(&["unwatch b-M-2147483648", "list"]);
    h.answer("list", children(&["own-M-2147483647", "a-M2147483647"]));
    // Our own stat comes last: if our node exists, it existed while others were found gone.
    h.expect(&["stat a-M2147483647", "stat own-M-2147483647"]);
    ranked(&mut h, &[("a-M2147483647", None), ("own-M-2147483647", Some(9))]);
    h.expect(&["Acquired own-M-2147483647 token 9", "timer"]);
}

#[test]
fn with_ranks_there_is_no_takeover() {
    // The next contender may have a lower number, and an earlier list does not show its
    // transaction.
    let mut h = enqueued("own-M2147483647", 9);
    h.answer("list", children(&["own-M2147483647", "a-M-2147483648"]));
    h.wanted();
    ranked(&mut h, &[("own-M2147483647", Some(9)), ("a-M-2147483648", Some(5))]);
    h.expect(&["Waiting behind a-M-2147483648, 1 ahead", "watch a-M-2147483648"]);
    h.answer("watch a-M-2147483648", ok());
    h.deleted("watch a-M-2147483648");
    h.expect(&["unwatch a-M-2147483648", "list"]);
}

#[test]
fn a_missing_own_node_fails_the_ranking() {
    let mut h = enqueued("own-M2147483647", 7);
    h.answer("list", children(&["own-M2147483647", "a-M-2147483648"]));
    h.wanted();
    ranked(&mut h, &[("own-M2147483647", None), ("a-M-2147483648", Some(5))]);
    h.expect_last(&["Failed: NodeVanished"]);

    // A different node with the same name.
    let mut h = enqueued("own-M2147483647", 7);
    h.answer("list", children(&["own-M2147483647"]));
    h.wanted();
    ranked(&mut h, &[("own-M2147483647", Some(8))]);
    h.expect_last(&["Failed: NodeVanished"]);
}

#[test]
fn lost_ranks_are_read_again_from_the_list() {
    let mut h = enqueued("own-M2147483647", 7);
    h.answer("list", children(&["own-M2147483647", "a-M-2147483648"]));
    h.wanted();
    ranked(&mut h, &[("own-M2147483647", Some(7))]);
    h.disconnect();
    h.expect(&["list"]);
    h.reconnect();
    h.answer("list", children(&["own-M2147483647"]));
    h.expect(&["stat own-M2147483647"]);
    ranked(&mut h, &[("own-M2147483647", Some(7))]);
    h.expect(&["Acquired own-M2147483647 token 7", "timer"]);
}

#[test]
fn refused_ranks_are_read_again_later_or_never() {
    let mut h = enqueued("own-M2147483647", 7);
    h.answer("list", children(&["own-M2147483647"]));
    h.answer("stat own-M2147483647", refused(ErrorCode::THROTTLED_OP));
    h.expect(&["stat own-M2147483647", "timer"]);
    h.feed(Input::Timer);
    h.expect(&["list"]);
    h.answer("list", children(&["own-M2147483647"]));
    h.answer("stat own-M2147483647", refused(ErrorCode::NO_AUTH));
    h.expect(&["stat own-M2147483647", "Failed: ErrorCode(NO_AUTH)", "delete own-M2147483647"]);
    h.answer("delete own-M2147483647", ok());
    h.expect_last(&[]);
}

#[test]
fn a_release_while_ranking_leaves_nothing() {
    let mut h = enqueued("own-M2147483647", 7);
    h.answer("list", children(&["own-M2147483647"]));
    h.feed(Command::Release);
    h.expect(&["stat own-M2147483647", "delete own-M2147483647"]);
    ranked(&mut h, &[("own-M2147483647", Some(7))]);
    h.answer("delete own-M2147483647", ok());
    h.expect_last(&["Released"]);
}

/// A lock path whose numbers end as on servers since 3.6, and its contenders. Each one that can
/// proceed is served completely before the next.
struct Stub {
    counter: i32,
    /// The numbers assigned to overlapping requests once the numbers are exhausted.
    overlapping: bool,
    zxid: i64,
    nodes: Vec<(String, Zxid)>,
}

impl Stub {
    pub(crate) fn create(&mut self, guid: u128) -> (String, Zxid) {
        self.zxid += 1;
        let number = self.counter;
        self.counter = match number {
            i32::MAX if !self.overlapping => i32::MAX,
            number => number.wrapping_add(1),
        };
        let prefix = PRIVATE.prefix(LockMode::Exclusive, Uuid::from_u128(guid), SESSION);
        let node = (format!("{prefix}{}", SequenceNumber(number)), Zxid(self.zxid));
        self.nodes.push(node.clone());
        node
    }

    pub(crate) fn find(&self, path: &str) -> Option<usize> {
        self.nodes.iter().position(|(name, _)| path.ends_with(name.as_str()))
    }

    pub(crate) fn answer(&mut self, operation: &Operation, guid: u128) -> Result<Reply, Error> {
        operation.with_request(|request| match request {
            Request::Create2(_) => {
                let (name, czxid) = self.create(guid);
                let stat = Stat { czxid, ..Stat::default() };
                let path = format!("/lock/{name}");
                reply(OpCode::CREATE2, &Create2Response { path: &path, stat })
            }
            Request::GetChildren(list) if !list.watch => {
                let names: Vec<_> = self.nodes.iter().map(|(name, _)| name.as_str()).collect();
                reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
            }
            Request::GetChildren(watch) => {
                self.find(watch.path).map_or(refused(ErrorCode::NO_NODE), |_| ok())
            }
            Request::Exists(exists) => match self.find(exists.path) {
                Some(place) => stat_at(SESSION, self.nodes[place].1),
                None => refused(ErrorCode::NO_NODE),
            },
            Request::Delete(delete) => match self.find(delete.path) {
                Some(place) => {
                    self.nodes.remove(place);
                    ok()
                }
                None => refused(ErrorCode::NO_NODE),
            },
            request => panic!("{request:?}"),
        })
    }
}

/// Returns the tokens of this many contenders in the order in which they hold and release the lock.
fn take_turns(contenders: usize, mut stub: Stub) -> Vec<i64> {
    let mut machines: Vec<_> = (0..contenders)
        .map(|number| {
            let guid = Uuid::from_u128(number as u128);
            let config = AttemptConfig::of_node("/lock".into(), PRIVATE, guid, SESSION);
            Driven::new(Contender::new(config))
        })
        .collect();
    let mut watches: Vec<(usize, OpId, String)> = Vec::new();
    let mut turns = Vec::new();
    let mut holder = None;
    for _ in 0..contenders * contenders * 10 {
        for (number, machine) in machines.iter_mut().enumerate() {
            while let Some(output) = machine.poll_output() {
                match output {
                    Output::Submit { op, operation } => {
                        let result = stub.answer(&operation, number as u128);
                        if operation.watches() && result.is_ok() {
                            watches.push((number, op, operation.path().to_string()));
                        }
                        machine.handle(Input::Reply { tag: op.tag(), result });
                    }
                    Output::Event(Event::Acquired { token, .. }) => {
                        assert_eq!(holder.replace(number), None, "two hold the lock");
                        turns.push(token.0);
                    }
                    Output::Event(Event::Failed(error)) => panic!("{error}"),
                    _ => {}
                }
            }
        }
        if let Some(number) = holder.take() {
            machines[number].handle(Command::Release);
            while let Some(output) = machines[number].poll_output() {
                if let Output::Submit { op, operation } = output {
                    let result = stub.answer(&operation, number as u128);
                    machines[number].handle(Input::Reply { tag: op.tag(), result });
                }
            }
        }
        for (number, op, _) in watches.extract_if(.., |(.., path)| stub.find(path).is_none()) {
            machines[number].handle(fired(op, EventType::NODE_DELETED));
        }
    }
    assert!(machines.iter().all(|machine| machine.is_done()), "somebody waits for ever");
    turns
}

#[test]
fn contenders_with_exhausted_numbers_hold_in_the_order_of_creation() {
    for overlapping in [false, true] {
        let counter = i32::MAX - 2;
        let stub = Stub { counter, overlapping, zxid: 0, nodes: Vec::new() };
        assert_eq!(take_turns(8, stub), (1..=8).collect::<Vec<_>>());
    }
}

#[test]
fn shared_schemes_fail_closed() {
    for scheme in [
        Scheme::CURATOR_MUTEX,
        Scheme::CURATOR_READ_WRITE,
        Scheme::CURATOR_LEADER,
        Scheme::GO_ZK,
        Scheme::KAZOO_MUTEX,
        Scheme::KAZOO_READ_WRITE,
        Scheme::ZOOKEEPER_RECIPE,
    ] {
        let guid = Uuid::from_u128(OWN);
        let config = AttemptConfig::of_node("/lock".into(), scheme, guid, SESSION);
        let mut contender = Driven::new(Contender::new(config));
        let ops: Vec<_> = core::iter::from_fn(|| contender.poll_output())
            .filter_map(|output| match output {
                Output::Submit { op, .. } => Some(op),
                _ => None,
            })
            .collect();
        let own = scheme.prefix(LockMode::Exclusive, guid, SESSION);
        let own = format!("{own}2147483647");
        let path = format!("/lock/{own}");
        let stat = Stat { czxid: Zxid(7), ephemeral_owner: SESSION, ..Stat::default() };
        let result = reply(OpCode::CREATE2, &Create2Response { path: &path, stat });
        contender.handle(Input::Reply { tag: ops[0].tag(), result });
        let names = [own.as_str()];
        let children = GetChildrenResponse { children: names[..].into() };
        let result = reply(OpCode::GET_CHILDREN, &children);
        contender.handle(Input::Reply { tag: ops[1].tag(), result });
        let mut outputs = core::iter::from_fn(|| contender.poll_output());
        let failed = Output::Event(Event::Failed(LockError::SequenceExhausted));
        assert!(outputs.any(|output| output == failed), "{scheme:?}");
    }
}

/// Its pieces are not kept, so there are no names to ask about.
#[test]
fn a_list_in_pieces_is_not_ranked() {
    let mut h = enqueued("own-M2147483647", 7);
    let list = children(&["own-M2147483647", "a-M-2147483648"]).expect("a list");
    h.answer_in_pieces("list", &list, 40);
    assert_eq!(h.wanted()[0], "Failed: SequenceExhausted");
}
