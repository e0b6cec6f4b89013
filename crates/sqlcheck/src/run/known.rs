//! Mistakes that the planner is known to make over plain tables too, by the shapes of plans that
//! have them. What is not listed here fails.

/// What is known of a plan that gives wrong rows, or of a message that refuses a right statement.
struct Known {
    what: &'static str,
    /// What the plan or the message holds, all of it.
    holds: &'static [&'static str],
}

const KNOWN: [Known; 2] = [
    Known {
        what: "gives a column that grouping sets hold next to a cast of it the name of the cast",
        holds: &["Projections require unique expression names", "CAST("],
    },
    Known {
        what: "does so where the cast is to the column's own type, and is left out",
        holds: &[
            "Projections require unique expression names",
            "group_alias_",
        ],
    },
];

/// What is refused of tables that are sorted, as stored ones are, and not of those in memory.
const REFUSED: [Known; 1] = [Known {
    what: "refuses aggregates with orders of their own over grouping sets, where their rows come \
           in an order that one of them could use",
    holds: &["Conflicting ordering requirements in aggregate functions is not supported"],
}];

/// What the planner is known to do wrong in such a plan.
pub(super) fn mistake(plan: &str) -> Option<&'static str> {
    fitting(&KNOWN, plan)
}

/// Why the planner is known to refuse a right statement with such a message.
pub(super) fn refusal(message: &str) -> Option<&'static str> {
    fitting(&REFUSED, message)
}

fn fitting(known: &[Known], text: &str) -> Option<&'static str> {
    let fits = |known: &&Known| known.holds.iter().all(|part| text.contains(part));
    known.iter().find(fits).map(|known| known.what)
}
