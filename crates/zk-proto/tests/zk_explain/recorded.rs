//! What a client of zk-session has recorded about itself: a lock, whose leader is killed.

use serde_json::Value;

use super::{golden, printed};

#[test]
fn a_recording_of_a_client_is_shown_as_its_connections() {
    let file = golden("outage.zkrec");
    let lines = printed(&[&file, "--format", "lines"]);
    assert!(lines.contains("EPHEMERAL_SEQUENTIAL") && lines.contains("NODE_DELETED"));
    let requests = lines.lines().filter(|line| line.contains(" > ")).count();
    let connects = lines.lines().filter(|line| line.contains("connect last_zxid_seen")).count();
    assert!((connects, lines.lines().count() - requests) == (10, 19), "{lines}");
    // The data of nodes is left out.
    assert!(lines.contains(r"\x00\x00"));
    let locks = printed(&["locks", &file]);
    assert!(locks.contains("/locks/x: held 99 %"), "{locks}");

    let json = printed(&[&file, "--format", "play"]);
    let story: Value = serde_json::from_str(&json).expect("JSON");
    let steps = story["steps"].as_array().expect("steps");
    assert_eq!(story["runs"][0]["servers"], 2);
    assert!(steps.iter().all(|step| step["servers"].as_array().is_some_and(|it| it.len() == 2)));
    assert!(steps.iter().any(|step| step["label"] == "has no connection"));
    let nodes = |step: &Value| step["queue"].as_array().map_or(0, Vec::len);
    assert_eq!(steps.iter().map(nodes).max(), Some(1));
    assert_eq!(steps.last().map(nodes), Some(0));
}
