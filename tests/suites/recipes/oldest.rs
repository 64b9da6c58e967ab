//! The scenarios of all recipes on the oldest servers that have what locks need: 3.5. One more asks
//! for `getEphemerals`, which exists since 3.6.

use zk_testkit::scenarios;
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Version};

macro_rules! play {
    ($($scenario:ident,)+) => {
        $(
            #[tokio::test]
            async fn $scenario() {
                let config = Config::default().with_version(Version::V3_5);
                let embedded = Embedded::with_config(config).await.expect("loopback");
                scenarios::$scenario(&embedded).await;
            }
        )+
    };
}

play! {
    many_or_unreadable_contenders_are_listed,
    a_contender_that_cannot_read_the_list_fails_and_the_others_proceed,
    a_downgrade_admits_readers_and_keeps_writers_waiting,
    two_readers_that_upgrade_do_not_deadlock,
    a_holder_receives_a_request_to_release,
    no_more_permits_are_held_than_exist,
    several_locks_are_acquired_and_released_together,
    permits_are_acquired_together_with_locks,
    candidates_lead_one_after_another,
    a_leader_that_loses_its_node_queues_again,
    an_owner_releases_as_often_as_it_has_acquired,
    no_client_passes_a_closed_barrier,
    a_double_barrier_can_be_used_again,
}
