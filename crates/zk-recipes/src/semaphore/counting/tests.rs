//! Tests of counting the permits that are taken.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use zk_session::proto::{SequenceNumber, SessionId};

use super::*;
use crate::attempt::LockMode;

fn permit_node(guid: u128, number: i32) -> String {
    let guid = Uuid::from_u128(guid);
    let prefix = Scheme::CURATOR_LEASE.prefix(LockMode::Exclusive, guid, SessionId(1));
    format!("{prefix}{}", SequenceNumber(number))
}

fn taken(permit_nodes: &[(u128, i32)]) -> usize {
    let names: Vec<_> =
        permit_nodes.iter().map(|(guid, number)| permit_node(*guid, *number)).collect();
    let children = names.iter().map(String::as_str).chain(["junk"]);
    permits_taken(Uuid::from_u128(1), children)
}

#[test]
fn permit_nodes_up_to_ours_count_and_unknown_children_do_not() {
    assert_eq!(taken(&[(2, 3), (1, 5), (3, 4), (4, 9)]), 3);
    assert_eq!(taken(&[(1, 5), (1, 6), (2, 7)]), 2);
    assert_eq!(taken(&[(2, 3), (3, 4)]), 2);
}

#[test]
fn all_permit_nodes_count_if_sequence_numbers_are_unusable() {
    assert_eq!(taken(&[(2, i32::MAX), (1, -5), (3, 4)]), 3);
    assert_eq!(taken(&[(1, 5), (2, i32::MIN)]), 2);
}
