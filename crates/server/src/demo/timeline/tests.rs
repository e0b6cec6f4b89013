//! Tests of `demo::timeline`.

use std::collections::HashMap;

use super::super::data::Source;
use super::{Event, Kind, Timeline, Told, cut, observed};

#[test]
fn the_year_is_a_million_changes_each_flights_in_order() {
    let source = Source::read(None).unwrap();
    let timeline = Timeline::of(&source, 30).unwrap();
    let reference = 16 + 1_458 + 3_322;
    let changes = timeline.events.len() + reference;
    assert!((1_000_000..1_100_000).contains(&changes), "{changes}");
    let mut last: HashMap<u32, (i64, Kind)> = HashMap::new();
    for event in &timeline.events {
        if event.kind == Kind::Weather {
            continue;
        }
        let now = (event.second, event.kind);
        let before = last.insert(event.row, now);
        match before {
            None => assert_eq!(event.kind, Kind::Scheduled),
            Some(before) => assert!(before.1 < event.kind && before.0 < event.second),
        }
    }
    assert_eq!(last.len(), 336_776);
    let covered: usize = timeline.steps.iter().map(|step| step.events.len()).sum();
    assert_eq!(covered, timeline.events.len());
    assert!(timeline.steps.is_sorted_by_key(|step| step.until));
}

#[test]
fn what_is_known_decides_what_is_seen() {
    let told = Told {
        scheduled: 100_000,
        dep_delay: Some(-5),
        arrived: true,
        air_minutes: Some(60),
        distance: 700,
        has_plane: true,
    };
    let kinds = |told| observed(told).map(|seen| seen.map(|(_, kind)| kind));
    let [_, left, there] = observed(told);
    assert_eq!(left, Some((100_000 - 300, Kind::Departed)));
    assert_eq!(there, Some((100_000 - 300 + 3_600 + 1_500, Kind::Arrived)));
    let elsewhere = Told {
        arrived: false,
        air_minutes: None,
        ..told
    };
    assert_eq!(kinds(elsewhere)[2], Some(Kind::Diverted));
    let stays = Told {
        dep_delay: None,
        ..told
    };
    assert_eq!(kinds(stays)[1], Some(Kind::Cancelled));
    let never = Told {
        has_plane: false,
        ..stays
    };
    assert_eq!(
        kinds(never),
        [Some(Kind::Scheduled), Some(Kind::Removed), None]
    );
}

#[test]
fn steps_are_cut_by_the_clock() {
    let event = |second| Event {
        second,
        kind: Kind::Weather,
        row: 0,
    };
    let events = [event(0), event(1_799), event(1_800), event(9_000)];
    let steps = cut(&events, 1_800);
    let ranges: Vec<_> = steps
        .iter()
        .map(|step| (step.until, step.events.clone()))
        .collect();
    assert_eq!(ranges, [(1_800, 0..2), (3_600, 2..3), (10_800, 3..4)]);
}
