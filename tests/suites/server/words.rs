//! Four-letter words.

use zk_proto::{CreateMode, Request};
use zk_testkit::server::{Config, Output};

use crate::world::{World, create_as, get_data};

/// Returns the answer to a word, after which the connection is closed.
fn ask(world: &mut World, server: usize, word: &str) -> String {
    let conn = world.ensemble.handle_connect(server).expect("a live server");
    world.ensemble.handle_bytes(world.now, conn, word.as_bytes());
    let Some(Output::Send { frame, .. }) = world.ensemble.poll_output() else {
        panic!("no answer to {word}");
    };
    assert_eq!(world.ensemble.poll_output(), Some(Output::Close { conn }));
    String::from_utf8(frame.to_vec()).expect("text")
}

#[test]
fn ruok_and_srvr_report_the_state_of_a_server() {
    let mut world = World::new(3);
    assert_eq!(ask(&mut world, 0, "ruok"), "imok");
    assert_eq!(ask(&mut world, 0, "isro"), "rw");
    assert!(ask(&mut world, 0, "envi").starts_with("Environment:\nzookeeper.version=3.8.0-"));
    assert!(ask(&mut world, 0, "srvr").contains("\nMode: follower\nNode count: 5\n"));
    assert!(ask(&mut world, 2, "srvr").contains("\nMode: leader\n"));
    assert!(ask(&mut world, 2, "stat").contains("\nClients:\n /127.0.0.1:"));
    let mut alone = World::new(1);
    let answer = ask(&mut alone, 0, "mntr");
    assert!(answer.starts_with("zk_version\t3.8.0"), "{answer}");
    assert!(answer.contains("\nzk_server_state\tstandalone\n"), "{answer}");
}

#[test]
fn sessions_ephemerals_and_watches_are_counted() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    world.call(conn, &create_as("/e", CreateMode::EPHEMERAL));
    world.call(conn, &get_data("/e", true));
    let answer = ask(&mut world, 0, "mntr");
    for line in ["zk_watch_count\t1", "zk_ephemerals_count\t1", "zk_znode_count\t6"] {
        assert!(answer.lines().any(|other| other == line), "{line} in {answer}");
    }
    let answer = ask(&mut world, 0, "dump");
    assert!(answer.contains("Sessions with Ephemerals (1):\n"), "{answer}");
    assert!(answer.ends_with(&format!("{}:\n\t/e\n", session.id)), "{answer}");
    let answer = ask(&mut world, 0, "cons");
    let of_session = format!(",sid={:#x},lop=NA,to=", session.id.0);
    assert!(answer.starts_with(" /127.0.0.1:") && answer.contains(&of_session), "{answer}");
    world.send(conn, &Request::CloseSession(()));
    assert!(ask(&mut world, 0, "dump").ends_with("Sessions with Ephemerals (0):\n"));
}

#[test]
fn a_server_reports_the_lack_of_a_quorum() {
    for (read_only_mode, access, answer) in [
        (false, "null", "This ZooKeeper instance is not currently serving requests\n"),
        (true, "ro", "READ-ONLY mode; serving only read-only clients\n"),
    ] {
        let mut world = World::with(Config { read_only_mode, ..Config::servers(2) });
        world.ensemble.kill(world.now, 1);
        assert_eq!(ask(&mut world, 0, "ruok"), "imok");
        assert_eq!(ask(&mut world, 0, "isro"), access);
        assert!(ask(&mut world, 0, "srvr").contains(answer));
    }
}
