//! Tests of `demo::stats`.

use lazybase_model::SourceCounts;

use super::super::questions::Question;
use super::{Sample, summarise, summary_table};

fn sample(level: usize, latency_us: u64, open_batches: u64) -> Sample {
    Sample {
        at_us: 0,
        question: Question::Cut,
        level,
        latency_us,
        staleness_us: latency_us * 2,
        left_out: 0,
        sources: SourceCounts {
            open_batches,
            authority_runs: 1,
            bytes_read: 2_048,
            ..SourceCounts::default()
        },
    }
}

#[test]
fn answers_are_summed_up_by_what_they_asked() {
    let samples = [
        sample(0, 100, 0),
        sample(0, 300, 0),
        sample(3, 700, 1),
        sample(3, 900, 0),
    ];
    let levels = summarise(&samples);
    assert_eq!(levels.len(), 4);
    assert_eq!((levels[0].queries, levels[0].latency_median_us), (2, 100));
    assert_eq!(levels[0].staleness_max_us, 600);
    assert_eq!(levels[1].queries, 0);
    assert_eq!(levels[3].stages[&"open"], 1);
    let table = summary_table(&levels);
    let last = table.lines().last().unwrap();
    assert!(last.ends_with("authority, open 50%"), "{table}");
    assert!(table.contains("best effort"), "{table}");
}
