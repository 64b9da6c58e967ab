//! Tests of values drawn from bytes.

use alloc::collections::BTreeSet;

use super::*;

#[test]
fn bytes_become_valid_paths_and_lists_of_all_kinds() {
    let bytes = (0..=0xfff_u16).map(u16::to_be_bytes);
    let depth = |bytes: [u8; 2]| {
        let path = path_from(&mut Unstructured::new(&bytes)).expect("enough bytes");
        crate::ZnodePath::parse(&path).expect("a valid path").ancestors().count()
    };
    assert_eq!(bytes.clone().map(depth).collect::<BTreeSet<_>>(), [0, 1, 2].into());
    let is_empty = |bytes: [u8; 2]| {
        let list = List::<bool>::arbitrary(&mut Unstructured::new(&bytes));
        list.expect("enough bytes").0.map(|items| items.is_empty())
    };
    let lists: BTreeSet<_> = bytes.map(is_empty).collect();
    assert_eq!(lists, [None, Some(false), Some(true)].into(), "null, with items and empty");
}
