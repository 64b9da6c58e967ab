//! The permit nodes, read from a list of the children.

use uuid::Uuid;

use crate::attempt::{Name, Scheme};

/// Reads the permit nodes for one contender.
pub(super) struct PermitNodes {
    pub(super) guid: Uuid,
}

impl PermitNodes {
    /// Returns how many permits are taken, up to and including ours. Later ones do not block us. If
    /// the sequence numbers do not show the order, all count.
    pub(super) fn taken<'a>(&self, children: impl Iterator<Item = &'a str> + Clone) -> usize {
        let all = children.clone().filter_map(|child| Scheme::CURATOR_LEASE.parse(child));
        let last = self.own(children).map(|name| name.sequence.0).max();
        let in_order = all.clone().all(|name| name.has_safe_sequence());
        let counts = |name: &Name<'_>| !in_order || last.is_none_or(|last| name.sequence.0 <= last);
        all.filter(counts).count()
    }

    fn own<'a>(&self, children: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Name<'a>> {
        let guid = self.guid;
        let names = children.filter_map(|child| Scheme::CURATOR_LEASE.parse(child));
        names.filter(move |name| name.guid == Some(guid))
    }
}

#[cfg(test)]
mod tests {
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
        PermitNodes { guid: Uuid::from_u128(1) }.taken(children)
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
}
