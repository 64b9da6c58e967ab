//! Tests of what is at a lock path.

use super::*;

#[test]
fn the_next_number_counts_the_creations() {
    for (created, deleted) in [(0, 0), (1, 0), (7, 7), (7, 3), (i32::MAX, i32::MAX - 2)] {
        let num_children = created - deleted;
        let cversion = created.wrapping_mul(2).wrapping_sub(num_children);
        let stat = Stat { cversion, num_children, ..Stat::default() };
        assert_eq!(next_number(&stat), created.cast_unsigned());
    }
}

#[test]
fn a_label_is_short_and_shows_the_mode() {
    for (node, shown) in [
        ("_c_f5fd6747-e1b7-4202-a4bc-9474a7659da6-lock-0000000012", "lock-12"),
        ("_c_f5fd6747-e1b7-4202-a4bc-9474a7659da6-__READ__0000000000", "READ-0"),
        ("_c_f5fd6747e1b74202a4bc9474a7659da6-lease-0000000100", "lease-100"),
        ("f5fd6747e1b74202a4bc9474a7659da6__rlock__0000000003", "rlock-3"),
        ("x-72057594037927936-0000000007", "x-7"),
        ("_c_f5fd6747-e1b7-4202-a4bc-9474a7659da6-lock--2147483648", "lock-2147483648"),
        ("f5fd6747e1b74202a4bc9474a7659da6", "f5fd6747e1b74202a4bc9474a7659da6"),
        ("config", "config"),
        ("", ""),
    ] {
        assert_eq!(label(node), shown);
    }
}
