//! Tests of `demo::stats`.

use lazybase_model::SourceCounts;

use super::super::questions::Question;
use super::{Sample, cost_table, price, read_table, summarise};

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
    let cost = cost_table(&levels);
    assert!(cost.contains("best effort"), "{cost}");
    let read = read_table(&levels);
    let last: Vec<&str> = read.lines().last().unwrap().split_whitespace().collect();
    let expected = "0 50 % - - - 100 % 1 2.0 KiB";
    assert_eq!(last.join(" "), expected, "{read}");
    for line in cost.lines().chain(read.lines()) {
        assert!(line.len() <= 80, "{line:?} is wider than a plain terminal");
    }
}

#[test]
fn the_price_is_told_as_it_is() {
    let price = |stale, fresh| price(&summarise(&[sample(0, stale, 0), sample(3, fresh, 1)]));
    assert!(price(100, 250).unwrap().contains("2.5 times as long as"));
    assert!(price(100, 104).unwrap().contains("about as long as"));
    assert!(price(100, 50).unwrap().contains("less than"));
    assert_eq!(super::price(&summarise(&[])), None);
}
