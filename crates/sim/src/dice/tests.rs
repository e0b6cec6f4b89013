//! Dice repeat themselves, and purposes do not disturb each other.

use super::Dice;

#[test]
fn the_same_seed_and_purpose_give_the_same_numbers() {
    let draw = |seed, purpose| {
        let mut dice = Dice::of(seed, purpose);
        (0..20).map(|_| dice.between(3, 9)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1, 2), draw(1, 2));
    assert_ne!(draw(1, 2), draw(1, 3));
    assert_ne!(draw(1, 2), draw(2, 2));
    assert!(draw(5, 5).iter().all(|number| (3..=9).contains(number)));
}
