//! The scenarios of all recipes on a real server.

use zk_testkit::{real, scenarios};

macro_rules! play {
    ($($scenario:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                if let Some(ensemble) = real::ensemble_or_skip(1) {
                    scenarios::$scenario(&ensemble).await;
                }
            }
        )+
    };
}

play! {
    many_or_unreadable_contenders_are_listed,
    a_contender_that_cannot_read_the_list_fails_and_the_others_proceed,
    the_watch_of_a_list_that_is_too_long_is_removed,
    a_downgrade_admits_readers_and_keeps_writers_waiting,
    two_readers_that_upgrade_do_not_deadlock,
    a_holder_receives_a_request_to_release,
    no_more_permits_are_held_than_exist,
    several_locks_are_acquired_and_released_together,
    permits_are_acquired_together_with_locks,
    candidates_lead_one_after_another,
    a_leader_that_loses_its_node_queues_again,
    an_owner_releases_as_often_as_it_has_acquired,
    a_service_survives_the_expiry_of_its_session,
    no_client_passes_a_closed_barrier,
    a_double_barrier_can_be_used_again,
}
