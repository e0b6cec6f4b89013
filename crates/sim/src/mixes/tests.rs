//! Answers are counted under the stages that they came from, whichever was named first.

use lazybase_model::Stage;

use super::Mixes;

#[test]
fn answers_are_counted_by_sets_of_stages() {
    let mut mixes = Mixes::default();
    assert_eq!(format!("{mixes} {mixes:?}"), " []");
    mixes.count(&[Stage::Open, Stage::Authority]);
    mixes.count(&[Stage::Authority, Stage::Open]);
    mixes.count(&[Stage::Sorted]);
    mixes.count(&[]);
    let mut sum = Mixes::default();
    sum.count(&Stage::ALL);
    sum.add(&mixes);
    let all = "open+ingested+remapped+sorted+merged+authority";
    let expected = [
        ("nothing", 1),
        ("sorted", 1),
        ("open+authority", 2),
        (all, 1),
    ];
    let expected = expected.map(|(stages, count)| (stages.to_owned(), count));
    assert_eq!(sum.named().collect::<Vec<_>>(), expected);
    assert_eq!((mixes.of_several(), sum.of_several()), (2, 3));
    let told = format!("nothing 1, sorted 1, open+authority 2, {all} 1");
    assert_eq!(sum.to_string(), told);
}
