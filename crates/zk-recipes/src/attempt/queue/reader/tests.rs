//! Tests of the position of a contender.

use alloc::format;
use alloc::vec;

use zk_session::proto::SessionId;

use super::*;
use crate::attempt::name::fast::LAST_SAFE_KEY;
use crate::attempt::queue::LAST_SAFE_SEQUENCE;

fn queue_reader(scheme: Scheme, mode: LockMode, guid: u128) -> QueueReader {
    QueueReader {
        scheme,
        unknown_nodes: UnknownNodePolicy::default(),
        mode,
        guid: Uuid::from_u128(guid),
    }
}

fn node(scheme: Scheme, mode: LockMode, guid: u128, sequence: i32) -> String {
    let prefix = scheme.prefix(mode, Uuid::from_u128(guid), SessionId(1));
    format!("{prefix}{sequence:010}")
}

fn name(guid: u128, sequence: i32) -> String {
    node(Scheme::CURATOR_MUTEX, LockMode::Exclusive, guid, sequence)
}

fn observe<'a>(
    queue_reader: &QueueReader,
    own: &str,
    children: impl Iterator<Item = &'a str>,
) -> Observation {
    let mut seen = Observation::default();
    queue_reader.observe(own, children, &mut seen);
    seen
}

/// The position of a mutex's contender that owns `own`.
fn position(own: &str, children: &[&str]) -> QueuePosition {
    let guid = Scheme::CURATOR_MUTEX.parse(own).and_then(|name| name.guid);
    let guid = guid.unwrap_or(Uuid::from_u128(1)).as_u128();
    let queue_reader = queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, guid);
    observe(&queue_reader, own, children.iter().copied()).position()
}

fn behind(predecessor: &str, ahead: usize) -> QueuePosition {
    QueuePosition::Behind { predecessor: predecessor.to_string(), ahead }
}

#[test]
fn lower_contenders_block_and_only_the_nearest_is_watched() {
    // GUIDs in reverse order: names must not be compared as text.
    let names: Vec<_> = (0..4).map(|n| name(9 - n as u128, n)).collect();
    let children =
        [&*names[3], "junk", &*names[1], "_c_junk-lock-0000000000", &*names[0], &*names[2]];
    assert_eq!(position(&names[0], &children), QueuePosition::First);
    for n in 1..4 {
        assert_eq!(position(&names[n], &children), behind(&names[n - 1], n));
    }
    assert_eq!(position(&name(7, 7), &children), QueuePosition::Absent);
}

#[test]
fn readers_wait_only_for_lower_writers() {
    const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
    let queue = "WRRWRW";
    let mode = |role| if role == 'W' { LockMode::Exclusive } else { LockMode::Shared };
    let names: Vec<_> = (0..)
        .zip(queue.chars())
        .map(|(n, role)| node(SCHEME, mode(role), 20 - n as u128, n))
        .collect();
    let expected = [None, Some((0, 1)), Some((0, 1)), Some((2, 3)), Some((3, 2)), Some((4, 5))];
    for (n, (role, blocked)) in queue.chars().zip(expected).enumerate() {
        let queue_reader = queue_reader(SCHEME, mode(role), 20 - n as u128);
        let position =
            observe(&queue_reader, &names[n], names.iter().map(String::as_str)).position();
        let expected =
            blocked.map_or(QueuePosition::First, |(by, ahead)| behind(&names[by], ahead));
        assert_eq!(position, expected, "number {n}");
    }
}

#[test]
fn both_nodes_of_a_downgrade_block_others_but_not_their_owner() {
    const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
    let writer = node(SCHEME, LockMode::Exclusive, 2, 5);
    let reader = node(SCHEME, LockMode::Shared, 2, 5);
    let next = node(SCHEME, LockMode::Exclusive, 1, 6);
    for there in [vec![&writer, &reader], vec![&writer], vec![&reader]] {
        let children = there.iter().map(|node| node.as_str()).chain([&*next]);
        let writes = queue_reader(SCHEME, LockMode::Exclusive, 1);
        let position = observe(&writes, &next, children.clone()).position();
        assert!(
            matches!(position, QueuePosition::Behind { ahead, .. } if ahead == there.len()),
            "{position:?}"
        );
        if there.contains(&&reader) {
            let reads = queue_reader(SCHEME, LockMode::Shared, 2);
            let position = observe(&reads, &reader, children).position();
            assert_eq!(position, QueuePosition::First);
        }
    }
}

#[test]
fn sequence_numbers_out_of_the_safe_range_decide_nothing() {
    for other in [i32::MAX, LAST_SAFE_SEQUENCE + 1, -1, i32::MIN] {
        let (own, other) = (name(1, 5), name(2, other));
        assert_eq!(position(&own, &[&own, &other]), QueuePosition::Exhausted, "{other}");
    }
    let (own, other) = (name(1, 5), name(2, LAST_SAFE_SEQUENCE));
    assert_eq!(position(&own, &[&own, &other]), QueuePosition::First);
}

#[test]
fn czxids_decide_if_sequence_numbers_are_unusable() {
    let (one, two, own) = (name(2, -7), name(3, i32::MAX), name(1, i32::MIN));
    let queue_reader = queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1);
    let ranked = [(Zxid(9), &*one), (Zxid(5), &*two), (Zxid(7), &*own)];
    assert_eq!(queue_reader.position_by_czxid(Zxid(7), ranked.into_iter()), behind(&two, 1));
    assert_eq!(
        queue_reader.position_by_czxid(Zxid(7), [ranked[0], ranked[2]].into_iter()),
        QueuePosition::First
    );
}

#[test]
fn of_two_with_the_same_number_only_one_is_first() {
    // No server does that, but a client may choose the name of a node.
    let (one, two) = (name(1, 5), name(2, 5));
    let children = [&*two, &*one];
    assert_eq!(position(&one, &children), QueuePosition::First);
    assert_eq!(position(&two, &children), behind(&one, 1));
}

/// The expected result of [`QueueReader::observe`], computed by parsing every name in full.
fn position_by_full_parse(
    queue_reader: &QueueReader,
    own: &str,
    children: &[&str],
) -> QueuePosition {
    let own_name =
        queue_reader.scheme.parse(own).filter(|own| own.guid.is_some() && own.has_safe_sequence());
    let others = children.iter().filter(|child| **child != own);
    let names: Vec<_> = others.map(|child| (*child, queue_reader.scheme.parse(child))).collect();
    let place = |child: &str| {
        let number = child.split_at_checked(child.len().wrapping_sub(10));
        (number.map_or(child, |(_, number)| number).to_string(), child.to_string())
    };
    let is_exhausted =
        |(_, name): &(_, Option<Name<'_>>)| name.is_some_and(|it| !it.has_safe_sequence());
    if !children.contains(&own) {
        return QueuePosition::Absent;
    }
    if own_name.is_none() || names.iter().any(is_exhausted) {
        return QueuePosition::Exhausted;
    }
    let mut before: Vec<_> = names
        .iter()
        .filter_map(|(child, name)| match name {
            Some(name) if name.guid == Some(queue_reader.guid) => None,
            Some(name) => Some((place(child), name.mode)),
            None if queue_reader.unknown_nodes == UnknownNodePolicy::Count => {
                Some(((child.to_string(), child.to_string()), LockMode::Shared))
            }
            None => None,
        })
        .filter(|(at, mode)| *at < place(own) && queue_reader.is_blocked_by(*mode))
        .collect();
    before.sort();
    match before.last() {
        None => QueuePosition::First,
        Some(((_, child), _)) => behind(child, before.len()),
    }
}

#[test]
fn the_fast_parser_agrees_with_the_full_parser() {
    compare_parsers(4_000, 7);
}

/// The first test takes so little time that `.ci/mutants` uses it.
#[test]
#[ignore = "some seconds; in a release build one"]
fn the_fast_parser_agrees_with_the_full_parser_in_many_lists() {
    compare_parsers(20_000, 8);
}

fn compare_parsers(lists: usize, mut seed: u64) {
    let mut draw = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let schemes = [
        Scheme::CURATOR_MUTEX,
        Scheme::CURATOR_READ_WRITE,
        Scheme::GO_ZK,
        Scheme::KAZOO_READ_WRITE,
        Scheme::ZOOKEEPER_RECIPE,
        Scheme::private("mine-", Some("ours-")),
        Scheme::private("1", Some("12")),
    ];
    let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, LAST_SAFE_SEQUENCE - 1, LAST_SAFE_SEQUENCE];
    let bad_numbers = [LAST_SAFE_SEQUENCE + 1, i32::MAX, -1, i32::MIN];
    let odd = ['0', '3', '9', 'g', 'A', 'F', 'w', '-', '_', '/', ':', '@', '`', '\u{0}', 'ü'];
    let (mut read, mut parsed) = (0, 0);
    for _ in 0..lists {
        let scheme = schemes[draw(schemes.len())];
        let modes = [LockMode::Shared, LockMode::Exclusive];
        let is_spoilt = draw(4) == 0;
        let count = 1 + draw(24);
        let mut children = Vec::new();
        for _ in 0..count {
            let writer = if draw(8) == 0 { schemes[draw(schemes.len())] } else { scheme };
            let guid = 1_u128 << (96 + 8 * draw(4)) | draw(2) as u128;
            let number = match draw(40) {
                0 => bad_numbers[draw(bad_numbers.len())],
                _ => numbers[draw(numbers.len())],
            };
            let mut child = node(writer, modes[draw(2)], guid, number);
            if is_spoilt {
                let at = draw(child.len());
                child.replace_range(at..=at, odd[draw(odd.len())].encode_utf8(&mut [0; 4]));
            }
            if draw(16) == 0 {
                child = child.to_uppercase().replace("_C_", "_c_").replace("LOCK", "lock");
            }
            children.push(child);
        }
        children.sort();
        children.dedup();
        let fast_parser = FastParser::new(&scheme, usize::MAX);
        for child in &children {
            let name = scheme.parse(child);
            read += usize::from(name.is_some());
            if let Some(fast) = fast_parser.parse(child) {
                parsed += 1;
                let name = name.unwrap_or_else(|| panic!("{child} by {scheme:?}"));
                assert_eq!(fast.mode, name.mode, "{child}");
                assert_eq!(fast.digits, sort_key(child).digits(), "{child}");
                let prefix = |guid| scheme.prefix(name.mode, guid, SessionId(0));
                let tag = name.guid.and_then(|guid| guid_tag_of(prefix(guid).as_bytes()));
                assert_eq!(Some(fast.guid_tag), tag);
                assert_eq!(name.has_safe_sequence(), fast.digits <= LAST_SAFE_KEY, "{child}");
            }
        }
        let own = children[draw(children.len())].clone();
        let guid = scheme.parse(&own).and_then(|name| name.guid).unwrap_or_default();
        let list: Vec<_> = children.iter().map(String::as_str).collect();
        let list = if draw(16) == 0 { &list[1..] } else { &list[..] };
        for unknown_nodes in [
            UnknownNodePolicy::Ignore,
            UnknownNodePolicy::RefuseOtherLocks,
            UnknownNodePolicy::Count,
        ] {
            for mode in modes {
                let queue_reader = QueueReader { scheme, unknown_nodes, mode, guid };
                let whole = observe(&queue_reader, &own, list.iter().copied());
                let mut others = list.iter().filter(|child| **child != own);
                let expected = others.find(|child| scheme.parse(child).is_none());
                assert_eq!(whole.unknown_node.as_deref(), expected.copied());
                let mut in_pieces = Observation::default();
                for piece in list.chunks(1 + draw(4)) {
                    queue_reader.observe(&own, piece.iter().copied(), &mut in_pieces);
                }
                assert_eq!(in_pieces.unknown_node, whole.unknown_node);
                assert_eq!(in_pieces.refusal, whole.refusal);
                let position = whole.position();
                for expected in
                    [position_by_full_parse(&queue_reader, &own, list), in_pieces.position()]
                {
                    assert_eq!(position, expected, "{own} in {list:?} by {queue_reader:?}");
                }
            }
        }
    }
    assert_eq!(LAST_SAFE_KEY, sort_key(&format!("{LAST_SAFE_SEQUENCE:010}")).digits());
    assert!(parsed > read / 2, "{parsed} of {read} by the fast parser");
}

#[test]
fn an_unreadable_own_number_leaves_the_order_unknown() {
    let own = name(1, 5).replace("0000000005", "3000000000");
    assert_eq!(position(&own, &[&own, &name(2, 5)]), QueuePosition::Exhausted);
    assert_eq!(position(&own, &[&name(2, 5)]), QueuePosition::Absent);
}

#[test]
fn an_unknown_child_counts_where_curator_sorts_it() {
    let own = name(1, 5);
    let see = |unknown_nodes, child: &'static str| {
        let children = [child, &*own];
        let queue_reader = QueueReader {
            unknown_nodes,
            ..queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1)
        };
        let observation = observe(&queue_reader, &own, children.into_iter());
        assert_eq!(observation.unknown_node.as_deref(), Some(child));
        observation.position()
    };
    assert_eq!(see(UnknownNodePolicy::Count, "0000000004"), behind("0000000004", 1));
    assert_eq!(see(UnknownNodePolicy::Count, "-early"), behind("-early", 1));
    assert_eq!(see(UnknownNodePolicy::Count, "lease_holder"), QueuePosition::First);
    assert_eq!(see(UnknownNodePolicy::Ignore, "0000000004"), QueuePosition::First);
}

#[test]
fn a_lock_is_taken_if_a_new_contender_would_wait() {
    const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
    let (reader, writer) =
        (node(SCHEME, LockMode::Shared, 2, 1), node(SCHEME, LockMode::Exclusive, 3, 2));
    let taken =
        |mode, child: &str| queue_reader(SCHEME, mode, 1).is_taken([child, "junk"].into_iter());
    assert!(taken(LockMode::Exclusive, &reader) && taken(LockMode::Exclusive, &writer));
    assert!(taken(LockMode::Shared, &writer) && !taken(LockMode::Shared, &reader));
    assert!(!taken(LockMode::Exclusive, "more junk"));
}

#[test]
fn nodes_are_found_by_guid_and_mode() {
    let (low, high, other) = (name(1, 3), name(1, 8), name(2, 4));
    let queue_reader = queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1);
    let ours = |queue_reader: QueueReader, children: &[&str]| -> Vec<String> {
        let mut seen = Observation::default();
        children.iter().for_each(|child| queue_reader.find_ours(child, &mut seen));
        seen.ours.into_iter().map(|(_, child)| child).collect()
    };
    assert_eq!(ours(queue_reader, &[&high, &other, &low, "junk"]), [&*low, &*high]);
    let children = [(LockMode::Shared, 1), (LockMode::Exclusive, 2)]
        .map(|(mode, n)| node(Scheme::CURATOR_READ_WRITE, mode, 1, n));
    let queue_reader = QueueReader { scheme: Scheme::CURATOR_READ_WRITE, ..queue_reader };
    assert_eq!(ours(queue_reader, &[&children[0], &children[1]]), [&*children[1]]);
}
