//! The scenarios of all recipes on the oldest servers that have what locks need: 3.5.

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

zk_testkit::scenarios_since_3_5!(play);
