use super::*;

#[test]
fn names_that_collide_for_one_seed_do_not_for_others() {
    // The second word undoes what the difference in the first one does, if a hash has no secret
    // but its start.
    let [one, other] = ["/aaaaaaaaaaaaaaa", "/aaaaaa!aaa!aaa!"];
    let collides = |seed| {
        let hash =
            |path: &str| Hasher::new(path, seed).prefix(path.len()).map(|(_, hash)| hash as u32);
        hash(one) == hash(other)
    };
    assert!((0..1_000).filter(|seed| collides(SPREAD.wrapping_mul(*seed))).count() < 3);
}
