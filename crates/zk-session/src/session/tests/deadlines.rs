use super::*;

const NOT_APPLIED: Error = Error::DeadlinePassed { outcome: Outcome::NotApplied };
const UNKNOWN: Error = Error::DeadlinePassed { outcome: Outcome::Unknown };

fn until(h: &mut Harness, request: &Request<'_>, token: u32, timeout: u64) -> RequestId {
    let deadline = h.now + ms(timeout);
    h.session.submit_until(request, token, deadline).expect("the session takes requests")
}

#[test]
fn a_request_whose_deadline_passes_before_it_is_sent_is_never_sent() {
    let mut h = Harness::connected();
    h.sync(1);
    until(&mut h, &create("/late"), 2, 100);
    h.sync(3);
    until(&mut h, &create("/longer/late"), 4, 50);
    until(&mut h, &create("/in/time"), 5, 200);
    h.advance(ms(99));
    assert_eq!(h.answers(), [(4, Some(NOT_APPLIED))]);
    h.advance(ms(1));
    assert_eq!(h.answers(), [(2, Some(NOT_APPLIED))]);
    let sent = h.sent();
    let sent: Vec<_> = sent.iter().map(Sent::request).collect();
    assert_eq!(sent, [SYNC, SYNC, create("/in/time")]);
    for xid in [1, 3, 5] {
        h.reply(xid, 1, ErrorCode::OK);
    }
    assert_eq!(h.answers(), [(1, None), (3, None), (5, None)]);
    assert_eq!(NOT_APPLIED.outcome(), Outcome::NotApplied);
}

#[test]
fn a_request_late_in_flight_is_unknown_at_once_and_its_reply_is_skipped_in_order() {
    let mut h = Harness::connected();
    h.sync(1);
    until(&mut h, &SYNC, 2, 100);
    h.sync(3);
    h.sent();
    h.advance(ms(100));
    assert_eq!(h.answers(), [(2, Some(UNKNOWN))]);
    assert_eq!(UNKNOWN.outcome(), Outcome::Unknown);
    assert_eq!(h.session.pending(), 3, "its answer is still due");
    for xid in [1, 2, 3] {
        h.reply(xid, 5, ErrorCode::OK);
    }
    assert_eq!(h.answers(), [(1, None), (3, None)]);
    assert_eq!((h.session.pending(), h.actions()), (0, Vec::new()));
}

#[test]
fn requests_in_flight_are_late_one_after_the_other() {
    let mut h = Harness::connected();
    for token in 1..=3 {
        until(&mut h, &SYNC, token, u64::from(token) * 100);
    }
    h.sent();
    for token in 1..=3 {
        assert_eq!(h.sleep(), ms(100));
        assert_eq!(h.answers(), [(token, Some(UNKNOWN))]);
    }
}

#[test]
fn many_requests_are_not_looked_through_for_each_that_is_late() {
    const COUNT: u32 = 10_000;
    for is_sent in [false, true] {
        let mut h = Harness::connected();
        for token in 0..COUNT {
            let deadline = h.now + Duration::from_micros(token.into());
            h.session.submit_until(&SYNC, token, deadline).expect("there is room");
        }
        if is_sent {
            h.take_all();
        }
        let (begun, mut late, mut looks) = (h.now, Vec::new(), 0);
        while late.len() < COUNT as usize {
            h.sleep();
            late.extend(h.answers().into_iter().map(|(token, _)| token));
            looks += 1;
        }
        assert!(late.is_sorted() && looks < 100, "{looks}");
        assert!(h.now - begun < ms(12), "{:?}", h.now - begun);
    }
}

#[test]
fn a_late_request_that_is_half_written_is_completed_but_not_sent_again() {
    for cut in [false, true] {
        let mut h = Harness::connected();
        until(&mut h, &SYNC, 1, 100);
        h.sync(2);
        h.take(5);
        h.advance(ms(100));
        assert_eq!(h.answers(), [(1, Some(UNKNOWN))]);
        if cut {
            h.disconnect();
            h.connect();
            assert_eq!(h.sent_xids(), [2]);
            continue;
        }
        assert_eq!(h.sent_xids(), [1, 2]);
        h.reply(1, 1, ErrorCode::OK);
        h.reply(2, 1, ErrorCode::OK);
        assert_eq!(h.answers(), [(2, None)]);
    }
}

#[test]
fn a_request_answered_in_time_is_not_answered_again() {
    let mut h = Harness::connected();
    until(&mut h, &SYNC, 1, 100);
    h.answer_all();
    h.advance(ms(200));
    assert_eq!(h.answers(), [(1, None)]);
    until(&mut h, &SYNC, 2, 100);
    h.sent();
    h.disconnect();
    h.advance(ms(200));
    assert_eq!(h.answers(), [unknown(2)]);
}

#[test]
fn deadlines_also_pass_without_a_connection() {
    let mut h = Harness::new(1);
    until(&mut h, &SYNC, 1, 100);
    h.sync(2);
    assert!(h.session.poll_timeout() <= Some(h.now + ms(100)));
    h.advance(ms(100));
    assert_eq!(h.answers(), [(1, Some(NOT_APPLIED))]);
    h.connect();
    assert_eq!(h.sent_xids(), [2]);
}

#[test]
fn a_deadline_in_the_past_passes_at_the_next_timeout() {
    let mut h = Harness::connected();
    h.session.submit_until(&SYNC, 1, Instant::START).expect("it is taken");
    assert!(h.session.poll_timeout() <= Some(h.now));
    h.session.handle_timeout(h.now);
    assert_eq!(h.answers(), [(1, Some(NOT_APPLIED))]);
    assert!(h.session.poll_timeout() > Some(h.now));
    h.session.submit_until(&SYNC, 2, Instant::END).expect("it is taken");
    h.answer_all();
    assert_eq!(h.answers(), [(2, None)]);
}

#[test]
fn the_watch_of_a_late_request_is_dropped() {
    for in_flight in [false, true] {
        let mut h = Harness::connected();
        until(&mut h, &get_data("/a"), 1, 100);
        if in_flight {
            h.sent();
        }
        h.advance(ms(100));
        h.answers();
        let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
        if in_flight {
            assert_eq!(opcodes, [OpCode::REMOVE_WATCHES]);
            h.reply(1, 1, ErrorCode::OK);
        } else {
            assert_eq!(opcodes, []);
        }
        assert!(h.session.watches.is_empty(), "{:?}", h.session.watches);
    }
}

#[test]
fn nothing_is_stored_for_the_watch_of_a_late_request_that_was_cut_off() {
    let mut h = Harness::connected();
    until(&mut h, &get_data("/a"), 1, 100);
    h.take(5);
    h.advance(ms(100));
    h.disconnect();
    assert!(h.session.watches.is_empty(), "{:?}", h.session.watches);
    h.connect();
    assert_eq!(h.sent(), []);
}

#[test]
fn a_watch_kept_only_for_a_late_request_is_removed() {
    let mut h = Harness::connected();
    let first = h.watch(&get_data("/a"), ErrorCode::OK);
    until(&mut h, &get_data("/a"), 1, 100);
    h.session.unwatch(first);
    h.advance(ms(100));
    let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
    assert_eq!(opcodes, [OpCode::REMOVE_WATCHES]);
    assert!(h.session.watches.is_empty(), "{:?}", h.session.watches);
}

/// Whichever requests are late, the others reach the server complete and in order.
#[test]
fn removing_late_requests_leaves_the_others_intact() {
    for late in 0..1 << 6 {
        for taken in [0, 3] {
            let mut h = Harness::connected();
            let path = |n: u32| alloc::format!("/{n}{}", "x".repeat(n as usize * 3));
            for n in 0..6 {
                let timeout = if late & (1 << n) != 0 { 10 } else { 1_000 };
                until(&mut h, &create(&path(n)), n, timeout);
            }
            h.take(taken);
            h.advance(ms(10));
            let failed: Vec<u32> = h.answers().iter().map(|(token, _)| *token).collect();
            let expected: Vec<u32> = (0..6).filter(|n| late & (1 << n) != 0).collect();
            assert_eq!(failed, expected);
            let sent = h.sent();
            let sent: Vec<_> = sent.iter().map(Sent::request).collect();
            let left: Vec<String> = (0..6)
                .filter(|n| late & (1 << n) == 0 || (*n == 0 && taken > 0))
                .map(path)
                .collect();
            let left: Vec<_> = left.iter().map(|path| create(path)).collect();
            assert_eq!(sent, left, "{late:b}");
        }
    }
}

fn disconnect_timed_out() -> Harness {
    Harness::with(Config { disconnect_timeout: Some(ms(3_000)), ..Config::new(1, 0) })
}

/// Advances the clock while every attempt to connect fails.
fn wait_in_vain(h: &mut Harness, millis: u64) {
    let end = h.now + ms(millis);
    while h.now < end {
        let due = h.session.poll_timeout().expect("something is due").min(end);
        h.advance(due - h.now);
        if h.actions().iter().any(|action| matches!(action, Action::Connect(_))) {
            h.disconnect();
        }
    }
}

#[test]
fn after_the_disconnect_timeout_waiting_requests_fail_and_new_ones_are_refused() {
    let mut h = disconnect_timed_out();
    h.sync(1);
    wait_in_vain(&mut h, 2_999);
    h.sync(2);
    assert_eq!(h.answers(), []);
    wait_in_vain(&mut h, 1);
    let failed = |token| (token, Some(Error::NoConnection));
    assert_eq!(h.answers(), [failed(1), failed(2)]);
    assert_eq!(h.session.submit(&SYNC, 3), Err(Error::NoConnection));
    assert_eq!(Error::NoConnection.outcome(), Outcome::NotApplied);
    h.connect();
    h.sync(4);
    assert_eq!(h.sent_xids(), [3]);
}

#[test]
fn the_disconnect_timeout_starts_again_with_every_loss() {
    let mut h = disconnect_timed_out();
    h.connect();
    for _ in 0..4 {
        for _ in 0..4 {
            h.advance(ms(1_000));
            h.sent();
            h.reply(Xid::PING.0, 1, ErrorCode::OK);
        }
        h.sync(1);
        h.sent();
        h.disconnect();
        h.sync(2);
        wait_in_vain(&mut h, 1_500);
        h.connect();
        assert_eq!(h.answers(), [unknown(1)]);
        h.answer_all();
        assert_eq!(h.answers(), [(2, None)]);
    }
}

#[test]
fn there_is_no_disconnect_timeout_by_default() {
    let mut h = Harness::new(1);
    h.sync(1);
    wait_in_vain(&mut h, 10_000_000);
    h.connect();
    assert_eq!(h.sent_xids(), [1]);
}

#[test]
fn an_attempt_to_connect_outlives_the_deadlines_of_requests() {
    let mut h = Harness::connected();
    h.sync(0);
    h.answer_all();
    h.answers();
    h.session.handle_disconnected(h.now);
    h.advance(ms(50));
    assert_eq!(h.actions(), [Action::Connect(0)]);
    // A fraction of the granted timeout, because there is a session to save.
    let share = ms(GRANTED as u64 / 4);
    let deadline = h.now + share;
    until(&mut h, &SYNC, 1, 20);
    assert_eq!(h.session.connect_deadline(), Some(deadline));
    h.advance(ms(20));
    assert_eq!(h.answers(), [(1, Some(NOT_APPLIED))]);
    assert_eq!((h.actions(), h.session.stage()), (Vec::new(), Some(Stage::Connecting)));
    assert_eq!(h.session.connect_deadline(), Some(deadline));
    h.session.handle_connected(h.now);
    assert_eq!(h.session.connect_deadline(), Some(h.now + share * 2), "and for the handshake");
}

/// A tenth of a second, which divides all time below.
const TICK: Duration = ms(100);

/// The time without a frame that ends a connection.
const SILENCE: Duration = ms(GRANTED as u64 * 2 / 3);

/// Advances the clock in ticks until the connection ends, at most for `time`. Returns the time that
/// passed.
fn until_the_end(h: &mut Harness, time: Duration, mut tick: impl FnMut(&mut Harness)) -> Duration {
    let start = h.now;
    while h.now - start < time && h.session.is_connected() {
        h.advance(TICK);
        tick(h);
    }
    h.now - start
}

#[test]
fn a_reply_that_takes_longer_than_the_read_timeout_keeps_the_connection_but_no_lease() {
    // Of a link of 20 kB/s.
    for (bytes, ends) in [(2_000, None), (106, None), (102, Some(SILENCE)), (0, Some(SILENCE))] {
        let mut h = Harness::connected();
        h.sync(1);
        h.take_all();
        let lease = h.session.lease_end();
        let passed = until_the_end(&mut h, 10 * SILENCE, |h| {
            h.session.handle_received(h.now, bytes);
            h.take_all();
        });
        assert_eq!(passed, ends.unwrap_or(10 * SILENCE), "{bytes} bytes a tick");
        assert_eq!(h.session.lease_end(), lease);
        assert_eq!(h.session.lease_has_ended(h.now), passed > SILENCE);
        if ends.is_none() {
            h.reply(1, 1, ErrorCode::OK);
            assert_eq!(h.answers(), [(1, None)]);
        }
    }
}

/// Otherwise the session could not end.
#[test]
fn bytes_do_not_keep_a_connection_that_closes() {
    let mut h = Harness::connected();
    h.session.close();
    h.take_all();
    let passed = until_the_end(&mut h, 10 * SILENCE, |h| h.session.handle_received(h.now, 1 << 20));
    assert_eq!(passed, SILENCE);
}

/// Lets the transport take as many bytes, if there are.
fn take_some(h: &mut Harness, bytes: usize) {
    let bytes = bytes.min(h.session.output().len());
    if bytes > 0 {
        h.take(bytes);
    }
}

/// Submits a request with a megabyte of data.
fn submit_a_megabyte(h: &mut Harness, token: u32) {
    let data = alloc::vec![7; 1_000_000];
    let body = zk_proto::SetDataRequest { path: "/long", data: Some(&data), version: -1 };
    h.submit(&Request::SetData(body), token);
}

#[test]
fn a_request_that_takes_longer_than_the_read_timeout_keeps_the_connection() {
    // The link takes 100 kB/s, or trickles, or carries nothing any more.
    for (bytes, ends) in [(10_000, None), (102, Some(SILENCE)), (0, Some(SILENCE))] {
        let mut h = Harness::connected();
        submit_a_megabyte(&mut h, 1);
        h.take(1_000);
        let passed = until_the_end(&mut h, ms(10_000), |h| {
            take_some(h, bytes);
        });
        assert_eq!(passed, ends.unwrap_or(ms(10_000)), "{bytes} bytes a tick");
        if ends.is_none() {
            h.take_all();
            h.reply(1, 1, ErrorCode::OK);
            assert_eq!(h.answers(), [(1, None)]);
        }
    }
}

/// The system may hold all of it, on a link that needs longer than the read timeout for that.
#[test]
fn a_request_that_a_transport_takes_at_once_has_more_time() {
    let most = ms(GRANTED as u64 * 5 / 6);
    let mut h = Harness::connected();
    submit_a_megabyte(&mut h, 1);
    h.take(h.session.output().len());
    assert_eq!(until_the_end(&mut h, 10 * SILENCE, |_| {}), most);
    // More of them do not keep a dead connection.
    let mut h = Harness::connected();
    submit_a_megabyte(&mut h, 1);
    h.take(h.session.output().len());
    let passed = until_the_end(&mut h, 10 * SILENCE, |h| {
        if h.session.is_connected() {
            submit_a_megabyte(h, 2);
            h.take(h.session.output().len());
        }
    });
    assert_eq!(passed, most);
}

#[test]
fn a_server_that_takes_requests_and_never_answers_is_left() {
    let mut h = Harness::connected();
    h.sync(0);
    submit_a_megabyte(&mut h, 1);
    submit_a_megabyte(&mut h, 2);
    h.take(1_000);
    let passed = until_the_end(&mut h, 10 * SILENCE, |h| take_some(h, 10_000));
    assert_eq!((passed, h.cause()), (SILENCE, Some(Cause::ReadTimeout)));
}

/// A burst fills the transport of a dead connection once, in any number of writes.
#[test]
fn requests_in_a_dead_connection_do_not_keep_it() {
    let mut h = Harness::connected();
    for token in 0..10_000 {
        h.sync(token);
    }
    h.take(30);
    let passed = until_the_end(&mut h, 10 * SILENCE, |h| {
        let _ = h.session.submit(&SYNC, 20);
        take_some(h, 4_096);
    });
    assert_eq!((passed, h.cause()), (SILENCE, Some(Cause::ReadTimeout)));
}

/// At 10 kB/s, a request with all of them would take longer than the session timeout, in which the
/// server would hear nothing.
#[test]
fn many_watches_are_set_again_over_a_slow_link() {
    for config in [Config::new(1, 0), Config::small(1, 0)] {
        let mut h = Harness::with(config);
        h.connect();
        h.events();
        for n in 0..2_000 {
            let path = alloc::format!("/locks/of/a/large/fleet/lock-{n:0>20}");
            h.submit(&get_data(&path), 0);
            h.answer_all();
        }
        h.disconnect();
        h.connect();
        h.answers();
        let (mut heard_at, mut longest) = (h.now, Duration::ZERO);
        let mut batches = 0;
        until_the_end(&mut h, ms(60_000), |h| {
            take_some(h, 1_000);
            while let Some(sent) = h.received() {
                h.reply(sent.xid.0, 1, ErrorCode::OK);
                if sent.opcode == OpCode::SET_WATCHES {
                    longest = longest.max(h.now - heard_at);
                    batches += 1;
                }
                heard_at = h.now;
            }
        });
        assert!(h.session.is_connected() && batches > 20, "{batches}, {:?}", h.cause());
        assert!(longest <= ms(500), "{longest:?}");
        assert!(h.session.connection.as_ref().expect("there is one").has_served);
    }
}
