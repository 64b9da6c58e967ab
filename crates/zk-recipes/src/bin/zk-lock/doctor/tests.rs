//! Tests of the doctor.

use super::*;

#[test]
fn a_second_between_the_clocks_is_a_problem() {
    for (milliseconds, level) in [
        (None, "note"),
        (Some(0), "ok"),
        (Some(-999), "ok"),
        (Some(1000), PROBLEM),
        (Some(-90_000), PROBLEM),
        (Some(i64::MIN), PROBLEM),
    ] {
        assert_eq!(examine_clock(milliseconds).0, level, "{milliseconds:?}");
    }
}

#[test]
fn silence_is_measured_by_the_clock_of_the_same_server() {
    let connection = |server, last_reply| Connection {
        address: String::new(),
        established: None,
        timeout: None,
        last_reply,
        server,
    };
    let connections = [
        (1, connection(0, Some(7000))),
        (2, connection(0, Some(4000))),
        (3, connection(1, Some(99_000))),
    ];
    let sessions = Sessions { connections: connections.into(), silent: Vec::new() };
    let contents = Contents::default();
    let facts = Facts {
        path: "/a",
        exists: true,
        contents: &contents,
        sessions: &sessions,
        living: &Living::default(),
        unknown: &[],
        written: &BTreeMap::new(),
        clock: None,
        server_kind: ServerKind::ZooKeeper,
    };
    let silence = |id: i64| facts.silence(&sessions.connections[&id]);
    assert_eq!((silence(1), silence(2)), (Some(Duration::ZERO), Some(Duration::from_secs(3))));
    assert_eq!(silence(3), Some(Duration::ZERO));
    assert_eq!(facts.silence(&connection(0, None)), None);
}
