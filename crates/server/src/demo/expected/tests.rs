//! Tests of `demo::expected`.

use super::super::data::Source;
use super::super::desk::Desk;
use super::super::timeline::{Kind, Timeline};
use super::expected;

#[test]
fn the_year_sums_up_to_what_is_known_of_it() {
    let all = expected(&Source::read(None).unwrap()).unwrap();
    let by_status = [
        ["arrived", "327346"],
        ["cancelled", "5743"],
        ["diverted", "1175"],
    ];
    assert_eq!(all[1].rows, by_status);
    assert_eq!(all[0].rows.len(), 16);
    assert_eq!(all[4].rows[0][..3], ["16", "1458", "3322"]);
}

#[test]
fn the_replay_comes_to_the_same_counts() {
    let source = Source::read(None).unwrap();
    let timeline = Timeline::of(&source, 30).unwrap();
    let mut desk = Desk::default();
    for kind in Kind::ALL {
        let rows = timeline
            .events
            .iter()
            .filter(|event| event.kind == kind)
            .count();
        desk.count(kind, rows as i64, 0);
    }
    assert_eq!(desk.values()[..6], [0, 0, 327_346, 1_175, 5_743, 26_115]);
}
