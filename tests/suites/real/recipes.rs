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

zk_testkit::scenarios_since_3_5!(play);

// `getEphemerals` and persistent watches exist since 3.6.
play! {
    the_watch_of_a_list_that_is_too_long_is_removed,
    a_service_survives_the_expiry_of_its_session,
}

#[test]
fn a_blocking_cache_follows_a_tree_across_sessions() {
    if let Some(ensemble) = real::ensemble_or_skip(1) {
        scenarios::a_blocking_cache_follows_a_tree_across_sessions(&ensemble);
    }
}
