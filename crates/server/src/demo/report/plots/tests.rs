//! Tests of `demo::report::plots`.

use lazybase_model::SourceCounts;

use super::super::super::questions::Question;
use super::super::super::stats::{PipelineSample, Sample};
use super::{latency, latency_decades, millis_text, pipeline, stacked, staleness};

fn answer(latency_us: u64, staleness_us: u64) -> Sample {
    Sample {
        at_us: 2_000_000,
        question: Question::Late,
        level: 2,
        latency_us,
        staleness_us,
        left_out: 0,
        sources: SourceCounts::default(),
    }
}

#[test]
fn latencies_lie_between_powers_of_ten() {
    let ticks = |latencies_us: &[u64]| -> Vec<String> {
        let samples: Vec<Sample> = latencies_us.iter().map(|us| answer(*us, 0)).collect();
        let decades = latency_decades(&samples);
        decades.into_iter().map(millis_text).collect()
    };
    assert_eq!(ticks(&[]), ["1 ms", "10 ms"]);
    assert_eq!(
        ticks(&[300, 1_200_000]),
        ["0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
    );
    // What no clock can tell from nothing is drawn at the foot.
    assert_eq!(ticks(&[0, 900]), ["0.01 ms", "0.1 ms", "1 ms"]);
}

#[test]
fn a_plot_of_latency_has_a_dot_for_each_answer_and_the_median_by_name() {
    let samples = [2_000, 3_000, 40_000].map(|latency_us| answer(latency_us, 0));
    let decades = latency_decades(&samples);
    let svg = latency(&samples, Question::Late, &decades).unwrap();
    assert_eq!(svg.matches("<circle ").count(), 3);
    assert!(svg.contains("3.00 ms") && svg.contains("100 ms"), "{svg}");
    let other = latency(&samples, Question::Cut, &decades).unwrap();
    assert_eq!(other.matches("<circle ").count(), 0);
    assert!(!other.contains("3.00 ms") && other.contains("100 ms"));
}

#[test]
fn a_bound_is_drawn_where_the_answers_come_near_it() {
    let samples = [answer(1_000, 900_000)];
    let drawn = |level| staleness(&samples, level).unwrap();
    assert!(drawn(2).contains("asked: no staler") && drawn(2).contains("<circle "));
    // Ten seconds lie far above, and neither best effort nor everything has a bound to draw.
    for level in [0, 1, 3] {
        assert!(!drawn(level).contains("asked: no staler"), "{level}");
    }
}

#[test]
fn stages_are_stacked_from_the_authority_up() {
    let sample = PipelineSample {
        at_us: 5_000_000,
        open_batches: 7,
        scus: [1, 2, 3, 40],
        ..PipelineSample::default()
    };
    assert_eq!(stacked(&sample), [47.0, 46.0, 45.0, 43.0, 40.0]);
    let svg = pipeline(&[PipelineSample::default(), sample]).unwrap();
    assert_eq!(svg.matches("<polygon ").count(), 5);
}
