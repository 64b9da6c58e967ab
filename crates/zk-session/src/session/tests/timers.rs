use super::*;

const THIRD: Duration = ms(2_000);

fn pings(h: &mut Harness) -> usize {
    h.sent().iter().filter(|sent| (sent.xid, sent.opcode) == (Xid::PING, OpCode::PING)).count()
}

#[test]
fn an_idle_session_pings_after_a_third_of_the_timeout_granted() {
    let mut h = Harness::connected();
    h.advance(THIRD - ms(1));
    assert_eq!(pings(&mut h), 0);
    h.advance(ms(1));
    assert_eq!(h.session.output(), [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11]);
    assert_eq!(pings(&mut h), 1);
    h.reply(Xid::PING.0, 5, ErrorCode::OK);
    h.advance(THIRD);
    assert_eq!(pings(&mut h), 1);
}

#[test]
fn any_request_serves_as_a_ping() {
    let mut h = Harness::connected();
    h.advance(THIRD - ms(1));
    h.sync(1);
    h.answer_all();
    h.advance(THIRD - ms(1));
    assert_eq!(pings(&mut h), 0);
    h.advance(ms(1));
    assert_eq!(pings(&mut h), 1);
}

#[test]
fn a_write_of_no_bytes_delays_no_ping() {
    let mut h = Harness::connected();
    h.advance(THIRD / 2);
    h.session.handle_sent(h.now, 0);
    h.advance(THIRD / 2);
    assert_eq!(pings(&mut h), 1);
}

#[test]
fn unanswered_pings_continue_up_to_a_limit() {
    const MOST: usize = 64;
    let mut h = Harness::connected();
    let advance = |h: &mut Harness| {
        h.advance(THIRD);
        h.notify(EventType::NODE_CREATED, "/keeps/the/connection/alive");
        pings(h)
    };
    for count in 0..MOST + 10 {
        assert_eq!(advance(&mut h), usize::from(count < MOST), "{count}");
    }
    h.reply(Xid::PING.0, 5, ErrorCode::OK);
    h.advance(ms(0));
    assert_eq!(pings(&mut h), 1, "it was due long ago");
    assert_eq!(advance(&mut h), 0);
}

#[test]
fn only_pings_count_among_what_cannot_be_sent() {
    let mut h = Harness::connected();
    for token in 0..100 {
        h.sync(token);
    }
    for _ in 0..100 {
        h.advance(THIRD);
        h.notify(EventType::NODE_CREATED, "/keeps/the/connection/alive");
    }
    assert_eq!(pings(&mut h), 64);
}

#[test]
fn slow_replies_do_not_delay_pings() {
    let mut h = Harness::connected();
    for token in 1..=120 {
        h.sync(token);
    }
    h.sent();
    // Their replies come before that of the first ping.
    let mut pings_sent = 0;
    for xid in 1..=120 {
        h.advance(ms(250));
        h.reply(xid, 1, ErrorCode::OK);
        pings_sent += pings(&mut h);
    }
    assert_eq!(pings_sent, 15, "one every 2 s for 30 s");
    assert_eq!(h.cause(), None);
}

/// Returns a session on a network that answers everything after `round_trip`.
fn connect_slowly(h: &mut Harness, round_trip: Duration) {
    h.reach();
    h.handshake();
    h.advance(round_trip);
    h.welcome();
    assert!(matches!(h.session.state(), State::Connected { .. }));
    h.events();
}

/// Replies in transit, and when they arrive.
type Replies = alloc::collections::VecDeque<(Instant, Xid)>;

/// Advances the clock by so much on such a network. Returns the events.
fn idle(
    h: &mut Harness,
    replies: &mut Replies,
    round_trip: Duration,
    time: Duration,
) -> Vec<Event<u32>> {
    let (end, mut events) = (h.now + time, Vec::new());
    loop {
        replies.extend(h.sent().iter().map(|sent| (h.now + round_trip, sent.xid)));
        events.extend(h.events());
        let due = h.session.poll_timeout().unwrap_or(Instant::END);
        let reply = replies.front().map_or(Instant::END, |(at, _)| *at);
        if due.min(reply) > end {
            h.now = end;
            return events;
        }
        if reply <= due {
            h.now = reply;
            let (_, xid) = replies.pop_front().expect("it was looked at");
            h.reply(xid.0, 1, ErrorCode::OK);
        } else {
            h.advance(due - h.now);
        }
    }
}

#[test]
fn an_idle_session_stays_connected_with_round_trips_below_two_thirds_of_the_timeout() {
    for percent in 1..66 {
        let mut h = Harness::new(1);
        let round_trip = THIRD * 3 * percent / 100;
        connect_slowly(&mut h, round_trip);
        let events = idle(&mut h, &mut Replies::new(), round_trip, THIRD * 100);
        let ends = events.iter().filter(|event| **event == Event::LeaseEnded).count();
        // The first ping follows the answer to the handshake, so its reply comes late.
        assert!(ends <= usize::from(percent > 45) || percent > 60, "{percent} %: {ends}");
        assert!(events.len() == ends, "{percent} %: {events:?}");
    }
}

#[test]
fn a_busy_session_stays_connected_with_round_trips_below_two_thirds_of_the_timeout() {
    for percent in 1..66 {
        let mut h = Harness::new(1);
        let round_trip = THIRD * 3 * percent / 100;
        connect_slowly(&mut h, round_trip);
        let mut replies = Replies::new();
        for token in 0..50 {
            h.sync(token);
            // A caller that waits for each reply, and then for some more time.
            let time = round_trip + ms(u64::from(token) * 100);
            for event in idle(&mut h, &mut replies, round_trip, time) {
                let is_fine =
                    matches!(event, Event::Reply { result: Ok(_), .. } | Event::LeaseEnded);
                assert!(is_fine, "{percent} %: {event:?}");
            }
        }
    }
}

#[test]
fn replies_to_pings_are_outside_the_order() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.advance(THIRD);
    h.sync(2);
    assert_eq!(h.sent_xids(), [Xid::PING.0, 2]);
    h.reply(Xid::PING.0, 5, ErrorCode::OK);
    h.reply(Xid::PING.0, 5, ErrorCode::OK);
    h.reply(1, 5, ErrorCode::OK);
    h.reply(2, 5, ErrorCode::OK);
    assert_eq!(h.answers(), [(1, None), (2, None)]);
    assert_eq!(h.actions(), []);
}

#[test]
fn silence_for_two_thirds_of_the_timeout_costs_the_connection() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.advance(THIRD);
    h.sent();
    h.advance(THIRD - ms(1));
    assert_eq!(h.cause(), None);
    h.advance(ms(1));
    assert_eq!(h.actions(), [Action::Disconnect]);
    assert_eq!(
        h.events(),
        [
            Event::Disconnected { server: 0, cause: Cause::ReadTimeout },
            Event::Reply { token: 1, result: Err(Error::ConnectionLost) },
            Event::State(State::Suspended),
        ]
    );
    h.connect();
}

#[test]
fn any_frame_resets_the_read_deadline() {
    let mut h = Harness::connected();
    for _ in 0..10 {
        h.advance(THIRD * 2 - ms(1));
        h.notify(EventType::NODE_CREATED, "/nobody/watches");
    }
    assert_eq!(h.cause(), None);
}

fn lease(h: &Harness) -> Duration {
    h.session.lease().expect("there is a session") - h.now
}

#[test]
fn the_lease_counts_from_when_the_newest_acknowledged_request_was_sent() {
    let mut h = Harness::new(1);
    assert_eq!(h.session.lease(), None);
    h.reach();
    h.advance(ms(100)); // until the transport takes the handshake, and the answer is there
    h.handshake();
    h.welcome();
    assert_eq!(lease(&h), ms(6_000 - 300 - 100));

    h.advance(ms(400));
    h.sync(1);
    h.advance(ms(50));
    h.sent();
    h.advance(ms(50));
    assert_eq!(lease(&h), ms(5_100), "sending alone renews nothing");
    h.notify(EventType::NODE_CREATED, "/a");
    assert_eq!(lease(&h), ms(5_100), "nor does what the server says unasked");
    h.reply(1, 1, ErrorCode::OK);
    assert_eq!(lease(&h), ms(5_650));
}

#[test]
fn the_lease_counts_from_the_last_byte_of_a_request() {
    let mut h = Harness::connected();
    h.sync(1);
    h.advance(ms(100));
    h.take(3);
    h.advance(ms(100));
    h.take_all();
    h.reply(1, 1, ErrorCode::OK);
    assert_eq!(lease(&h), ms(5_700));
}

#[test]
fn the_lease_is_as_long_as_the_newest_grant_allows() {
    let mut h = Harness::connected();
    assert_eq!(lease(&h), ms(5_700));
    for (granted, expected) in [(3_000, 2_850), (9_000, 8_550)] {
        h.disconnect();
        h.reach();
        h.handshake();
        h.answer_handshake(granted, SESSION);
        assert_eq!(lease(&h), ms(expected));
    }
}

#[test]
fn the_lease_never_goes_back() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.advance(THIRD);
    h.sent();
    h.reply(Xid::PING.0, 1, ErrorCode::OK);
    let after_ping = h.session.lease();
    h.reply(1, 1, ErrorCode::OK); // sent before the ping, answered after it
    assert_eq!(h.session.lease(), after_ping);
    h.disconnect();
    assert_eq!(h.session.lease(), after_ping, "nobody has ended the session");
    h.connect();
    assert!(h.session.lease() >= after_ping);
}

#[test]
fn a_refusal_because_the_session_is_unknown_renews_no_lease() {
    for err in [ErrorCode::SESSION_EXPIRED, ErrorCode::SESSION_MOVED, ErrorCode::UNKNOWN_SESSION] {
        let mut h = Harness::connected();
        let before = h.session.lease();
        h.advance(THIRD);
        h.sync(1);
        h.sent();
        h.reply(Xid::PING.0, 1, err);
        h.reply(1, 1, err);
        assert_eq!(h.answers(), [(1, Some(Error::Server(err)))]);
        assert_eq!(h.session.lease(), before, "{err}");
    }
}

#[test]
fn a_session_that_ends_has_no_lease() {
    let mut h = Harness::connected();
    h.session.close();
    assert_eq!(h.session.lease(), None, "the server may have closed it by now");
    let mut h = Harness::connected();
    h.disconnect();
    h.reach();
    h.handshake();
    h.answer_handshake(0, SessionId::NONE);
    assert_eq!((h.session.lease(), h.session.lease_has_ended(h.now)), (None, true));
}

#[test]
fn the_lease_of_a_session_whose_close_is_not_answered_ends() {
    let mut h = Harness::connected();
    let end = h.session.lease().expect("there is a session");
    let close_at = h.now + (end - h.now - ms(2_000));
    assert_eq!(hear_only_events(&mut h, close_at), []);
    h.session.close();
    assert_eq!(hear_only_events(&mut h, end + ms(100)), [Event::LeaseEnded]);
    assert!(h.session.is_past_lease(h.now) && h.session.lease_has_ended(h.now));
    h.disconnect();
    assert!(!h.session.is_past_lease(h.now) && h.session.lease_has_ended(h.now));
}

/// Advances the clock while the server sends events and no replies.
fn hear_only_events(h: &mut Harness, until: Instant) -> Vec<Event<u32>> {
    let mut events = Vec::new();
    while h.now < until {
        h.advance(ms(100).min(until - h.now));
        h.sent();
        events.extend(h.events());
        h.notify(EventType::NODE_CREATED, "/nobody/watches");
    }
    events
}

#[test]
fn the_end_of_the_lease_is_reported_once_even_while_connected() {
    let mut h = Harness::connected();
    let end = h.session.lease().expect("there is a session");
    let before = h.now + (end - h.now - ms(1));
    assert_eq!(hear_only_events(&mut h, before), []);
    assert!(!h.session.lease_has_ended(h.now));
    assert_eq!(hear_only_events(&mut h, end), [Event::LeaseEnded]);
    assert!(h.session.lease_has_ended(h.now));
    assert_eq!(hear_only_events(&mut h, end + THIRD), [], "once");
    assert_eq!(h.cause(), None);
}

#[test]
fn the_end_of_the_lease_is_reported_without_a_connection() {
    let mut h = Harness::connected();
    let end = h.session.lease().expect("there is a session");
    h.disconnect();
    h.events();
    let mut ends = Vec::new();
    while h.now < end + THIRD {
        let due = h.session.poll_timeout().expect("something is due").min(end + THIRD);
        h.advance(due - h.now);
        if h.actions().iter().any(|action| matches!(action, Action::Connect(_))) {
            h.disconnect();
        }
        let ended = h.events().into_iter().filter(|event| *event == Event::LeaseEnded).count();
        ends.extend((0..ended).map(|_| h.now));
    }
    assert_eq!(ends, [end]);
}

#[test]
fn a_lease_that_was_renewed_ends_later_and_again_after_its_end() {
    let mut h = Harness::connected();
    let first = h.session.lease().expect("there is a session");
    h.advance(THIRD);
    h.sent();
    h.reply(Xid::PING.0, 1, ErrorCode::OK);
    let second = h.session.lease().expect("there is a session");
    assert!(second > first);
    let before = h.now + (second - h.now - ms(1));
    assert_eq!(hear_only_events(&mut h, before), []);
    assert_eq!(hear_only_events(&mut h, second), [Event::LeaseEnded]);
    h.sync(1);
    h.sent();
    h.reply(Xid::PING.0, 1, ErrorCode::OK);
    h.reply(1, 1, ErrorCode::OK);
    assert!(!h.session.lease_has_ended(h.now));
    h.answers();
    let third = h.session.lease().expect("there is a session");
    assert_eq!(hear_only_events(&mut h, third), [Event::LeaseEnded]);
}

#[test]
fn answers_renew_the_lease_without_touching_its_timer() {
    let mut h = Harness::connected();
    let armed = h.session.timers.get(SessionTimer::Lease);
    for xid in 1..100 {
        h.advance(ms(10));
        h.sync(0);
        h.sent();
        h.reply(xid, 1, ErrorCode::OK);
        assert_eq!(h.session.timers.get(SessionTimer::Lease), armed);
    }
    assert!(h.session.lease() > armed);
}
