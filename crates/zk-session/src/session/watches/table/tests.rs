use super::*;

#[test]
fn the_slots_of_each_class_are_counted() {
    let mut table = Table::new(0);
    let counts = |table: &Table| [Class::Node, Class::Child].map(|class| table.count(class));
    let first = table.find_or_insert(Class::Node, "/a");
    for class in [Class::Node, Class::Child] {
        table.find_or_insert(class, "/b");
    }
    assert_eq!(counts(&table), [2, 1]);
    table.remove(first);
    assert_eq!(counts(&table), [1, 1]);
}

#[test]
fn names_that_collide_for_one_seed_do_not_for_others() {
    // The second word undoes what the difference in the first one does, if a hash has no secret
    // but its start.
    let [one, other] = ["/aaaaaaaaaaaaaaa", "/aaaaaa!aaa!aaa!"];
    let collides = |seed| {
        let table = Table::new(seed);
        table.hash(one) == table.hash(other)
    };
    assert!((0..1_000).filter(|seed| collides(SPREAD.wrapping_mul(*seed))).count() < 3);
}
