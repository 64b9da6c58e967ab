//! A creation whose outcome is unknown.

use crate::tests::*;
use alloc::collections::BTreeSet;

const OTHER_SESSION: SessionId = SessionId(0x52);

#[test]
fn a_creation_lost_with_its_connection_is_searched_for_after_a_sync() {
    let mut h = Harness::creating();
    h.answer("create", lost());
    h.expect(&["sync", "list"]);
}

#[test]
fn other_unknown_outcomes_are_searched_for_after_a_delay() {
    let open = [
        refused(ErrorCode::OPERATION_TIMEOUT),
        refused(ErrorCode::REQUEST_TIMEOUT),
        refused(ErrorCode::SYSTEM_ERROR),
        // A malformed reply.
        ok(),
    ];
    for result in open {
        let mut h = Harness::creating();
        h.answer("create", result);
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["sync", "list"]);
    }
}

#[test]
fn our_own_node_is_adopted_with_its_token() {
    let mut h = Harness::adopting();
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["Enqueued own-7 token 107", "list"]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_node_that_is_absent_is_created_again_with_the_same_guid() {
    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", children(&["a-5", "b-6"]));
    // The harness compares the GUID.
    h.expect(&["create", "list"]);

    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect(&["create", "list"]);
}

#[test]
fn of_several_nodes_the_lowest_is_adopted_and_the_others_are_deleted() {
    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", children(&["own-9", "a-5", "own-7", "own-8"]));
    h.expect(&["stat own-7", "delete own-8", "delete own-9"]);
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["Enqueued own-7 token 107", "list"]);
    h.answer("delete own-8", ok());
    h.answer("delete own-9", refused(ErrorCode::NO_NODE));
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_stray_that_cannot_be_deleted_does_not_end_the_attempt() {
    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", children(&["own-7", "own-8"]));
    h.expect(&["stat own-7", "delete own-8"]);
    h.answer("stat own-7", stat(SESSION, 7));
    h.answer("delete own-8", refused(ErrorCode::NO_AUTH));
    h.answer("list", children(&["own-7", "own-8"]));
    let abandoned = "Abandoned own-8: ErrorCode(NO_AUTH)";
    h.expect(&["Enqueued own-7 token 107", "list", abandoned, "Acquired own-7 token 107", "timer"]);
    h.feed(Command::Release);
    h.expect(&["delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_node_of_another_session_is_deleted_and_never_adopted() {
    let mut h = Harness::adopting();
    h.answer("stat own-7", stat(OTHER_SESSION, 7));
    h.expect(&["delete own-7", "create", "list"]);
    h.answer("delete own-7", ok());
    h.created(9);
    h.answer("list", children(&["a-5", "own-9"]));
    h.expect(&[
        "Enqueued own-9 token 109",
        "Waiting behind a-5, 1 ahead",
        "watch own-9",
        "watch a-5",
    ]);
}

#[test]
fn a_node_deleted_before_its_stat_is_created_again() {
    let mut h = Harness::adopting();
    h.answer("stat own-7", refused(ErrorCode::NO_NODE));
    h.expect(&["create", "list"]);
}

#[test]
fn a_lost_stat_repeats_the_search() {
    let mut h = Harness::adopting();
    h.disconnect();
    h.expect(&["sync", "list"]);

    let mut h = Harness::resolving();
    h.disconnect();
    h.expect(&["sync", "list"]);

    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.disconnect();
    h.expect(&["sync", "list"]);
}

#[test]
fn a_list_that_outlived_its_sync_is_not_trusted() {
    let mut h = Harness::resolving();
    h.answer("sync", lost());
    h.feed(Input::State(State::Suspended));
    h.expect(&["sync", "list"]);
    h.reconnect();
    // It had not been sent before, so it was not lost, but another server answers it.
    h.answer("list", children(&["a-5"]));
    h.expect(&[]);
    h.answer("sync", ok());
    h.answer("list", children(&["a-5", "own-7"]));
    h.expect(&["stat own-7"]);
}

#[test]
fn a_list_answered_before_its_sync_is_not_trusted() {
    let mut h = Harness::resolving();
    h.answer("list", Err(QUEUE_FULL));
    h.expect(&["timer"]);
    h.answer("sync", ok());
    h.expect(&[]);
    h.feed(Input::Timer);
    h.expect(&["sync", "list"]);
}

#[test]
fn the_list_of_the_failed_creation_is_ignored() {
    let mut h = Harness::creating();
    h.answer("create", lost());
    h.feed(Input::State(State::Suspended));
    h.reconnect();
    h.expect(&["sync", "list"]);
    h.answer("list", children(&["own-7"]));
    h.expect(&[]);
    h.answer("sync", ok());
    h.expect(&[]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["stat own-7"]);
}

#[test]
fn a_refused_search_is_repeated_later_since_there_may_be_a_node() {
    for refusal in [Err(QUEUE_FULL), refused(ErrorCode::THROTTLED_OP)] {
        let mut h = Harness::resolving();
        h.answer("sync", refusal.clone());
        h.answer("list", refusal.clone());
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["sync", "list"]);
        h.answer("sync", ok());
        h.answer("list", refusal.clone());
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["sync", "list"]);
        h.answer("sync", ok());
        h.answer("list", children(&["own-7"]));
        h.expect(&["stat own-7"]);
        h.answer("stat own-7", refusal);
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["sync", "list"]);
    }
}

#[test]
fn a_node_without_a_readable_stat_is_deleted() {
    let mut h = Harness::adopting();
    h.answer("stat own-7", refused(ErrorCode::NO_AUTH));
    h.expect(&["delete own-7", "Failed: ErrorCode(NO_AUTH)"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_timer_of_an_earlier_step_does_no_harm() {
    let mut h = Harness::resolving();
    h.answer("list", Err(QUEUE_FULL));
    h.expect(&["timer"]);
    h.disconnect();
    h.expect(&[]);
    h.reconnect();
    h.feed(Input::Timer);
    h.feed(Input::Timer);
    h.expect(&["sync", "list"]);
    h.answer("sync", ok());
    h.answer("list", children(&["own-7"]));
    h.answer("stat own-7", stat(SESSION, 7));
    h.answer("list", children(&["own-7"]));
    h.expect(&[
        "stat own-7",
        "Enqueued own-7 token 107",
        "list",
        "Acquired own-7 token 107",
        "timer",
    ]);
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.feed(Input::Timer);
    h.expect(&[]);
}

#[test]
fn a_repeated_search_ignores_a_node_that_is_being_deleted() {
    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", children(&["own-7", "own-9"]));
    h.expect(&["stat own-7", "delete own-9"]);
    h.answer("stat own-7", lost());
    h.expect(&["sync", "list"]);
    h.answer("sync", ok());
    h.answer("list", children(&["own-7", "own-9"]));
    h.expect(&["stat own-7"]);
}

/// As boards have them: a serial number and a counter, on sessions that began one after another.
#[test]
fn no_two_attempts_of_different_sessions_have_the_same_node_guid() {
    let mut seen = BTreeSet::new();
    for server in 0..3 {
        for session in 0..16 {
            let session = SessionId(server << 56 | 0x18f << 24 | session);
            for serial in 0..8u64 {
                for count in 0..16 {
                    let places = [(serial, count), (serial << 56, count), (serial, count << 32)];
                    for (upper, lower) in places {
                        let guid = Uuid::from_u64_pair(upper, lower);
                        let node_guid = AttemptConfig::node_guid(guid, session);
                        assert_eq!(AttemptConfig::node_guid(node_guid, session), guid);
                        let kind = |guid: Uuid| (guid.get_version_num(), guid.get_variant());
                        assert_eq!(kind(node_guid), kind(guid));
                        seen.insert((node_guid, guid, session));
                    }
                }
            }
        }
    }
    let guids: BTreeSet<_> = seen.iter().map(|(node_guid, ..)| node_guid).collect();
    assert_eq!(guids.len(), seen.len());
}

/// The kind of a GUID takes two bits from the lower half, and four others from the upper one.
#[test]
fn sessions_that_differ_in_two_bits_of_the_mixed_id_have_different_guids() {
    let guid = config().guid;
    let lower = |session| AttemptConfig::node_guid(guid, session).as_u64_pair().1;
    // The inverse of the factor, modulo 2^64.
    let factor = 0xd6e8_feb8_6659_fd93u64;
    let inverse = (0..6).fold(factor, |inverse, _| {
        inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse)))
    });
    let unmixed = |mixed: u64| {
        (0..2).fold(mixed, |mixed, _| {
            let product = mixed.wrapping_mul(inverse);
            product ^ product >> 32
        })
    };
    let sessions = [1, 1 | 1 << 62].map(|mixed| SessionId(unmixed(mixed).cast_signed()));
    assert_eq!(lower(sessions[0]), lower(sessions[1]));
    let guids = sessions.map(|session| AttemptConfig::node_guid(guid, session));
    assert_ne!(guids[0], guids[1]);
}

#[test]
fn a_node_of_another_session_with_the_same_guid_is_another_contender() {
    // Two boards with one seed, say.
    let guid = AttemptConfig::node_guid(config().guid, NEXT);
    let theirs = format!("{}0000000005", SCHEME.prefix(LockMode::Exclusive, guid, NEXT));
    let mut h = Harness::deciding();
    h.answer("list", children(&[&theirs, "own-7"]));
    let lines = h.wanted();
    assert!(
        lines.iter().any(|line| line.starts_with("watch ") && line.ends_with("-5")),
        "{lines:?}"
    );
    // Nor does a search for a lost create delete it.
    let mut h = Harness::creating();
    h.disconnect();
    h.reconnect();
    h.wanted();
    h.answer("sync", ok());
    h.answer("list", children(&[&theirs]));
    h.expect(&["create", "list"]);
}
