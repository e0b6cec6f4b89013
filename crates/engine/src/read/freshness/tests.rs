//! Bounds, floors, misses and `AS OF` on manifests written as text, and a sweep over all of them.

use lazybase_model::BatchCount;

use super::*;
use crate::manifest::{Manifest, literal};

const SECOND: i64 = 1_000_000;

/// SCUs up to 109 sorted, 110 sealed; the open one is 111. SCU n was acknowledged from second n on.
const BUSY: &str = "sealed 110 sorted 109
    table t
      range ..m
        base 1..=100 64M
        merged 101..=104 50M
        sorted 105 1M
        sorted 106 1M
        sorted 107 1M
        sorted 108 1M
        sorted 109 1M
      range m..
        base 1..=100 64M
        merged 101..=109 1M ct=104
    table quiet
      range ..
        base 1..=109 8M ct=50";

fn unsorted(scu: u64, sealed: bool, bytes: &[(u32, u64)]) -> UnsortedSummary {
    let acks: Vec<i64> = (0..10)
        .map(|at| scu as i64 * SECOND + at * SECOND / 10)
        .collect();
    UnsortedSummary {
        scu: ScuNumber(scu),
        sealed,
        acks: Acks::Each(acks.into()),
        bytes: bytes
            .iter()
            .map(|(table, bytes)| (TableId(*table), *bytes))
            .collect(),
    }
}

struct Question {
    manifest: Manifest,
    unsorted: Vec<UnsortedSummary>,
    now_micros: i64,
    floor: Horizon,
    on_miss: OnMiss,
    at: Option<Horizon>,
    tables: Option<Vec<TableId>>,
}

impl Question {
    fn of(text: &str, unsorted: Vec<UnsortedSummary>) -> Question {
        Question {
            manifest: literal::manifest(text).unwrap(),
            unsorted,
            now_micros: 112 * SECOND,
            floor: Horizon::ZERO,
            on_miss: OnMiss::Dig,
            at: None,
            tables: None,
        }
    }

    fn busy() -> Question {
        let unsorted = vec![
            unsorted(110, true, &[(1, 1000)]),
            unsorted(111, false, &[(1, 500)]),
        ];
        Question::of(BUSY, unsorted)
    }

    fn ask(&self, freshness: &str) -> Result<Choice> {
        choose(&FreshnessInput {
            index: &ReadIndex::new(&self.manifest),
            unsorted: &self.unsorted,
            now_micros: self.now_micros,
            freshness: freshness.parse()?,
            floor: self.floor,
            on_miss: self.on_miss,
            at: self.at,
            tables: self.tables.as_deref(),
        })
    }

    /// Horizon, unsorted sources, runs of the first range.
    fn answer(&self, freshness: &str) -> String {
        match self.ask(freshness) {
            Ok(choice) => {
                let unsorted: Vec<String> = choice
                    .unsorted_scus
                    .iter()
                    .map(|(scu, batches)| format!(" {scu}x{batches}"))
                    .collect();
                let runs: Vec<u64> = choice.paths[0].ranges[0]
                    .runs
                    .iter()
                    .map(|run| run.0)
                    .collect();
                format!("{}{} {runs:?}", choice.horizon, unsorted.concat())
            }
            Err(error) => error.to_string(),
        }
    }
}

fn inside(scu: u64, batches: u32) -> Horizon {
    Horizon::inside(ScuNumber(scu), batches)
}

fn end_of(scu: u64) -> Horizon {
    Horizon::end_of(ScuNumber(scu))
}

#[test]
fn zero_takes_everything_acknowledged() {
    let question = Question::busy();
    assert_eq!(
        question.answer("0"),
        "110+10 110x10 111x10 [1, 2, 3, 4, 5, 6, 7]"
    );
    let choice = question.ask("0").unwrap();
    assert_eq!(choice.batches_left_out, 0);
    assert_eq!(choice.staleness, Duration::ZERO);
    assert_eq!(choice.as_of_micros, question.now_micros);
    assert_eq!(choice.miss.unwrap().needed, inside(111, 10));
}

#[test]
fn zero_never_looks_at_the_clock() {
    let mut question = Question::busy();
    question.now_micros = 0;
    let choice = question.ask("0").unwrap();
    assert_eq!(choice.horizon, inside(111, 10));
    assert_eq!(choice.batches_left_out, 0);
}

#[test]
fn a_bound_takes_as_few_batches_as_it_needs() {
    let question = Question::busy();
    // Everything before 111.55 s: six batches of the open SCU.
    let choice = question.ask("450 ms").unwrap();
    assert_eq!(choice.horizon, inside(111, 6));
    assert_eq!(choice.as_of_micros, 111 * SECOND + 600_000);
    assert_eq!(choice.batches_left_out, 4);
    // A batch acknowledged right at now - bound is not before it.
    assert_eq!(
        question.answer("1500 ms"),
        "109+5 110x5 [1, 2, 3, 4, 5, 6, 7]"
    );
    // Everything before 110 s is sorted.
    assert_eq!(question.answer("2 s"), "109 [1, 2, 3, 4, 5, 6, 7]");
    let choice = question.ask("2 s").unwrap();
    assert_eq!(choice.batches_left_out, 20);
    assert_eq!(choice.as_of_micros, 110 * SECOND);
    assert_eq!(choice.staleness, Duration::from_secs(2));
    assert!(choice.miss.is_none());
}

#[test]
fn of_all_horizons_that_satisfy_the_bound_the_cheapest_is_taken() {
    let question = Question::busy();
    // The authority alone is within the bound, and the least work.
    assert_eq!(question.answer("1 min"), "100 [1]");
    // With the merged run anyhow, the small ones after it are not worth being staler for.
    assert_eq!(question.answer("8 s"), "109 [1, 2, 3, 4, 5, 6, 7]");
}

#[test]
fn nearly_equal_work_is_equal_and_the_fresher_is_taken() {
    let question = Question::of(
        "sealed 4 sorted 4
         table t
           range ..
             base 1..=0 none
             sorted 1 10K
             sorted 2 10K
             sorted 3 10K
             sorted 4 10K",
        vec![],
    );
    assert_eq!(question.answer("1 hour"), "4 [2, 3, 4, 5]");
}

#[test]
fn what_merges_replaced_is_no_horizon_to_fall_back_to() {
    let question = Question::of(
        "sealed 108 sorted 108
         table t
           range ..
             base 1..=10 1M old=100
             merged 11..=108 90M old=100
             base 1..=108 91M",
        vec![],
    );
    assert_eq!(question.answer("1 hour"), "108 [3]");
    assert_eq!(question.answer("best effort"), "108 [3]");
}

#[test]
fn an_idle_database_is_read_from_its_authority_alone() {
    let question = Question::of(
        "sealed 108 sorted 108
         table t
           range ..
             base 1..=108 91M ct=60",
        vec![],
    );
    for freshness in ["0", "1 s", "best effort"] {
        assert_eq!(question.answer(freshness), "108 [1]", "{freshness}");
        let choice = question.ask(freshness).unwrap();
        assert_eq!(choice.as_of_micros, question.now_micros);
        assert_eq!(choice.staleness, Duration::ZERO);
        assert!(choice.miss.is_none());
    }
}

#[test]
fn best_effort_stands_at_the_common_horizon_but_never_before_the_floor() {
    let mut question = Question::busy();
    assert_eq!(question.answer("best effort"), "106 [1, 2, 3, 4]");
    question.floor = end_of(108);
    assert_eq!(question.answer("best effort"), "109 [1, 2, 3, 4, 5, 6, 7]");
    question.floor = inside(111, 3);
    assert_eq!(
        question.answer("best effort"),
        "110+3 110x10 111x3 [1, 2, 3, 4, 5, 6, 7]"
    );
    question.on_miss = OnMiss::Error;
    assert!(question.ask("best effort").is_ok());
    question.floor = inside(111, 11);
    let error = question.ask("best effort").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_table_without_unsorted_rows_is_fresh_at_no_cost() {
    let mut question = Question::busy();
    question.tables = Some(vec![TableId(2)]);
    for freshness in ["0", "1 s", "1 min"] {
        assert_eq!(question.answer(freshness), "110+10 [10]", "{freshness}");
        assert!(question.ask(freshness).unwrap().miss.is_none());
    }
    // The batches of SCU 110 are taken whole, of the open one as many as were asked for.
    question.unsorted[1].bytes.insert(TableId(2), 100);
    assert_eq!(question.answer("1 min"), "110 [10]");
    assert_eq!(question.answer("450 ms"), "110+6 111x6 [10]");
}

#[test]
fn a_miss_is_answered_as_the_query_says() {
    let mut question = Question::busy();
    question.on_miss = OnMiss::Stale;
    assert_eq!(question.answer("0"), "109 [1, 2, 3, 4, 5, 6, 7]");
    assert!(question.ask("0").unwrap().miss.is_some());
    question.on_miss = OnMiss::Error;
    let error = question.ask("0").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.sqlstate(), "53L01");
    assert!(
        error.to_string().contains("2s stale, as of SCU 109"),
        "{error}"
    );
    question.on_miss = OnMiss::Wait(Duration::from_secs(1));
    let miss = question.ask("1 s").unwrap().miss.unwrap();
    assert_eq!(miss.needed, end_of(110));
    assert_eq!(miss.sorted_through, ScuNumber(109));
    assert_eq!(miss.sorted_staleness, Duration::from_secs(2));
    // Stale answers keep the floor: it is a promise.
    question.on_miss = OnMiss::Stale;
    question.floor = inside(110, 2);
    assert_eq!(question.answer("0"), "109+2 110x2 [1, 2, 3, 4, 5, 6, 7]");
}

#[test]
fn as_of_is_exact_or_an_error_that_names_the_oldest() {
    let mut question = Question::busy();
    let mut at = |horizon: Horizon| {
        question.at = Some(horizon);
        question.answer("0")
    };
    assert_eq!(at(end_of(104)), "104 [1, 2]");
    assert_eq!(at(end_of(108)), "108 [1, 2, 3, 4, 5, 6]");
    assert_eq!(at(inside(108, 10)), "108 [1, 2, 3, 4, 5, 6]");
    assert_eq!(at(end_of(110)), "110 110x10 [1, 2, 3, 4, 5, 6, 7]");
    assert_eq!(at(inside(110, 4)), "109+4 110x4 [1, 2, 3, 4, 5, 6, 7]");
    for gone in [end_of(102), end_of(99), inside(108, 3)] {
        assert!(
            at(gone).contains("the oldest that can be answered is SCU 100"),
            "{}",
            at(gone)
        );
    }
    for ahead in [end_of(111), end_of(400), inside(111, 11)] {
        assert!(
            at(ahead).contains("after everything acknowledged"),
            "{}",
            at(ahead)
        );
    }
}

#[test]
fn a_boundary_whose_time_is_forgotten_is_no_longer_answered() {
    let mut question = Question::busy();
    question.at = Some(end_of(104));
    question.manifest.times.retain(|scu, _| scu.0 >= 105);
    assert_eq!(question.answer("0"), "104 [1, 2]");
    question.manifest.times.retain(|scu, _| scu.0 >= 107);
    let gone = question.ask("0").unwrap_err();
    assert_eq!(gone.sqlstate(), "72000", "{gone}");
}

#[test]
fn timestamps_round_down_to_a_boundary() {
    let question = Question::busy();
    let index = ReadIndex::new(&question.manifest);
    let at = |micros| boundary_at(&index, &question.unsorted, micros);
    assert_eq!(at(105 * SECOND).unwrap(), end_of(104));
    assert_eq!(at(105 * SECOND + 900_000).unwrap(), end_of(105));
    assert_eq!(
        at(i64::MAX).unwrap(),
        end_of(110),
        "the open SCU has no boundary"
    );
    assert_eq!(at(0).unwrap(), Horizon::ZERO);
    let mut manifest = question.manifest.clone();
    manifest.times.retain(|scu, _| scu.0 >= 50);
    let index = ReadIndex::new(&manifest);
    assert!(boundary_at(&index, &[], 10 * SECOND).is_err());
}

#[test]
fn an_scu_sealed_after_the_pinned_manifest_is_one_more_source() {
    let mut question = Question::busy();
    question.unsorted[1].sealed = true;
    question.unsorted.push(unsorted(112, false, &[(1, 10)]));
    let choice = question.ask("0").unwrap();
    assert_eq!(choice.horizon, inside(112, 10));
    assert_eq!(choice.unsorted_scus.len(), 3);
    question.unsorted.pop();
    assert_eq!(question.ask("0").unwrap().horizon, end_of(111));
}

#[test]
fn summaries_of_sorted_scus_are_passed_over_and_gaps_refused() {
    let mut question = Question::busy();
    question
        .unsorted
        .insert(0, unsorted(109, true, &[(1, 1000)]));
    assert_eq!(question.ask("0").unwrap().unsorted_scus.len(), 2);
    question.unsorted.remove(1);
    assert_eq!(question.ask("0").unwrap_err().kind(), ErrorKind::Internal);
    question.unsorted.clear();
    assert_eq!(question.ask("0").unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn first_and_last_acknowledgement_will_do() {
    let mut question = Question::busy();
    question.unsorted[1].acks = Acks::Between {
        first_micros: 111 * SECOND,
        last_micros: 111 * SECOND + 900_000,
        batches: 10,
    };
    assert_eq!(question.ask("500 ms").unwrap().horizon, inside(111, 10));
    assert_eq!(question.ask("1 s").unwrap().horizon, end_of(110));
}

#[test]
fn the_choice_says_what_best_effort_would_have_saved() {
    let mut question = Question::busy();
    assert!(question.ask("0").unwrap().cheaper.is_none());
    question.unsorted[0].bytes.insert(TableId(1), 1 << 30);
    let cheaper = question.ask("0").unwrap().cheaper.unwrap();
    assert_eq!(cheaper.staleness, Duration::from_secs(5));
    assert!(question.ask("best effort").unwrap().cheaper.is_none());
    // Nothing is saved where nothing is read.
    question.tables = Some(Vec::new());
    assert!(question.ask("0").unwrap().cheaper.is_none());
}

#[test]
fn what_is_cheap_anyway_is_no_saving() {
    let text = "sealed 110 sorted 109
    table t
      range ..
        base 1..=109 100K";
    let mut question = Question::of(text, vec![unsorted(110, true, &[(1, 200_000)])]);
    // More than twice the work of best effort, and 0.8 MB more.
    assert!(question.ask("0").unwrap().cheaper.is_none());
    question.unsorted[0].bytes.insert(TableId(1), 300_000);
    let cheaper = question.ask("0").unwrap().cheaper.unwrap();
    assert_eq!(cheaper.work, (256 + 100) << 10);
}

/// Over every bound and floor: never before the floor, never short of the bound, and the stamp
/// agrees with a count of the batches.
#[test]
fn every_choice_keeps_bound_and_floor() {
    let mut question = Question::busy();
    let mut batches: Vec<(Horizon, i64)> = Vec::new();
    for scu in 1..=111u64 {
        for at in 0..10 {
            let horizon = match at {
                9 if scu < 111 => end_of(scu),
                _ => inside(scu, at + 1),
            };
            batches.push((horizon, scu as i64 * SECOND + i64::from(at) * SECOND / 10));
        }
    }
    let floors = [
        Horizon::ZERO,
        end_of(103),
        inside(107, 2),
        inside(110, 7),
        inside(111, 1),
    ];
    for floor in floors {
        question.floor = floor;
        for tenths in (0..140).step_by(3) {
            let choice = question.ask(&format!("{} ms", tenths * 100)).unwrap();
            assert!(choice.horizon >= floor);
            let cutoff = question.now_micros - tenths * SECOND / 10;
            let out: Vec<_> = batches
                .iter()
                .filter(|(at, _)| *at > choice.horizon)
                .collect();
            if tenths > 0 {
                assert!(
                    out.iter().all(|(_, ack)| *ack >= cutoff),
                    "{tenths}: {choice:?}"
                );
            }
            assert_eq!(choice.batches_left_out, out.len() as u64);
            let as_of = out.first().map_or(question.now_micros, |(_, ack)| *ack);
            assert_eq!(choice.as_of_micros, as_of);
            assert!(choice.horizon.batches == BatchCount::ALL || choice.horizon.scu.0 >= 110);
        }
    }
}
