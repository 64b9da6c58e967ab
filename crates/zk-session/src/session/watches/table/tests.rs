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
