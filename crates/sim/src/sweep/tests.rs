//! Which sweeps have to meet all marks.

use super::{MARKS_SEEDS, Report};
use crate::marks::Mark;
use crate::story::Trim;

#[test]
fn marks_have_to_be_met_by_many_whole_stories_and_where_somebody_asks() {
    let trimmed = Trim {
        faults: false,
        ..Trim::NOTHING
    };
    let mut report = Report {
        seeds: MARKS_SEEDS - 1,
        ..Report::default()
    };
    assert!(!report.lacks_marks(Trim::NOTHING, false));
    assert!(report.lacks_marks(Trim::NOTHING, true));
    report.seeds += 1;
    assert!(report.lacks_marks(Trim::NOTHING, false));
    // What is left out can't be met.
    assert!(!report.lacks_marks(trimmed, false));
    assert!(report.lacks_marks(trimmed, true));
    for mark in Mark::ALL {
        report.marks.meet(*mark);
    }
    assert!(!report.lacks_marks(Trim::NOTHING, true));
}
