//! What a list of a lock's directory says: who is in the queue, and who blocks whom.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use uuid::Uuid;

use super::name::Scheme;

/// Numbers this close to the end of the range, or beyond it, do not tell who came first.
///
/// From 2147483647 on, servers since 3.6 hand out the same number again and again, or negative
/// ones when requests overlap (ZOOKEEPER-3249); no order of such names is safe. The distance
/// leaves room for requests under way.
const LAST_SAFE: i32 = i32::MAX - (1 << 20);

/// The queue, as seen by one contender in one list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Our node is not there.
    Absent,
    /// The numbers of the directory are used up, or ours is none that we can read, so nobody can
    /// tell who is first.
    Exhausted,
    /// Nobody is before us.
    First,
    /// Somebody is.
    Behind {
        /// The one immediately before us: the only one worth watching. To watch any other, or
        /// the directory, would wake many when only one can go on: the herd effect.
        predecessor: String,
        /// How many are before us.
        ahead: usize,
    },
}

impl View {
    /// What `children` mean for the contender that owns `own`.
    pub(super) fn of<'a>(
        scheme: Scheme,
        own: &str,
        children: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        if !children.clone().any(|child| child == own) {
            return Self::Absent;
        }
        let contenders = children.filter_map(|child| scheme.parse(child));
        let readable = contenders.clone().find(|name| name.child == own);
        let Some(own) = readable.map(|name| name.place()) else {
            return Self::Exhausted;
        };
        if contenders.clone().any(|name| !(0..=LAST_SAFE).contains(&name.sequence.0)) {
            return Self::Exhausted;
        }
        let lower = contenders.filter(|name| name.place() < own);
        match lower.clone().max_by_key(|name| name.place()) {
            None => Self::First,
            Some(predecessor) => {
                Self::Behind { predecessor: predecessor.child.to_string(), ahead: lower.count() }
            }
        }
    }
}

/// The nodes that carry `guid`, lowest first.
pub(super) fn nodes_of<'a>(
    scheme: Scheme,
    guid: Uuid,
    children: impl Iterator<Item = &'a str>,
) -> Vec<&'a str> {
    let ours = children.filter_map(|child| scheme.parse(child)).filter(|name| name.guid == guid);
    let mut ours: Vec<_> = ours.collect();
    ours.sort_unstable_by_key(|name| name.place());
    ours.into_iter().map(|name| name.child).collect()
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const SCHEME: Scheme = Scheme::CURATOR_MUTEX;

    fn name(guid: u128, sequence: i32) -> String {
        format!("{}{sequence:010}", SCHEME.prefix(Uuid::from_u128(guid)))
    }

    fn view(own: &str, children: &[&str]) -> View {
        View::of(SCHEME, own, children.iter().copied())
    }

    #[test]
    fn only_lower_contenders_block_and_only_the_highest_of_them_is_watched() {
        // Guids in the opposite order of numbers: names must not be compared as text.
        let names: Vec<_> = (0..4).map(|n| name(9 - n as u128, n)).collect();
        let children =
            [&*names[3], "junk", &*names[1], "_c_junk-lock-0000000000", &*names[0], &*names[2]];
        assert_eq!(view(&names[0], &children), View::First);
        for n in 1..4 {
            let predecessor = names[n - 1].clone();
            assert_eq!(view(&names[n], &children), View::Behind { predecessor, ahead: n });
        }
        assert_eq!(view(&name(7, 7), &children), View::Absent);
    }

    #[test]
    fn numbers_at_the_end_of_the_range_decide_nothing() {
        for other in [i32::MAX, LAST_SAFE + 1, -1, i32::MIN] {
            let (own, other) = (name(1, 5), name(2, other));
            assert_eq!(view(&own, &[&own, &other]), View::Exhausted, "{other}");
        }
        let (own, other) = (name(1, 5), name(2, LAST_SAFE));
        assert_eq!(view(&own, &[&own, &other]), View::First);
    }

    #[test]
    fn of_two_with_one_number_only_one_is_first() {
        // No server does that; somebody may have chosen the name of a node.
        let (one, two) = (name(1, 5), name(2, 5));
        let children = [&*two, &*one];
        assert_eq!(view(&one, &children), View::First);
        assert_eq!(view(&two, &children), View::Behind { predecessor: one.clone(), ahead: 1 });
    }

    #[test]
    fn our_own_number_must_be_readable() {
        let own = format!("{}3000000000", SCHEME.prefix(Uuid::from_u128(1)));
        assert_eq!(view(&own, &[&own, &name(2, 5)]), View::Exhausted);
        assert_eq!(view(&own, &[&name(2, 5)]), View::Absent);
    }

    #[test]
    fn nodes_are_found_by_guid() {
        let (low, high, other) = (name(1, 3), name(1, 8), name(2, 4));
        let found = nodes_of(SCHEME, Uuid::from_u128(1), [&*high, &*other, &*low].into_iter());
        assert_eq!(found, [&*low, &*high]);
    }
}
