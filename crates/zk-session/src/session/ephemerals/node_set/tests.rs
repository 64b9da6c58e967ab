use alloc::collections::BTreeSet;

use super::*;

#[test]
fn it_has_what_was_inserted_and_not_removed() {
    let mut random = fastrand::Rng::with_seed(1);
    // With a shift, all hashes belong to few places.
    for (most, shift) in [(4, 0), (40, 0), (40, 60), (1000, 0), (1000, 32)] {
        let (mut set, mut model) = (NodeSet::default(), BTreeSet::new());
        for round in 0..20_000 {
            let hash = random.u64(1..=most) << shift | 1 << 63;
            let grows = round / 2_000 % 2 == 0;
            if (random.u8(0..8) > 0) == grows {
                assert_eq!(set.insert(hash), model.insert(hash));
            } else {
                assert_eq!(set.remove(hash), model.remove(&hash));
            }
            assert_eq!(set.len, model.len());
            assert_eq!(set.places.is_empty(), model.is_empty());
        }
    }
}
