use super::*;

/// Servers check the ttl of a mode with a time to live, and refuse a negative one.
#[test]
fn only_a_request_that_harms_servers_is_replaced() {
    for (mode, ttl, harms) in [
        (CreateMode::PERSISTENT, -1, true),
        (CreateMode::EPHEMERAL, i64::MIN, true),
        (CreateMode::PERSISTENT, 0, false),
        (CreateMode::PERSISTENT, 1, false),
        (CreateMode::PERSISTENT_WITH_TTL, -1, false),
        (CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL, -1, false),
    ] {
        let (path, acl) = ("/a".into(), Default::default());
        let body = CreateTtlRequest { path, data: None, acl, mode, ttl };
        let request = Request::CreateTtl(body);
        assert_eq!(request.harms_servers(), harms, "{request:?}");
        assert_eq!(request.clone().harmless() != request, harms, "{request:?}");
        assert!(!request.clone().harmless().harms_servers(), "{request:?}");
    }
}
