//! Servers that close the connection at a request.

use super::*;

const LONG: &str = "/too/long/for/them";
const FINE: &str = "/fine";

fn refused(path: &str) -> Error {
    let length = outbox::request_length(&create(path));
    Error::Undeliverable { opcode: OpCode::CREATE2, length }
}

/// What a lock does after each loss: it looks for its node, and then creates it again. The server
/// closes the connection at the second request.
fn strike(h: &mut Harness) {
    h.connect();
    h.sync(0);
    h.answer_all();
    h.submit(&create(LONG), 1);
    h.sent();
    h.disconnect();
    assert_eq!(h.answers(), [(0, None), unknown(1)]);
}

#[test]
fn a_request_repeated_after_it_has_ended_three_connections_fails() {
    let mut h = Harness::new(3);
    for _ in 0..3 {
        assert_eq!(h.session.refusal(OpCode::CREATE2, outbox::request_length(&create(LONG))), None);
        strike(&mut h);
    }
    h.connect();
    assert_eq!(h.session.submit(&create(LONG), 1), Err(refused(LONG)));
    // Each repetition of the request fails. Other requests do not.
    assert_eq!(h.session.submit(&create(LONG), 2), Err(refused(LONG)));
    h.submit(&create(FINE), 3);
    h.submit(&exists(LONG), 4);
    h.answer_all();
    assert_eq!(h.answers(), [(3, None), (4, None)]);
    // The connection is of use, and the servers may have changed their mind.
    h.advance(ms(2_000));
    h.answer_all();
    h.submit(&create(LONG), 5);
    h.answer_all();
    assert_eq!(h.answers(), [(5, None)]);
}

#[test]
fn a_request_is_not_blamed_for_connections_that_end_otherwise() {
    type Fault = fn(&mut Harness);
    let faults: [(&str, Fault); 5] = [
        ("answered meanwhile", |h| {
            h.connect();
            h.submit(&create(LONG), 7);
            h.answer_all();
            h.events();
        }),
        ("of use meanwhile", |h| {
            h.connect();
            h.be_of_use();
        }),
        ("ended without it", |h| {
            h.connect();
            h.disconnect();
        }),
        ("long without a reply", |h| {
            h.connect();
            h.submit(&create(LONG), 7);
            h.sent();
            h.advance(ms(1_900));
            h.disconnect();
        }),
        ("silent", |h| {
            h.connect();
            h.submit(&create(LONG), 7);
            h.sent();
            h.advance(ms(1_999));
            h.advance(ms(2_100));
            assert_eq!(h.cause(), Some(Cause::ReadTimeout));
        }),
    ];
    for (name, fault) in faults {
        let mut h = Harness::new(3);
        for _ in 0..10 {
            strike(&mut h);
            strike(&mut h);
            fault(&mut h);
            h.events();
        }
        assert!(h.session.submit(&create(LONG), 1).is_ok(), "{name}");
    }
}

#[test]
fn attempts_that_fail_in_between_prove_nothing() {
    let mut h = Harness::new(1);
    for _ in 0..3 {
        strike(&mut h);
        for _ in 0..2 {
            h.reach();
            h.disconnect();
            h.events();
        }
    }
    assert_eq!(h.session.submit(&create(LONG), 1), Err(refused(LONG)));
}

/// The server has processed neither those behind the request, nor answered those before it.
#[test]
fn requests_in_flight_with_it_are_not_blamed() {
    let mut h = Harness::new(3);
    for round in 0..3 {
        h.connect();
        h.sync(0);
        h.answer_all();
        if round == 1 {
            h.submit(&exists("/before"), 1);
        }
        h.submit(&create(LONG), 2);
        h.submit(&create(FINE), 3);
        h.sent();
        h.disconnect();
        h.events();
    }
    assert_eq!(h.session.submit(&create(LONG), 2), Err(refused(LONG)));
    h.submit(&create(FINE), 3);
    h.submit(&exists("/before"), 1);
}

#[test]
fn a_request_that_was_sent_in_part_or_completely_fails_after_three() {
    let mut h = Harness::new(2);
    strike(&mut h);
    h.submit(&create(LONG), 2);
    for _ in 0..2 {
        assert_eq!(h.answers(), []);
        h.connect();
        h.take(10);
        h.disconnect();
    }
    assert_eq!(h.answers(), [(2, Some(refused(LONG)))]);
}

/// Loses connections that the server has closed this long after each handshake and one reply.
/// Returns how many there were in so many seconds.
fn lose(servers: usize, seconds: u64, after: Duration) -> usize {
    let mut h = Harness::new(servers);
    let end = h.now + ms(seconds * 1_000);
    let mut count = 0;
    while h.now < end {
        h.connect();
        h.sync(0);
        h.answer_all();
        h.advance(after);
        h.answer_all();
        h.disconnect();
        h.events();
        count += 1;
    }
    count
}

#[test]
fn the_delay_grows_while_connections_are_of_no_use() {
    for servers in [1, 3] {
        let count = lose(servers, 10, ms(1));
        assert!((7..25).contains(&count), "{servers} servers: {count}");
        // They serve for longer than a ping interval.
        let count = lose(servers, 100, ms(2_000));
        assert!((48..=50).contains(&count), "{servers} servers: {count}");
    }
}

/// However many connections were lost in a row, the delay is a quarter of the lease at most.
#[test]
fn the_delay_after_a_loss_leaves_most_of_the_lease() {
    for seed in 0..20 {
        let mut h = Harness::with(Config::new(3, seed));
        for _ in 0..30 {
            h.connect();
            let left = h.session.lease().expect("it lives") - h.now;
            h.disconnect();
            let delay = h.session.poll_timeout().expect("it retries") - h.now;
            assert!(delay <= left / 4, "{delay:?} of {left:?}");
        }
    }
}

/// Where longer requests were answered, only the operation may be lacking, and it is not if the
/// server answers another request with it.
#[test]
fn a_request_is_not_blamed_where_a_longer_one_and_its_operation_were_answered() {
    let mut h = Harness::new(3);
    h.connect();
    h.submit(&exists(&"/long".repeat(100)), 0);
    h.answer_all();
    h.events();
    h.disconnect();
    for _ in 0..5 {
        h.connect();
        h.submit(&create(FINE), 1);
        h.answer_all();
        h.submit(&create(LONG), 2);
        h.sent();
        h.disconnect();
        h.events();
    }
    h.connect();
    assert!(h.session.submit(&create(LONG), 1).is_ok());
}

/// Connects to a Keeper, with a new session.
fn connect_to_keeper(h: &mut Harness) {
    h.reach();
    h.handshake();
    h.deliver(&ConnectResponse {
        protocol_version: 0,
        timeout: GRANTED,
        session_id: SessionId(7),
        password: Some(&NO_PASSWORD[..]),
        read_only: None,
    });
}

/// An early Keeper ends the session at `create2`.
#[test]
fn an_operation_that_a_keeper_lacks_is_refused_at_any_length_and_for_good() {
    let mut h = Harness::new(1);
    for path in [FINE, LONG, "/another"] {
        connect_to_keeper(&mut h);
        // Not blamed, although it is older.
        h.submit(&exists("/a"), 1);
        h.submit(&create(path), 2);
        h.sent();
        h.disconnect();
        h.events();
    }
    connect_to_keeper(&mut h);
    let refusal = |h: &mut Harness| h.session.submit(&create(FINE), 2).expect_err("refused");
    let error = refusal(&mut h);
    assert_eq!(error.code(), Some(ErrorCode::UNIMPLEMENTED));
    assert_eq!(
        alloc::format!("{error}"),
        "the server does not support CREATE2, which needs ZooKeeper or a newer ClickHouse Keeper"
    );
    h.submit(&exists("/a"), 1);
    h.be_of_use();
    assert_eq!(refusal(&mut h), error, "it stays so");
}

#[test]
fn beside_an_operation_that_a_keeper_lacks_no_other_is_blamed() {
    let mut h = Harness::new(1);
    for paths in [&[LONG][..], &[FINE, LONG], &[FINE, LONG]] {
        connect_to_keeper(&mut h);
        if let [path, LONG] = paths {
            h.submit(&create(path), 1);
        }
        h.submit(&exists(LONG), 2);
        h.sent();
        h.disconnect();
        h.events();
    }
    connect_to_keeper(&mut h);
    h.submit(&exists(LONG), 2);
}
