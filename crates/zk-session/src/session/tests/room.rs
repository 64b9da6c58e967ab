//! Back-pressure.

use super::*;

fn refused(h: &mut Harness, request: &Request<'_>) {
    assert!(!h.session.has_room());
    let refusal = h.session.submit(request, 99);
    assert!(matches!(refusal, Err(Error::Invalid(Invalid::QueueFull { .. }))), "{refusal:?}");
}

fn rooms(h: &mut Harness) -> usize {
    h.events().iter().filter(|event| matches!(event, Event::Room)).count()
}

#[test]
fn who_was_refused_for_want_of_room_is_told_once_there_is_some() {
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
fn room_comes_with_whatever_makes_it() {
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
fn bytes_that_wait_to_be_sent_take_room_too() {
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
fn there_is_no_room_in_a_session_that_has_ended() {
    let mut h = Harness::with(Config { max_pending: 1, ..Config::new(1, 0) });
    h.sync(1);
    refused(&mut h, &SYNC);
    h.session.close();
    assert_eq!(rooms(&mut h), 0);
    assert!(!h.session.has_room());
}

#[test]
fn a_refusal_names_the_limit_that_is_reached() {
    let mut h = Harness::with(Config { max_unsent: 1, max_pending: 2, ..Config::new(1, 0) });
    h.connect();
    h.sync(1);
    let refused = |limit| Err(Error::Invalid(Invalid::QueueFull { limit }));
    assert_eq!(h.session.submit(&SYNC, 9), refused(1));
    h.sent();
    h.sync(2);
    assert_eq!(h.session.submit(&SYNC, 9), refused(2));
}
