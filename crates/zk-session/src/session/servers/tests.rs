use alloc::vec;

use super::*;

#[test]
fn each_round_tries_every_server() {
    let mut servers = Servers::new(3, 7);
    let mut round: Vec<_> = (0..3).filter_map(|_| servers.take_next()).collect();
    assert_eq!(servers.take_next(), Some(round[0]));
    round.sort_unstable();
    assert_eq!(round, vec![0, 1, 2]);
}

#[test]
fn the_delay_grows_with_each_round_in_which_all_servers_fail() {
    let [short, long] = [3, 50].map(|tenths| scaled(FIRST_BACK_OFF, tenths, 1));
    let mut servers = Servers::new(2, 7);
    let mut ceiling = FIRST_BACK_OFF;
    for round in 0..40 {
        let limit = if round < 20 { short } else { long };
        assert_eq!(servers.delay_after_failure(true, limit), Span::ZERO);
        ceiling = ceiling.min(limit);
        let delay = servers.delay_after_failure(true, limit);
        assert!(scaled(ceiling, 1, 2) <= delay && delay <= ceiling, "{delay:?} of {ceiling:?}");
        ceiling = scaled(ceiling, 2, 1);
    }
    assert_eq!((servers.failed_rounds(), servers.timed_out_rounds()), (40, 40));
    servers.succeeded();
    servers.delay_after_failure(false, long);
    assert!(servers.delay_after_failure(false, long) <= FIRST_BACK_OFF);
    assert!(servers.delay_after_loss(long) <= SPREAD);
    assert!(servers.delay_after_loss(scaled(SPREAD, 1, 50)) <= scaled(SPREAD, 1, 50));
}
