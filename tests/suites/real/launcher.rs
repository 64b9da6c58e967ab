//! The launcher of real servers: three servers, one of which is killed and restarted.

use zk_testkit::real;

#[test]
fn a_quorum_survives_its_leader() {
    let Some(mut ensemble) = real::ensemble_or_skip(3) else { return };
    let leader = ensemble.leader().expect("a leader");
    ensemble.kill(leader).expect("a process to kill");
    assert!(ensemble.four_letter(leader, "srvr").is_err());
    ensemble.restart(leader).expect("a restarted server");
    let answer = ensemble.four_letter(leader, "mntr").expect("an answer");
    assert!(answer.contains("zk_server_state"), "{answer}");
    assert_eq!(ensemble.connect_string().split(',').count(), 3);
}
