//! The merge policy on literal states: a manifest as text, and the proposals as text.

use std::collections::BTreeSet;

use lazybase_engine::manifest::literal;
use lazybase_model::TableId;

use super::*;

mod simulation;

/// A state, what is running, and what is proposed, all as text.
struct Case {
    manifest: Manifest,
    running: Vec<RunningTask>,
    idle_for: Duration,
    now_micros: i64,
    open_batches: u64,
    unsorted_bytes: u64,
    awaited_through: ScuNumber,
    settings: PolicySettings,
}

impl Case {
    fn of(text: &str) -> Case {
        Case {
            manifest: literal::manifest(text).unwrap(),
            running: Vec::new(),
            idle_for: Duration::ZERO,
            now_micros: 0,
            open_batches: 1,
            unsorted_bytes: 0,
            awaited_through: ScuNumber::ZERO,
            settings: PolicySettings::default(),
        }
    }

    fn idle(mut self, millis: u64) -> Case {
        self.idle_for = Duration::from_millis(millis);
        self.open_batches = 0;
        self
    }

    fn awaited(self, through: u64) -> Case {
        Case {
            awaited_through: ScuNumber(through),
            ..self
        }
    }

    fn at(self, second: i64) -> Case {
        Case {
            now_micros: second * 1_000_000,
            ..self
        }
    }

    fn running(mut self, low: &str, inputs: &[u64]) -> Case {
        self.running.push(RunningTask::Merge {
            view: ViewId(1),
            low: (!low.is_empty()).then(|| literal::key(low)),
            inputs: inputs.iter().map(|run| RunId(*run)).collect(),
        });
        self
    }

    fn load(&self) -> Load<'_> {
        Load {
            running: &self.running,
            idle_for: self.idle_for,
            now_micros: self.now_micros,
            open_batches: self.open_batches,
            unsorted_bytes: self.unsorted_bytes,
            awaited_through: self.awaited_through,
            settings: &self.settings,
        }
    }

    #[track_caller]
    fn proposes(&self, expected: &[&str]) {
        let proposals = propose(&self.manifest, &self.load());
        let shown: Vec<String> = proposals.iter().map(show).collect();
        assert_eq!(shown, expected);
    }
}

fn show(proposal: &Proposal) -> String {
    let name = |low: &Option<Key>| match low {
        Some(low) => String::from_utf8_lossy(low.as_bytes()).into_owned(),
        None => "-".to_owned(),
    };
    match proposal {
        Proposal::Remap { first, last } => format!("remap {first} to {last}"),
        Proposal::Sort { scu } => format!("sort {scu}"),
        Proposal::Merge {
            view,
            low,
            inputs,
            output,
            ..
        } => {
            let inputs: Vec<u64> = inputs.iter().map(|run| run.0).collect();
            format!("{view} {} {output:?} {inputs:?}", name(low))
        }
        Proposal::Advance { view, from, to } => format!("{view} from {from} to {to}"),
        Proposal::Split { view, low, at } => {
            format!("{view} {} split at {}", name(low), name(&Some(at.clone())))
        }
    }
}

const STREAM: &str = "sealed 109 sorted 109
    table t
      range ..
        base 1..=100 64M
        merged 101..=104 4M
        sorted 105 1M
        sorted 106 1M
        sorted 107 1M
        sorted 108 1M
        sorted 109 1M";

#[test]
fn a_settled_state_has_no_proposals() {
    let settled = "sealed 109 sorted 109
         table t
           range ..m
             base 1..=109 64M
           range m..
             base 1..=109 64M
         table u
           range ..
             base 1..=109 none ct=0";
    Case::of(settled).proposes(&[]);
    Case::of(settled).idle(10_000).proposes(&[]);
    Case::of("sealed 0 sorted 0").idle(10_000).proposes(&[]);
}

/// Two tables of which both have a run too many; the second one says how stale it may be.
const TARGET: &str = "sealed 112 sorted 109
    table t
      range ..
        base 1..=100 64M
        merged 101..=104 4M
        sorted 105 1M
        sorted 106 1M
        sorted 107 1M
        sorted 108 1M
        sorted 109 1M
    table u target 20
      range ..
        base 1..=100 200M
        merged 101..=105 8M
        sorted 106 2M
        sorted 107 2M
        sorted 108 2M
        sorted 109 2M";

#[test]
fn a_table_that_is_late_by_its_target_comes_first() {
    // What a cheap answer lacks of u is SCU 108, which came in second 108.
    let sorts = ["sort 110", "sort 111", "sort 112"];
    let (of_t, of_u) = (
        "v1 - Merged [2, 3, 4, 5, 6, 7]",
        "v2 - Merged [9, 10, 11, 12, 13]",
    );
    let early = [&[of_t, of_u], &sorts[..]].concat();
    Case::of(TARGET).at(118).proposes(&early);
    let late = [&[of_u, of_t], &sorts[..]].concat();
    Case::of(TARGET).at(119).proposes(&late);
    // Where nobody asked, nothing comes first.
    let none = TARGET.replace(" target 20", "");
    Case::of(&none).at(1000).proposes(&early);
}

#[test]
fn a_table_that_is_late_has_a_round_of_its_own() {
    // One run too many begins no round for others.
    let few = "sealed 109 sorted 109
        table t
          range ..
            base 1..=100 64M
            sorted 106 1M
            sorted 107 1M
            sorted 108 1M
            sorted 109 1M
        table u target 20
          range ..
            base 1..=100 64M
            sorted 106 1M
            sorted 107 1M
            sorted 108 1M
            sorted 109 1M";
    Case::of(few).at(110).proposes(&[]);
    Case::of(few)
        .at(130)
        .proposes(&["v2 - Merged [7, 8, 9, 10]"]);
    // Its own merge on the way, it is not late; the others follow to where that ends, for best
    // effort ends at one boundary of all.
    let running = Case::of(few).at(130);
    let running = Case {
        running: vec![RunningTask::Merge {
            view: ViewId(2),
            low: None,
            inputs: [7, 8, 9, 10].map(RunId).to_vec(),
        }],
        ..running
    };
    running.proposes(&["v1 - Merged [2, 3, 4, 5]"]);
}

#[test]
fn few_runs_are_left_alone_while_the_stream_goes_on() {
    Case::of(
        "sealed 103 sorted 103
         table t
           range ..
             base 1..=100 64M
             sorted 101 1M
             sorted 102 1M
             sorted 103 1M",
    )
    .proposes(&[]);
}

#[test]
fn the_newest_runs_are_joined_with_those_of_like_size() {
    // Seven runs: the small ones and the merged one of their size; the base is far larger.
    Case::of(STREAM).proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]"]);
    // The merged run is too large to be rewritten for five small ones.
    Case::of(&STREAM.replace("4M", "40M")).proposes(&["v1 - Merged [3, 4, 5, 6, 7]"]);
}

#[test]
fn the_authority_joins_when_what_is_newer_has_grown_to_a_part_of_it() {
    let text = STREAM.replace("merged 101..=104 4M", "merged 101..=104 16M");
    Case::of(&text).proposes(&["v1 - Base [1, 2, 3, 4, 5, 6, 7]"]);
}

#[test]
fn only_the_overlapped_part_of_the_authority_counts() {
    Case::of(
        "sealed 106 sorted 106
         table t
           range ..
             base 1..=100 a..f:64M g..k:64M l..p:20M
             sorted 101 m..n:1M
             sorted 102 m..n:1M
             sorted 103 m..n:1M
             sorted 104 m..n:1M
             sorted 105 m..n:1M
             sorted 106 m..n:1M",
    )
    .proposes(&["v1 - Base [1, 2, 3, 4, 5, 6, 7]"]);
}

#[test]
fn in_small_ranges_smaller_files_count_only_where_they_are_overlapped() {
    let text = "sealed 106 sorted 106
         table t
           range ..
             base 1..=100 a..f:256K g..k:256K l..p:80K
             sorted 101 m..n:4K
             sorted 102 m..n:4K
             sorted 103 m..n:4K
             sorted 104 m..n:4K
             sorted 105 m..n:4K
             sorted 106 m..n:4K";
    Case::of(text).proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]"]);
    let mut small = Case::of(text);
    small.settings = PolicySettings::of(&Settings {
        range_split_bytes: 1 << 20,
        ..Settings::default()
    });
    assert_eq!(small.settings.move_bytes_min, 64 << 10);
    small.proposes(&["v1 - Base [1, 2, 3, 4, 5, 6, 7]"]);
}

#[test]
fn inputs_of_running_tasks_are_never_proposed() {
    Case::of(STREAM)
        .running("", &[2, 3, 4, 5, 6, 7])
        .proposes(&[]);
    // Two runs came after the running merge: with it, the range has four.
    Case::of(STREAM).running("", &[2, 3, 4, 5]).proposes(&[]);
    Case::of(STREAM)
        .running("", &[1, 2])
        .proposes(&["v1 - Merged [3, 4, 5, 6, 7]"]);
    // The same runs in another range are another matter.
    Case::of(STREAM)
        .running("m", &[2, 3, 4, 5, 6, 7])
        .proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]"]);
    assert!(
        Case::of(&STREAM.replace("64M", "10M"))
            .running("", &[1, 2])
            .idle(9000)
            .proposals()
            .is_empty()
    );
}

impl Case {
    fn proposals(&self) -> Vec<Proposal> {
        propose(&self.manifest, &self.load())
    }
}

#[test]
fn a_round_ends_at_one_boundary_in_all_ranges_of_all_views() {
    // The first range was merged to 106, and three SCUs came since: the others follow to 106.
    let text = "sealed 109 sorted 109
         table t
           sorted 101 c..t:1M
           sorted 102 c..t:1M
           sorted 103 c..t:1M
           sorted 104 c..t:1M
           sorted 105 c..t:1M
           sorted 106 c..t:1M
           sorted 107 c..t:1M
           sorted 108 c..t:1M
           sorted 109 c..t:1M
           range ..m
             base 1..=100 64M
           range m..
             base 1..=100 64M
         table u
           range ..
             base 1..=104 64M ct=90
             sorted 105 1M
             sorted 106 1M
             sorted 107 1M
             sorted 108 1M
             sorted 109 1M";
    let mut case = Case::of(text);
    case.settings.fan_in = 16;
    let merged =
        literal::manifest("sealed 109 sorted 109\ntable t\nrange ..m\nmerged 101..=106 5M");
    let mut run = (*merged.unwrap().runs[&RunId(1)]).clone();
    run.id = RunId(100);
    case.proposes(&[
        "v1 - Merged [1, 2, 3, 4, 5, 6, 7, 8, 9]",
        "v1 m Merged [1, 2, 3, 4, 5, 6, 7, 8, 9]",
        "v2 - Merged [13, 14, 15, 16, 17]",
    ]);
    case.manifest = case
        .manifest
        .apply(&lazybase_engine::manifest::Edit::Merged {
            view: ViewId(1),
            low: None,
            inputs: (1..=6).map(RunId).collect(),
            output: run,
            clock_micros: 1,
        })
        .unwrap();
    case.proposes(&["v1 m Merged [1, 2, 3, 4, 5, 6]"]);
    // Once all have come that far, the next round may begin.
    let case = case.running("m", &[1, 2, 3, 4, 5, 6]);
    case.proposes(&[
        "v2 - Merged [13, 14, 15, 16, 17]",
        "v1 m Merged [7, 8, 9]",
        "v1 - Merged [100, 7, 8, 9]",
    ]);
}

#[test]
fn parts_of_one_scu_go_together() {
    Case::of(
        "sealed 103 sorted 103
         table t
           range ..
             base 1..=100 64M
             sorted 101 1M
             sorted 102 1M part=0
             sorted 102 1M part=1
             sorted 102 1M part=2
             sorted 103 1M",
    )
    .proposes(&["v1 - Merged [2, 3, 4, 5, 6]"]);
}

#[test]
fn a_pause_sends_everything_to_the_authority() {
    let small = STREAM.replace("64M", "40M");
    Case::of(&small)
        .idle(400)
        .proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]"]);
    Case::of(&small)
        .idle(500)
        .proposes(&["v1 - Base [1, 2, 3, 4, 5, 6, 7]"]);
    // Where much must be rewritten the pause must be longer.
    let large = STREAM.replace("64M", "80M");
    Case::of(&large)
        .idle(500)
        .proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]"]);
    Case::of(&large)
        .idle(1500)
        .proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]"]);
    let joined = "sealed 109 sorted 109\ntable t\nrange ..\nbase 1..=100 80M\nmerged 101..=109 9M";
    Case::of(joined).idle(1400).proposes(&[]);
    Case::of(joined).idle(1500).proposes(&["v1 - Base [1, 2]"]);
    // Not while batches wait to be sorted.
    let mut case = Case::of(&small).idle(5000);
    case.open_batches = 1;
    case.proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]"]);
    let unsorted = small.replace("sealed 109", "sealed 110");
    Case::of(&unsorted)
        .idle(5000)
        .proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]", "sort 110"]);
}

#[test]
fn what_somebody_waits_for_goes_to_the_authority_though_sorting_lags() {
    let lagging = STREAM
        .replace("64M", "40M")
        .replace("sealed 109", "sealed 110");
    let by_itself = ["v1 - Merged [2, 3, 4, 5, 6, 7]", "sort 110"];
    Case::of(&lagging).proposes(&by_itself);
    Case::of(&lagging)
        .awaited(109)
        .proposes(&["v1 - Base [1, 2, 3, 4, 5, 6, 7]", "sort 110"]);
    // What came later stays beside it, but for runs that hold both.
    Case::of(&lagging)
        .awaited(107)
        .proposes(&["v1 - Base [1, 2, 3, 4, 5]", "sort 110"]);
    Case::of(&lagging)
        .awaited(102)
        .proposes(&["v1 - Base [1, 2]", "sort 110"]);
    // However much is unsorted.
    let mut pressed = Case::of(&lagging).awaited(109);
    pressed.unsorted_bytes = pressed.settings.unsorted_bytes_max;
    pressed.proposes(&["v1 - Base [1, 2, 3, 4, 5, 6, 7]", "sort 110"]);
    // Not sorted yet, or there already.
    Case::of(&lagging).awaited(110).proposes(&by_itself);
    Case::of(&lagging).awaited(100).proposes(&by_itself);
}

#[test]
fn ranges_without_data_are_extended_too_when_idle_and_folded_now_and_then() {
    Case::of(
        "sealed 101 sorted 101
         table t
           sorted 101 a..c:1K
           range ..m
             base 1..=100 1M
           range m..
             base 1..=100 1M",
    )
    .idle(600)
    .proposes(&["v1 m Base [3, 1]", "v1 - Base [2, 1]"]);
    let mut text = String::from("sealed 140 sorted 140\ntable t\n");
    for scu in 101..=140 {
        text += &format!("sorted {scu} a..c:1K\n");
    }
    text += "range ..m\nbase 1..=100 1M\nrange m..\nbase 1..=100 1M\n";
    let proposals = Case::of(&text).proposals();
    let folded = proposals.iter().filter(|proposal| {
        matches!(proposal, Proposal::Merge { low: Some(_), inputs, .. } if inputs.len() == 41)
    });
    assert_eq!(folded.count(), 1, "{proposals:?}");
}

#[test]
fn what_has_come_to_rest_goes_to_the_authority() {
    let text = |ct: u64, size: &str| {
        format!(
            "sealed 200 sorted 200
             table quiet
               range ..
                 base 1..=100 64M
                 merged 101..=200 {size} ct={ct}
             table busy
               range ..
                 base 1..=198 64M
                 sorted 199 1M
                 sorted 200 1M"
        )
    };
    Case::of(&text(190, "20M")).proposes(&[]);
    Case::of(&text(130, "20M")).proposes(&["v1 - Base [1, 2]"]);
    // For so little, so large an authority is not rewritten soon.
    Case::of(&text(130, "20K")).proposes(&[]);
    // Rising keys leave ranges behind that hold one run and no authority yet.
    let fresh = |ct: u64| text(ct, "20M").replace("base 1..=100 64M", "base 1..=100 none ct=0");
    Case::of(&fresh(195)).proposes(&[]);
    Case::of(&fresh(190)).proposes(&["v1 - Base [1, 2]"]);
}

#[test]
fn too_many_runs_for_one_merge_are_joined_in_groups_first() {
    let mut text = String::from("sealed 120 sorted 120\ntable t\nrange ..\nbase 1..=100 640M\n");
    for scu in 101..=120 {
        text += &format!("sorted {scu} 1M\n");
    }
    let mut case = Case::of(&text);
    case.settings.split_bytes = u64::MAX;
    case.settings.task_bytes = u64::MAX;
    case.proposes(&[
        "v1 - Merged [18, 19, 20, 21]",
        "v1 - Merged [2, 3, 4, 5, 6, 7, 8, 9]",
        "v1 - Merged [10, 11, 12, 13, 14, 15, 16, 17]",
    ]);
}

#[test]
fn what_was_joined_waits_until_nothing_else_is_left_to_join() {
    let of = |runs: &str| {
        let table = "table t\nrange ..\nbase 1..=100 640M\n";
        let mut case = Case::of(&format!("sealed 133 sorted 133\n{table}{runs}"));
        case.settings.split_bytes = u64::MAX;
        case.settings.task_bytes = u64::MAX;
        case
    };
    let mut runs = String::from("merged 101..=108 8M\nmerged 109..=116 8M\n");
    for scu in 117..=133 {
        runs += &format!("sorted {scu} 1M\n");
    }
    of(&runs).proposes(&[
        "v1 - Merged [4, 5, 6, 7, 8, 9, 10, 11]",
        "v1 - Merged [12, 13, 14, 15, 16, 17, 18, 19]",
    ]);
    let mut runs = String::new();
    for first in (101..=131).step_by(3).take(9) {
        runs += &format!("merged {first}..={} 1M\n", first + 2);
    }
    of(&runs).proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7, 8, 9]"]);
}

/// Under rising keys most runs hold nothing for most ranges: that costs no merges of its own.
#[test]
fn runs_without_data_are_not_counted_in_groups() {
    let mut text = String::from("sealed 160 sorted 160\ntable t\n");
    for scu in 101..=160 {
        let keys = if scu <= 130 { "a..c" } else { "n..p" };
        text += &format!("sorted {scu} {keys}:1M\n");
    }
    text += "range ..m\nbase 1..=100 64M\nrange m..\nbase 1..=100 64M\n";
    let mut case = Case::of(&text);
    case.settings.split_bytes = u64::MAX;
    case.settings.task_bytes = u64::MAX;
    for case in [Case::of(&text).idle(10_000), case] {
        let inputs = |low: Option<&str>| {
            let low = low.map(literal::key);
            let of_range = |proposal: Proposal| match proposal {
                Proposal::Merge {
                    low: at, inputs, ..
                } => (at == low).then_some(inputs.len()),
                _ => None,
            };
            let mut inputs: Vec<usize> =
                case.proposals().into_iter().filter_map(of_range).collect();
            inputs.sort_unstable();
            inputs
        };
        assert_eq!(inputs(None), [8, 8, 8, 36]);
        assert_eq!(inputs(Some("m")), [6, 8, 8, 38]);
    }
}

#[test]
fn large_ranges_are_cut_near_the_middle_before_they_are_merged() {
    let text = "sealed 109 sorted 109
         table t
           range b..y
             base 1..=100 b..f:64M g..k:64M l..p:64M q..t:64M u..w:64M
             merged 101..=109 200M";
    Case::of(text).proposes(&["v1 b split at l"]);
    Case::of(text).running("b", &[1, 2]).proposes(&[]);
    // One segment can't be cut.
    let one = text.replace("b..f:64M g..k:64M l..p:64M q..t:64M u..w:64M", "b..f:600M");
    Case::of(&one).idle(1500).proposes(&["v1 b Base [1, 2]"]);
}

#[test]
fn a_base_of_one_segment_is_cut_where_newer_runs_begin() {
    let text = "sealed 101 sorted 101
         table t
           range ..
             base 1..=100 a..m:300M
             sorted 101 f..m:200M";
    Case::of(text).proposes(&["v1 - split at f"]);
    // Too few keys behind it for a half; they rise all the same.
    let rising = text.replace("f..m:200M", "k..r:40M");
    Case::of(&rising).proposes(&["v1 - split at m"]);
    let neither = text.replace("f..m:200M", "k..m:40M");
    Case::of(&neither).proposes(&[]);
}

#[test]
fn rising_keys_get_a_range_of_their_own_behind_the_last() {
    let text = "sealed 101 sorted 101
         table t
           range ..
             base 1..=100 a..f:64M g..k:64M l..p:64M
             sorted 101 o..r:40M";
    Case::of(text).proposes(&["v1 - split at p"]);
    Case::of(&text.replace("o..r", "b..c")).proposes(&[]);
    let cut = "sealed 101 sorted 101
         table t
           sorted 101 o..r:40M
           range ..p
             base 1..=100 a..f:64M g..k:64M l..p:64M
           range p..
             base 1..=100 l..p:64M";
    Case::of(cut).proposes(&[]);
}

#[test]
fn sorts_come_in_order_and_as_many_as_may_run() {
    let mut case = Case::of("sealed 9 sorted 2");
    case.proposes(&["sort 3", "sort 4", "sort 5", "sort 6"]);
    case.running = vec![
        RunningTask::Sort { scu: ScuNumber(4) },
        RunningTask::Sort { scu: ScuNumber(3) },
    ];
    case.proposes(&["sort 5", "sort 6"]);
}

#[test]
fn sorting_gives_way_where_runs_pile_up_and_goes_first_where_bytes_do() {
    let mut text = STREAM.replace("sealed 109", "sealed 110");
    let mut case = Case::of(&text);
    case.proposes(&["v1 - Merged [2, 3, 4, 5, 6, 7]", "sort 110"]);
    case.unsorted_bytes = 100 << 20;
    case.proposes(&["sort 110", "v1 - Merged [2, 3, 4, 5, 6, 7]"]);
    text = text.replace("sealed 110 sorted 109", "sealed 131 sorted 130");
    for scu in 110..=130 {
        text += &format!("\nsorted {scu} 1M");
    }
    let mut case = Case::of(&text);
    case.unsorted_bytes = 100 << 20;
    assert!(matches!(case.proposals()[0], Proposal::Merge { .. }));
}

#[test]
fn writers_wait_for_bytes_and_for_runs() {
    let mut case = Case::of(STREAM);
    let nothing_lost = BTreeSet::new();
    let crowd = |case: &Case, lost: &BTreeSet<TableId>| {
        let manifest = Arc::new(case.manifest.clone());
        Look::at(&manifest, &case.running, None).too_many_runs(&case.settings, lost)
    };
    assert_eq!(too_much_unsorted(&case.load()), None);
    assert_eq!(crowd(&case, &nothing_lost), None);
    case.unsorted_bytes = 2 << 30;
    let reason = too_much_unsorted(&case.load()).unwrap();
    assert_eq!(reason, "2048 MiB are not sorted yet, 1024 MiB may be");
    case.settings.runs_per_range_max = 6;
    let reason = crowd(&case, &nothing_lost).unwrap();
    assert!(reason.contains("table \"t\" has 7 runs"), "{reason}");
    // What a merge joins is there until that is done.
    let case = case.running("", &[3, 4, 5]);
    assert_eq!(crowd(&case, &nothing_lost), Some(reason));
    assert_eq!(crowd(&case, &BTreeSet::from([TableId(1)])), None);
}

#[test]
fn runs_that_wait_are_counted_again_where_a_range_changed() {
    let state = |newest: &str| {
        let text = format!(
            "sealed 103 sorted 103
             table t
               range ..m
                 base 1..=101 64M
                 sorted 102 1M
               range m..
                 base 1..=101 64M
                 sorted 102 1M
                 {newest}"
        );
        literal::manifest(&text).unwrap()
    };
    let (before, mut after) = (state(""), state("sorted 103 1M"));
    // An edit leaves the runs that it does not touch in place.
    after.runs.extend(before.runs.clone());
    let (before, after) = (Arc::new(before), Arc::new(after));
    let settings = PolicySettings {
        runs_per_range_max: 2,
        ..PolicySettings::default()
    };
    let why = |look: &Look| look.too_many_runs(&settings, &BTreeSet::new());
    let mut look = Look::at(&before, &[], None);
    assert_eq!(why(&look), None);
    for _ in 0..2 {
        look = Look::at(&after, &[], Some(look));
        let why = why(&look).unwrap();
        assert!(why.contains("has 3 runs"), "{why}");
    }
    look = Look::at(&before, &[], Some(look));
    assert_eq!(why(&look), None);
}
