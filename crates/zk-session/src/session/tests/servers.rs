use alloc::collections::BTreeSet;

use super::*;

/// Fails the attempt that is due now. Returns its server.
fn fail(h: &mut Harness) -> usize {
    let server = h.reach();
    h.disconnect();
    server
}

#[test]
fn every_server_is_tried_once_without_delay_before_any_is_tried_again() {
    let mut h = Harness::new(5);
    let start = h.now;
    let tried: BTreeSet<usize> = (0..5).map(|_| fail(&mut h)).collect();
    assert_eq!(tried.len(), 5);
    assert_eq!(h.now, start);
}

#[test]
fn the_seed_decides_the_order() {
    let order = |seed| {
        let mut h = Harness::with(Config::new(5, seed));
        (0..5).map(|_| fail(&mut h)).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert!((2..10).any(|seed| order(seed) != order(1)));
}

#[test]
fn a_failed_round_is_followed_by_a_delay() {
    let mut h = Harness::new(3);
    let start = h.now;
    for _ in 0..300 {
        fail(&mut h);
    }
    assert!(h.now - start > Duration::from_secs(50), "{:?}", h.now - start);
    assert!(h.now - start < Duration::from_secs(100), "{:?}", h.now - start);
}

#[test]
fn only_replies_after_the_handshake_reset_the_back_off() {
    let mut h = Harness::new(1);
    for round in 0..20 {
        h.reach();
        h.handshake();
        if round % 2 == 1 {
            h.welcome();
        }
        h.disconnect();
    }
    assert!(h.sleep() >= ms(150));
    h.connect();
    h.sync(1);
    h.answer_all();
    h.be_of_use();
    h.disconnect();
    assert!(h.sleep() <= ms(50));
    fail(&mut h);
    assert!(h.sleep() <= ms(100));
}

#[test]
fn a_server_has_served_the_session_once_it_has_set_all_watches_again() {
    let mut h = Harness::with(Config { max_request: 60, ..Config::new(1, 0) });
    h.connect();
    for path in ["/the/first/node", "/the/second/node"] {
        h.watch(&get_data(path), ErrorCode::OK);
    }
    h.disconnect();
    h.connect();
    assert_eq!(h.sent_xids(), [Xid::SET_WATCHES.0; 2]);
    for has_served in [false, true] {
        h.reply(Xid::SET_WATCHES.0, 1, ErrorCode::OK);
        let connection = h.session.connection.as_ref().expect("there is one");
        assert_eq!(connection.has_served, has_served);
    }
}

#[test]
fn a_lost_connection_is_replaced_by_one_to_the_next_server_soon() {
    let mut h = Harness::new(2);
    let first = h.connect();
    let start = h.now;
    h.disconnect();
    assert_ne!(h.connect(), first);
    assert!(h.now - start <= ms(50));
}

/// Makes a session with this timeout and three servers, whose connection was just lost.
fn lost(timeout: Duration) -> Harness {
    let mut h = Harness::with(Config { timeout, ..Config::new(3, 0) });
    h.reach();
    h.handshake();
    h.answer_handshake(timeout.as_millis() as i32, SESSION);
    h.sync(0);
    h.answer_all();
    h.disconnect();
    h.events();
    h
}

/// Fails all attempts to reach a server at once for so long. Returns when each round began.
fn rounds(h: &mut Harness, time: Duration) -> Vec<Instant> {
    let end = h.now + time;
    let mut begun = Vec::new();
    while h.now < end {
        attempt(h);
        begun.push(h.now);
        h.disconnect();
        for _ in 0..2 {
            attempt(h);
            h.disconnect();
        }
    }
    begun
}

#[test]
fn while_the_session_can_be_saved_rounds_wait_at_most_a_twentieth_of_its_timeout() {
    for timeout in [100, 1_000, 4_000, 10_000, 40_000, 3_600_000].map(ms) {
        let mut h = lost(timeout);
        let (start, end) = (h.now, h.now + timeout);
        let most = (timeout / 20).min(Duration::from_secs(5));
        let begun = rounds(&mut h, timeout * 3 + Duration::from_secs(30));
        assert!(begun[0] - start <= most.min(ms(50)));
        let saving = begun.iter().take_while(|at| **at < end).count();
        for (place, two) in begun.windows(2).enumerate() {
            let limit = if two[0] < end { most } else { Duration::from_secs(5) };
            assert!(two[1] - two[0] <= limit, "{timeout:?}, round {place}: {:?}", two[1] - two[0]);
        }
        if timeout < ms(100_000) {
            assert!((20..60).contains(&saving), "{timeout:?}: {saving} rounds");
            let last = begun.windows(2).last().expect("there are many");
            assert!(last[1] - last[0] >= ms(2_500), "it backs off at last");
        }
    }
}

#[test]
fn a_session_can_be_saved_until_its_timeout_has_passed() {
    let h = Harness::connected();
    let longest_delay = |after| h.session.retry_limit(h.now + ms(after)).duration();
    assert_eq!([5_999, 6_000].map(longest_delay), [ms(300), ms(5_000)]);
}

#[test]
fn rounds_of_a_resumed_session_wait_at_most_a_twentieth_of_its_timeout() {
    let resume =
        SessionTicket { id: SESSION, password: Bytes::from_static(&PASSWORD), last_zxid: Zxid(7) };
    let mut h = Harness::with(Config { resume: Some(resume), ..Config::new(3, 0) });
    let begun = rounds(&mut h, ms(9_000));
    assert!(begun.windows(2).all(|two| two[1] - two[0] <= ms(500)), "{begun:?}");
}

#[test]
fn without_a_session_rounds_wait_at_most_a_second() {
    let mut h = Harness::new(3);
    let begun = rounds(&mut h, Duration::from_secs(100));
    assert!(begun.windows(2).all(|two| two[1] - two[0] <= ms(1_000)), "{begun:?}");
}

/// Advances the clock until the session tries a server, and returns that server.
fn attempt(h: &mut Harness) -> usize {
    loop {
        match h.actions().last() {
            Some(Action::Connect(server)) => return *server,
            _ => h.sleep(),
        };
    }
}

#[test]
fn servers_that_never_answer_leave_time_for_one_that_does() {
    for timeout in [200, 4_000, 10_000, 40_000].map(ms) {
        for is_reached in [false, true] {
            let mut h = lost(timeout);
            let start = h.now;
            let servers = [(); 3].map(|()| {
                let server = attempt(&mut h);
                if is_reached {
                    // The process is stopped while the system runs.
                    h.session.handle_connected(h.now);
                    h.take_all();
                }
                server
            });
            assert!(servers[0] != servers[1] && servers[2] != servers[1]);
            let most = timeout / if is_reached { 3 } else { 6 } + ms(50).min(timeout / 20);
            assert!(h.now - start <= most, "{timeout:?}: {:?}", h.now - start);
            let left = h.session.lease().expect("it lives") - h.now;
            assert!(left >= timeout / 2, "{timeout:?}: {left:?}");
        }
    }
}

/// Connects on a network where each step takes a round trip. Returns how long that took.
fn connect_over(h: &mut Harness, round_trip: Duration) -> Duration {
    let start = h.now;
    for _ in 0..1_000 {
        let server = attempt(h);
        let in_time = |h: &mut Harness| {
            let due = h.session.connect_deadline().expect("it is tried");
            h.advance(round_trip.min(due - h.now));
            h.session.server() == Some(server) && h.session.connect_deadline() == Some(due)
        };
        if in_time(h) {
            h.session.handle_connected(h.now);
            h.take_all();
            if in_time(h) {
                h.answer_handshake(10_000, SESSION);
                h.events();
                return h.now - start;
            }
        }
    }
    panic!("it never connects over {round_trip:?}");
}

#[test]
fn a_slow_connection_can_still_be_made() {
    for servers in [1, 3, 5, 9] {
        for tenths in 1..7 {
            let mut h = Harness::new(servers);
            let round_trip = Duration::from_secs(tenths);
            let took = connect_over(&mut h, round_trip);
            assert!(took <= Duration::from_secs(200), "{servers}, {round_trip:?}: {took:?}");
        }
    }
}

#[test]
fn a_server_that_drops_packets_takes_no_more_time_while_others_refuse() {
    let mut h = Harness::new(2);
    let silent = attempt(&mut h);
    for _ in 0..20 {
        let begun = h.now;
        let due = h.session.connect_deadline().expect("it is tried");
        h.advance(due - h.now);
        assert!(h.now - begun <= ms(5_000), "{:?}", h.now - begun);
        assert_ne!(attempt(&mut h), silent);
        h.disconnect();
        assert_eq!(attempt(&mut h), silent);
    }
}

#[test]
fn a_slow_server_has_time_to_connect_while_the_session_can_be_saved() {
    for millis in [10, 900, 1_600, 3_000] {
        let mut h = Harness::new(3);
        connect_over(&mut h, ms(millis));
        h.sync(0);
        h.answer_all();
        h.disconnect();
        h.events();
        let took = connect_over(&mut h, ms(millis));
        assert!(took <= ms(2 * millis + 50), "{millis} ms: {took:?}");
    }
}

#[test]
fn a_server_gets_its_share_of_the_timeout_to_answer_and_a_second_at_least() {
    for (servers, timeout) in [(1, 10_000), (4, 2_500), (100, 1_000)] {
        let mut h = Harness::new(servers);
        assert_eq!(h.session.poll_timeout(), Some(h.now + ms(timeout)));
        let silent = h.reach();
        h.handshake();
        h.advance(ms(timeout - 1));
        assert_eq!(h.cause(), None);
        h.advance(ms(1));
        assert_eq!(
            h.events(),
            [Event::Disconnected { server: silent, cause: Cause::ConnectTimeout }]
        );
        assert_eq!(h.actions()[0], Action::Disconnect);
    }
}

#[test]
fn inputs_of_an_abandoned_connection_are_ignored() {
    let mut h = Harness::connected();
    h.disconnect();
    h.events();
    h.welcome();
    h.reply(1, 1, ErrorCode::OK);
    h.disconnect();
    h.session.handle_connected(h.now);
    h.session.handle_bad_frame(h.now, frame::FrameError::Negative(-1));
    assert_eq!(h.events(), []);
    assert_eq!(h.actions(), []);
    assert_eq!(h.session.state(), State::Suspended);
    h.connect();
}

#[test]
fn a_clock_that_stops_or_jumps_does_no_harm() {
    let mut h = Harness::connected();
    let now = h.now;
    for now in [Instant::START, now, now, Instant::START, now] {
        h.session.handle_timeout(now);
    }
    assert_eq!(h.events(), []);
    h.advance(Duration::from_secs(1 << 33));
    assert_eq!(h.cause(), Some(Cause::ReadTimeout));
    h.connect();
    h.events();
    h.advance(Duration::MAX);
    assert_eq!(h.cause(), Some(Cause::ReadTimeout));
    assert_eq!(h.session.poll_timeout(), None, "nothing comes after the end of time");
}

#[test]
fn each_address_of_a_server_is_an_attempt_of_its_round() {
    for (counts, addresses) in [([3, 1], 4), ([1, 1], 2), ([0, 2], 3)] {
        let mut h = Harness::new(2);
        let start = h.now;
        let mut tried = [fail(&mut h), 0];
        tried = [usize::from(tried[0] == 0), usize::from(tried[0] == 1)];
        // The look-up ends during the first round.
        h.session.set_addresses(&counts);
        for _ in 1..addresses {
            tried[fail(&mut h)] += 1;
        }
        assert_eq!((tried, h.now), (counts.map(|count| count.max(1)), start));
        assert!(h.sleep() >= ms(50), "a round has failed");
        // Each has its share of the time.
        let due = h.session.connect_deadline().expect("it is tried");
        let share = (ms(10_000) / addresses).max(ms(1_000));
        assert_eq!(due - h.now, share);
        h.session.set_addresses(&[1, 1]);
        let round: BTreeSet<usize> = (0..2).map(|_| fail(&mut h)).collect();
        assert_eq!(round.len(), 2);
    }
}

#[test]
fn a_change_of_the_list_counts_servers_and_not_their_addresses() {
    let mut h = Harness::new(2);
    h.session.set_addresses(&[5, 5, 5]);
    h.session.update_servers(h.now, &[Some(1), Some(0), Some(2)], 2);
    let start = h.now;
    fail(&mut h);
    fail(&mut h);
    assert_eq!(h.now, start);
    assert!(h.sleep() >= ms(50), "a round has failed");
    let mut nowhere = Harness::new(0);
    nowhere.session.set_addresses(&[1]);
    assert_eq!(nowhere.actions(), []);
}
