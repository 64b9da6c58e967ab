//! tmp
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Keeper};
#[tokio::main]
async fn main() {
    let mut config = Config::servers(1);
    if std::env::args().nth(1).as_deref() == Some("keeper") {
        config = config.with_keeper(Keeper::WithContainers);
        config.wide_xids = true;
    }
    let ensemble = Embedded::with_config(config).await.unwrap();
    println!("{}", ensemble.connect_string());
    tokio::time::sleep(core::time::Duration::from_secs(600)).await;
}
