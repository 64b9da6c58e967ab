use alloc::vec::Vec;

use super::*;

#[test]
fn values_are_found_by_their_numbers_until_they_are_removed() {
    let mut numbered = Numbered::new();
    let numbers: Vec<_> = (0..1_000).map(|value| numbered.push(value)).collect();
    assert_eq!(numbers, (1..=1_000).collect::<Vec<_>>());
    for number in (2..=1_000).step_by(2) {
        assert_eq!(numbered.remove(number), Some(number - 1));
        assert_eq!(numbered.remove(number), None);
    }
    assert!(numbered.iter().map(|(number, _)| *number).eq((1..1_000).step_by(2)));
    assert_eq!(numbered.get_mut(999), Some(&mut 998));
    assert_eq!(numbered.get_mut(1_000), None);
}

#[test]
fn it_frees_the_room_of_a_burst() {
    for stay in [0, 1] {
        let mut numbered = Numbered::new();
        let numbers: Vec<_> = (0..10_000).map(|value| numbered.push(value)).collect();
        for number in &numbers[stay..] {
            assert!(numbered.remove(*number).is_some());
        }
        assert_eq!(numbered.len(), stay);
        assert!(numbered.values.capacity() <= MAX_KEPT, "{}", numbered.values.capacity());
        assert_eq!(numbered.push(0), 10_001);
    }
}
