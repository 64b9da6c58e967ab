use alloc::vec;

use super::*;
use crate::session::Config;

#[test]
fn a_failed_server_is_reported_by_name_after_the_list_is_replaced() {
    let [before, after] =
        ["before", "after"].map(|host| ServerAddress { host: host.into(), port: 1 });
    let session = Session::new(Instant::START, Config::new(1, 0));
    let mut router = Router::new(session, vec![before], None);
    router.set_servers(Instant::START, vec![after]);
    while router.deliver(|| Instant::START).0 {}
    let failure = ("before:1".into(), Cause::Rebalanced.to_string());
    assert_eq!(router.last_failure, Some(failure));
}
