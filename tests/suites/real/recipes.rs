//! Recipes on a real server: what they promise, and that nothing is left there.

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
    contenders_that_are_many_or_unreadable_are_listed_all_the_same,
    who_cannot_read_the_list_at_the_head_of_the_queue_fails_and_all_behind_go_on,
    what_a_list_too_long_has_left_is_found_and_goes,
    a_downgrade_lets_readers_in_and_keeps_writers_out,
    of_two_that_upgrade_nobody_waits_for_ever,
    a_holder_hears_that_somebody_asks_for_the_lock,
    no_more_permits_are_out_than_there_are,
    all_are_held_and_all_are_released,
    permits_are_taken_together_with_locks,
    candidates_lead_one_after_another,
    a_leader_that_loses_its_node_queues_again,
    an_owner_releases_as_often_as_it_has_acquired,
    nobody_passes_until_it_is_opened,
    all_wait_for_all_again_and_again,
}
