//! Back-pressure.

use super::*;

fn refused(h: &mut Harness, request: &Request<'_>) {
    assert!(!h.session.has_room());
    let refusal = h.session.submit(request, 99);
    assert!(refusal.as_ref().is_err_and(Error::is_full), "{refusal:?}");
}

fn rooms(h: &mut Harness) -> usize {
    h.events().iter().filter(|event| matches!(event, Event::Room)).count()
}

#[test]
fn room_is_reported_once_after_a_refusal() {
    let mut h = Harness::with(Config { max_pending: 2, ..Config::new(1, 0) });
    h.connect();
    assert!(h.session.has_room());
    h.sync(1);
    h.sync(2);
    refused(&mut h, &SYNC);
    refused(&mut h, &SYNC);
    h.sent();
    assert_eq!(rooms(&mut h), 0);
    h.reply(1, 1, ErrorCode::OK);
    assert!(h.session.has_room());
    assert_eq!(rooms(&mut h), 1);
    h.reply(2, 1, ErrorCode::OK);
    assert_eq!(rooms(&mut h), 0, "nobody was refused since");
}

#[test]
fn everything_that_makes_room_reports_it() {
    type Make = fn(&mut Harness);
    let ways: [Make; 3] = [
        |h| {
            h.sent();
            h.disconnect();
        },
        |h| h.advance(ms(100)),
        |h| {
            h.take_all();
            h.reply(1, 1, ErrorCode::OK);
        },
    ];
    for make in ways {
        let mut h = Harness::with(Config { max_pending: 1, ..Config::new(1, 0) });
        h.connect();
        h.session.submit_until(&SYNC, 1, h.now + ms(100)).expect("it is taken");
        refused(&mut h, &SYNC);
        make(&mut h);
        assert_eq!(rooms(&mut h), 1);
        h.sync(2);
    }
}

#[test]
fn unsent_bytes_take_room_too() {
    let mut h = Harness::with(Config { max_unsent: 100, ..Config::new(1, 0) });
    h.connect();
    let long = "/".to_string() + &"x".repeat(200);
    h.submit(&create(&long), 1); // One is always taken, however long.
    refused(&mut h, &SYNC);
    h.sent();
    assert_eq!(rooms(&mut h), 1);
    h.sync(2);
}

#[test]
fn an_ended_session_has_no_room() {
    let mut h = Harness::with(Config { max_pending: 1, ..Config::new(1, 0) });
    h.sync(1);
    refused(&mut h, &SYNC);
    h.session.close();
    assert_eq!(rooms(&mut h), 0);
    assert!(!h.session.has_room());
}

#[test]
fn a_refusal_names_the_reached_limit() {
    let mut h = Harness::with(Config { max_unsent: 1, max_pending: 2, ..Config::new(1, 0) });
    h.connect();
    h.sync(1);
    assert_eq!(h.session.submit(&SYNC, 9), Err(Error::BufferFull { limit: 1 }));
    h.sent();
    h.sync(2);
    assert_eq!(h.session.submit(&SYNC, 9), Err(Error::QueueFull { limit: 2 }));
}

#[test]
fn removals_of_dropped_watches_take_no_room_from_callers() {
    let limits = [
        Config { max_pending: 10, ..Config::new(1, 0) },
        Config { max_unsent: 100, ..Config::new(1, 0) },
    ];
    for config in limits {
        let mut h = Harness::with(config);
        h.connect();
        let path = |n: usize| alloc::format!("/{n}");
        let watches: Vec<_> =
            (0..90).map(|n| h.watch(&get_data(&path(n)), ErrorCode::OK)).collect();
        for watch in watches {
            h.session.unwatch(watch);
        }
        assert_eq!(h.session.pending(), 0);
        h.sync(1);
        let sent = h.sent();
        assert_eq!(sent.len(), 91);
        h.sync(2);
        for sent in sent {
            h.reply(sent.xid.0, 1, ErrorCode::OK);
        }
        assert_eq!(h.session.pending(), 1);
    }
}

#[test]
fn pings_and_credentials_take_room_at_most_once() {
    let mut h = Harness::with(Config { max_pending: 2, ..Config::new(1, 0) });
    h.connect();
    h.sleep();
    assert_eq!(h.session.pending(), 0, "a ping is under way");
    h.session.add_auth("digest", b"a:b", 1).expect("there is room");
    assert_eq!(h.session.pending(), 1);
    h.sync(2);
    refused(&mut h, &SYNC);
    h.sent();
    h.reply(Xid::AUTH.0, 0, ErrorCode::OK);
    h.sync(3);
}

/// The count of pending requests is right, however they end.
#[test]
fn room_is_freed_however_a_request_ends() {
    let mut h = Harness::with(Config { max_pending: 4, max_unsent: 1 << 10, ..Config::new(1, 0) });
    let deadline = h.now + ms(100);
    h.session.submit_until(&SYNC, 1, deadline).expect("there is room");
    h.advance(ms(100)); // late while unsent
    assert_eq!(h.session.outbox.callers_bytes, 0);
    h.connect();
    let deadline = h.now + ms(100);
    h.session.submit_until(&SYNC, 2, deadline).expect("there is room");
    h.session.submit_until(&SYNC, 3, deadline).expect("there is room");
    h.take(3);
    h.advance(ms(100)); // late when begun, and while unsent
    assert_eq!(h.session.pending(), 1);
    h.disconnect();
    assert_eq!(h.session.pending(), 0);
    h.submit(&exists("/another/kind"), 4);
    h.connect();
    for _ in 0..3 {
        h.take(1);
        h.disconnect();
        h.connect(); // at last given up as undeliverable
    }
    assert_eq!((h.session.pending(), h.session.outbox.callers_bytes), (0, 0));
    h.sync(5);
    h.sent();
    h.sync(6);
    h.disconnect(); // one in flight, one unsent
    assert_eq!(h.session.pending(), 1);
    h.session.close();
    assert_eq!(h.session.pending(), 0);
}

#[test]
fn a_small_session_has_small_limits() {
    let Config { max_request, max_reply, max_pending, max_unsent, max_kept, .. } =
        Config::small(1, 0);
    assert_eq!((max_request, max_reply, max_unsent), (1 << 10, 1 << 10, 1 << 10));
    assert_eq!((max_pending, max_kept), (8, 0));
}

#[test]
fn an_empty_queue_keeps_so_many_bytes() {
    let kept = |max_kept| {
        let mut queue = ShortQueue::<u64>::new();
        queue.reserve_exact(16);
        queue.shrink(max_kept);
        queue.capacity()
    };
    assert_eq!([kept(16 * 8), kept(16 * 8 - 1)], [16, 0]);
}

#[test]
fn empty_buffers_keep_no_more_than_the_settings_say() {
    let kept = |config: Config| {
        let mut h = Harness::with(config);
        h.connect();
        for round in 0..4 {
            for token in 0..8 {
                h.submit(&create("/a"), token);
            }
            h.take_all();
            h.answer_all();
            assert_eq!(h.events().len(), 8 + usize::from(round == 0));
        }
        h.advance(ms(3_000));
        h.take_all();
        h.reply(Xid::PING.0, 0, ErrorCode::OK);
        h.session.kept()
    };
    assert_eq!(kept(Config::small(1, 0)), 0);
    assert!(kept(Config::new(1, 0)) > 8, "larger ones are there for the next burst");
}

#[test]
fn no_limit_refuses_the_only_request() {
    for (max_pending, max_unsent) in [(0, 1 << 10), (8, 0), (0, 0)] {
        let mut h = Harness::with(Config { max_pending, max_unsent, ..Config::new(1, 0) });
        h.connect();
        h.sync(1);
        refused(&mut h, &SYNC);
        h.sent();
        h.reply(1, 1, ErrorCode::OK);
        h.sync(2);
    }
}
