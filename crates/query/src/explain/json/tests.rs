//! Tests of `explain::json`.

use super::*;

fn read(lines: &[&str]) -> Value {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    serde_json::from_str(&of_lines(&lines)).unwrap()
}

#[test]
fn a_plan_is_a_tree_by_its_indentation() {
    let told = read(&[
        "horizon 40+3, complete (asked 0)",
        "scan of t: a range of the key, 1 source",
        "  authority  run r5 of SCUs 1..=40: 3 of 120 extents in 1 segment, 10 bytes",
        "scan of u: the whole table",
        "plan",
        "  HashJoinExec: on=[(a@0, b@0)], metrics=[output_rows=7, elapsed_compute=1ns]",
        "    FilterExec: n@2 = 1",
        "      LazyScanExec: table=t, columns=[n]",
        "    PlaceholderRowExec",
    ]);
    let expected = json!([{
        "Horizon": "40+3, complete (asked 0)",
        "Scans": [
            {
                "Scan": "scan of t: a range of the key, 1 source",
                "Sources": [
                    "authority  run r5 of SCUs 1..=40: 3 of 120 extents in 1 segment, 10 bytes"
                ],
            },
            {"Scan": "scan of u: the whole table"},
        ],
        "Plan": {
            "Node Type": "HashJoinExec",
            "Actual Rows": 7,
            "Details": "on=[(a@0, b@0)], metrics=[output_rows=7, elapsed_compute=1ns]",
            "Plans": [
                {
                    "Node Type": "FilterExec",
                    "Details": "n@2 = 1",
                    "Plans": [{
                        "Node Type": "LazyScanExec",
                        "Relation Name": "t",
                        "Details": "table=t, columns=[n]",
                    }],
                },
                {"Node Type": "PlaceholderRowExec"},
            ],
        },
    }]);
    assert_eq!(told, expected);
}

#[test]
fn a_read_past_the_planner_is_a_node_of_its_own() {
    let told = read(&[
        "horizon 4, complete (asked 0)",
        "read of t by key: 1 key, past the planner",
        "  authority  run r5 of SCUs 1..=4: 1 of 1 extent in 1 segment, 9 bytes",
    ]);
    let plan = &told[0]["Plan"];
    assert_eq!(plan["Node Type"], "read of t by key");
    assert_eq!(plan["Details"], "1 key, past the planner");
    assert_eq!(
        plan["Plans"][0]["Node Type"],
        "authority  run r5 of SCUs 1..=4"
    );
    assert!(told[0].get("Scans").is_none());
    // Without tables there is no horizon.
    let told = read(&["plan", "  PlaceholderRowExec"]);
    assert_eq!(
        told,
        json!([{"Scans": [], "Plan": {"Node Type": "PlaceholderRowExec"}}])
    );
}
