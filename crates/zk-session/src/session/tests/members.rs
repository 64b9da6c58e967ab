use alloc::collections::BTreeSet;

use super::*;

/// Has the attempt that is due now fail, and says which member it was for.
fn fail(h: &mut Harness) -> usize {
    let member = h.reach();
    h.disconnect();
    member
}

#[test]
fn every_member_is_tried_before_one_is_tried_again_and_without_delay() {
    let mut h = Harness::new(5);
    let start = h.now;
    let tried: BTreeSet<usize> = (0..5).map(|_| fail(&mut h)).collect();
    assert_eq!(tried.len(), 5);
    assert_eq!(h.now, start);
}

#[test]
fn the_order_is_decided_by_the_seed() {
    let order = |seed| {
        let mut h = Harness::with(Config::new(5, seed));
        (0..5).map(|_| fail(&mut h)).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert!((2..10).any(|seed| order(seed) != order(1)));
}

#[test]
fn a_failed_round_costs_time_so_that_nothing_runs_hot() {
    let mut h = Harness::new(3);
    let start = h.now;
    for _ in 0..300 {
        fail(&mut h);
    }
    assert!(h.now - start > Duration::from_secs(200), "{:?}", h.now - start);
    assert!(h.now - start < Duration::from_secs(600), "{:?}", h.now - start);
}

#[test]
fn only_an_answer_behind_the_handshake_resets_the_back_off() {
    let mut h = Harness::new(1);
    for round in 0..20 {
        h.reach();
        h.handshake();
        if round % 2 == 1 {
            h.welcome();
        }
        h.disconnect();
    }
    assert!(h.sleep() > Duration::from_secs(2));
    h.connect();
    h.sync(1);
    h.answer_all();
    h.disconnect();
    assert!(h.sleep() <= ms(50));
    fail(&mut h);
    assert!(h.sleep() <= ms(100));
}

#[test]
fn a_lost_connection_is_replaced_by_one_to_the_next_member_soon() {
    let mut h = Harness::new(2);
    let first = h.connect();
    let start = h.now;
    h.disconnect();
    assert_ne!(h.connect(), first);
    assert!(h.now - start <= ms(50));
}

#[test]
fn a_member_gets_its_share_of_the_timeout_to_answer_and_a_second_at_least() {
    for (members, patience) in [(1, 10_000), (4, 2_500), (100, 1_000)] {
        let mut h = Harness::new(members);
        assert_eq!(h.session.poll_timeout(), Some(h.now + ms(patience)));
        let silent = h.reach();
        h.handshake();
        h.advance(ms(patience - 1));
        assert_eq!(h.cause(), None);
        h.advance(ms(1));
        assert_eq!(
            h.events(),
            [Event::Disconnected { member: silent, cause: Cause::ConnectTimeout }]
        );
        assert_eq!(h.actions()[0], Action::Disconnect);
    }
}

#[test]
fn what_comes_too_late_from_a_connection_given_up_is_ignored() {
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
fn a_clock_that_stands_still_or_jumps_does_no_harm() {
    let mut h = Harness::connected();
    let now = h.now;
    for now in [Instant::START, now, now, Instant::START, now] {
        h.session.handle_timeout(now);
    }
    assert_eq!(h.events(), []);
    h.advance(Duration::from_secs(1 << 40));
    assert_eq!(h.cause(), Some(Cause::ReadTimeout));
    h.connect();
    h.events();
    h.advance(Duration::MAX);
    assert_eq!(h.cause(), Some(Cause::ReadTimeout));
    assert_eq!(h.session.poll_timeout(), None, "nothing comes after the end of time");
}
