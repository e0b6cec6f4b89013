//! Mistakes that the planner is known to make over plain tables too, by the shapes of plans that
//! have them. What is not listed here fails.

/// What is known of a plan that gives wrong rows, or of a message that refuses a right statement.
struct Known {
    what: &'static str,
    /// What the plan or the message holds, all of it.
    holds: &'static [&'static str],
}

const KNOWN: [Known; 1] = [Known {
    what: "sorts the parts of a union by fewer columns than it merges them by, where a column is \
           constant in a part or twice there, and refuses that itself",
    holds: &[
        "SanityCheckPlan",
        "SortPreservingMergeExec",
        "UnionExec",
        "does not satisfy order requirements",
    ],
}];

/// What the planner is known to do wrong in such a plan.
pub(super) fn mistake(plan: &str) -> Option<&'static str> {
    let known = KNOWN.iter();
    let mut fitting = known.filter(|known| known.holds.iter().all(|part| plan.contains(part)));
    fitting.next().map(|known| known.what)
}
