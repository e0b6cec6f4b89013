//! The planner as LazyBase has it: DataFusion's, and where PostgreSQL's SQL means something else or
//! more, what is rewritten before it and what is put in its place.
//!
//! ```text
//!   sqlparser's tree      sql_types, patterns, like_escapes, exists_values, lists of rows,
//!        |                repeated_names, moment_calls, row_fields, recursive_terms, marks,
//!        |                written_numbers
//!        | plan           written_numbers, unknowns, intervals: operators, by what they are over;
//!        |                true_keys: what is in FROM
//!   logical plan          analyzer: whole_rows, json_values, true_keys, determined_groups,
//!        |                          grouped_columns, ordered_inputs, own_orders, counted_sets,
//!        |                          unknowns, constant_conditions, subquery_columns,
//!        |                          certain_rows, true_keys, single_rows, subquery_values,
//!        |                          not_in, rows_around, dates_beside_numbers,
//!        |                          recursive_terms, rounding, divisions, intervals,
//!        |                          window_peers, meanings, exact_constants, fine_moments,
//!        |                          equal_zeros, (its own), uuid_literals, bare_filters,
//!        |                          intervals, spelt_moments, in_lists, casts, shown_spans,
//!        |                          checked_integers, guards, series
//!        |                optimizer: (its own), single_distinct, common_parts, true_keys,
//!        |                           day_bounds, checked_integers, guards
//!   physical plan         series, forgetful, open_filters, (its own), text_groups, shared_parts,
//!                         whole_orders, patient_joins
//!
//!   functions             exact_sum, ordered_floats, sliding_floats, sliding_pairs, percentiles,
//!                         byte_lengths, bounded, counts, series, date_parts, cut_moments,
//!                         patterns, to_char, text_functions, partial_functions: in the place of
//!                         its own;
//!                         other_names, type_names, time_zones, ages, buckets, json_functions,
//!                         json_values, json_pretty, written_numbers, marks, and those of
//!                         `pg_catalog`
//! ```
//!
//! Invariant PLN-1: a rewritten plan gives the columns that it gave before, under their names;
//! durations become intervals.

mod ages;
mod around;
mod bare_filters;
mod bounded;
mod buckets;
mod byte_lengths;
mod casts;
mod certain_rows;
pub(crate) mod checked_integers;
pub(crate) mod column_names;
mod common_parts;
mod comparisons;
mod constant_conditions;
mod counted_sets;
mod counts;
mod cut_moments;
mod date_parts;
mod dates_beside_numbers;
mod day_bounds;
mod determined_groups;
mod divisions;
mod equal_zeros;
mod exact_constants;
mod exact_sum;
mod exists_values;
mod fine_moments;
mod forgetful;
mod grouped_columns;
mod guards;
mod in_lists;
mod intervals;
pub(crate) mod json_functions;
mod json_pretty;
pub(crate) mod json_values;
pub(crate) mod like_escapes;
mod mapped;
pub(crate) mod marks;
mod meanings;
mod moment_calls;
mod not_in;
mod open_filters;
mod ordered_floats;
mod ordered_inputs;
mod other_names;
mod own_orders;
mod partial_functions;
mod patient_joins;
pub(crate) mod patterns;
mod percentiles;
mod recursive_terms;
pub(crate) mod repeated_names;
mod rounding;
mod row_fields;
mod row_functions;
mod rows_around;
mod rule;
pub(crate) mod series;
mod shared_parts;
mod shown_spans;
mod single_distinct;
mod single_rows;
mod sliding_floats;
mod sliding_pairs;
pub(crate) mod spelt_moments;
pub(crate) mod sql_types;
mod subquery_columns;
mod subquery_values;
mod text_functions;
mod text_groups;
pub(crate) mod time_zones;
mod to_char;
mod true_keys;
mod type_names;
mod unknowns;
mod uuid_literals;
mod whole_orders;
mod whole_rows;
mod window_peers;
mod written_numbers;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::optimizer::{Analyzer, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::sql::parser::Statement as PlannerStatement;
use datafusion::sql::sqlparser::ast::{Expr, Statement, VisitMut};
use lazybase_model::Result;

use crate::error::from_datafusion;
use crate::id_keys::function::IdKey;
use crate::memory;
use crate::parse::list_of_rows;
use crate::pg_catalog::by_name;
use crate::pg_catalog::expanded::Expanded;
use crate::pg_catalog::functions;
use crate::pg_catalog::keywords;
use crate::pg_catalog::or_empty::OrEmpty;
use crate::sequences;
use crate::settings::Settings;
use crate::walk::visit_expressions_mut;

use bare_filters::BareFilters;
use casts::CASTS;
use certain_rows::CERTAIN_ROWS;
use checked_integers::{CHECKED_CONSTANTS, CHECKED_INTEGERS};
use common_parts::common_parts;
use constant_conditions::CONSTANT_CONDITIONS;
use counted_sets::COUNTED_SETS;
use date_parts::Extracts;
use dates_beside_numbers::DATES_BESIDE_NUMBERS;
use day_bounds::DAY_BOUNDS;
use determined_groups::DETERMINED_GROUPS;
use divisions::DIVISIONS;
use equal_zeros::EQUAL_ZEROS;
use exact_constants::EXACT_CONSTANTS;
use fine_moments::FINE_MOMENTS;
use forgetful::FORGETFUL;
use grouped_columns::GROUPED_COLUMNS;
use guards::{GUARDED_CASES, GUARDED_CONDITIONS};
use in_lists::IN_LISTS;
use intervals::{INTERVAL_ORDER, INTERVAL_WINDOWS, IntervalArithmetic};
use json_values::JSON_VALUES;
use like_escapes::SimilarToEscape;
use meanings::{BareNulls, MEANINGS};
use not_in::NOT_IN;
use open_filters::OPEN_FILTERS;
use ordered_inputs::ORDERED_INPUTS;
use own_orders::OWN_ORDERS;
use patient_joins::PATIENT_JOINS;
use recursive_terms::RECURSIVE_TERMS;
use rounding::ROUNDING;
use rows_around::ROWS_AROUND;
use series::{KEPT_SERIES, SERIES_ROWS};
use shared_parts::SHARED_PARTS;
use shown_spans::ShownSpans;
use single_distinct::single_distinct;
use single_rows::SINGLE_ROWS;
use spelt_moments::SPELT_MOMENTS;
use sql_types::{StoredTypes, UuidOf};
use subquery_columns::SUBQUERY_COLUMNS;
use subquery_values::SUBQUERY_VALUES;
use text_groups::TEXT_GROUPS;
use true_keys::{KeysInFrom, TRUE_KEYS};
use unknowns::{UNKNOWNS, UnknownOperands};

pub(crate) use unknowns::parameter_types;
use uuid_literals::UUID_LITERALS;
use whole_orders::WHOLE_ORDERS;
use whole_rows::WHOLE_ROWS;
use window_peers::WINDOW_PEERS;
use written_numbers::WrittenNumbers;

/// What is the same for all statements, made once: rules and functions.
///
/// All queries share one pool of memory: one that needs more than it may have spills what it sorts
/// and groups, or fails alone. What is spilt goes into files in `spill`, or where the system has
/// its temporary files.
///
/// # Errors
/// `Unavailable` when there is no place for temporary files.
pub(crate) fn base(
    limits: &lazybase_cluster::Settings,
    spill: Option<&Path>,
) -> Result<SessionState> {
    let mut runtime =
        RuntimeEnvBuilder::new().with_memory_pool(memory::of_all(limits.query_memory));
    if let Some(folder) = spill {
        runtime = runtime.with_temp_file_path(folder);
    }
    let runtime = runtime
        .with_max_temp_directory_size(limits.query_spill_bytes)
        .build_arc()
        .map_err(|error| from_datafusion(&error, ""))?;
    // Behind `grouping()`, which compares expressions as they stand, and before the planner gives
    // both sides of an operator one type.
    let mut analyzer = Analyzer::new().rules;
    let before = [
        WHOLE_ROWS,
        JSON_VALUES,
        TRUE_KEYS,
        DETERMINED_GROUPS,
        GROUPED_COLUMNS,
        ORDERED_INPUTS,
        OWN_ORDERS,
        COUNTED_SETS,
        UNKNOWNS,
        CONSTANT_CONDITIONS,
        SUBQUERY_COLUMNS,
        CERTAIN_ROWS,
        TRUE_KEYS,
        SINGLE_ROWS,
        SUBQUERY_VALUES,
        NOT_IN,
        ROWS_AROUND,
        DATES_BESIDE_NUMBERS,
        RECURSIVE_TERMS,
        ROUNDING,
        DIVISIONS,
        INTERVAL_WINDOWS,
        WINDOW_PEERS,
        MEANINGS,
        EXACT_CONSTANTS,
        FINE_MOMENTS,
        EQUAL_ZEROS,
    ];
    analyzer.splice(1..1, before.map(|rule| Arc::new(rule) as _));
    let mut state = SessionStateBuilder::new()
        .with_runtime_env(runtime)
        .with_config(Settings::default().config)
        // Before the planner's own, which plans the same.
        .with_expr_planners(vec![
            Arc::new(WrittenNumbers),
            Arc::new(Extracts),
            Arc::new(BareNulls),
        ])
        .with_default_features()
        .with_analyzer_rules(analyzer)
        .with_optimizer_rules(optimizer_rules())
        .with_analyzer_rule(Arc::new(UUID_LITERALS))
        .with_analyzer_rule(Arc::new(BareFilters))
        .with_analyzer_rule(Arc::new(INTERVAL_ORDER))
        .with_analyzer_rule(Arc::new(SPELT_MOMENTS))
        .with_analyzer_rule(Arc::new(IN_LISTS))
        .with_analyzer_rule(Arc::new(CASTS))
        .with_analyzer_rule(Arc::new(ShownSpans))
        .with_analyzer_rule(Arc::new(CHECKED_CONSTANTS))
        .with_analyzer_rule(Arc::new(GUARDED_CASES))
        .with_analyzer_rule(Arc::new(KEPT_SERIES))
        .with_optimizer_rule(Arc::new(CHECKED_INTEGERS))
        .with_optimizer_rule(Arc::new(GUARDED_CONDITIONS))
        .with_type_planner(Arc::new(StoredTypes))
        .with_relation_planners(vec![Arc::new(KeysInFrom)])
        .with_physical_optimizer_rules(physical_rules())
        .build();
    register(&mut state).map_err(|error| from_datafusion(&error, ""))?;
    Ok(state)
}

/// The planner's rules for logical plans, with some in the place of its own, and one behind that
/// which computes constants.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ours = [single_distinct(), common_parts()].into_iter();
    let ours = ours.chain(true_keys::rules());
    let ours = ours.map(|rule| -> Arc<dyn OptimizerRule + Send + Sync> { Arc::new(rule) });
    let ours: Vec<_> = ours.collect();
    let mut rules = Vec::new();
    for rule in Optimizer::new().rules {
        let computes = rule.name() == "simplify_expressions";
        let own = ours.iter().find(|own| own.name() == rule.name());
        rules.push(own.map_or(rule, Arc::clone));
        if computes {
            rules.push(Arc::new(DAY_BOUNDS));
        }
    }
    rules
}

/// The planner's rules for physical plans, with ours around them.
///
/// Without those that push filters down: what they could has been before, in the logical plan, and
/// they take one column for another where a join gives two of one name.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
    let pushes = |rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>| {
        rule.name() == ProjectionPushdown::new().name()
    };
    let mut rules: Vec<_> = rules
        .into_iter()
        .flat_map(|rule| {
            let before = pushes(&rule).then(|| Arc::new(OPEN_FILTERS) as _);
            before.into_iter().chain([rule])
        })
        .collect();
    rules.splice(
        0..0,
        [SERIES_ROWS, FORGETFUL].map(|rule| Arc::new(rule) as _),
    );
    // What checks a plan stays last.
    let last = rules.len().saturating_sub(1);
    rules.splice(
        last..last,
        [TEXT_GROUPS, SHARED_PARTS, WHOLE_ORDERS, PATIENT_JOINS].map(|rule| Arc::new(rule) as _),
    );
    rules
}

/// Adds operators and functions, or puts them in the place of the planner's own.
fn register(state: &mut SessionState) -> datafusion::error::Result<()> {
    state.register_expr_planner(Arc::new(UnknownOperands))?;
    state.register_expr_planner(Arc::new(IntervalArithmetic))?;
    exact_sum::register(state)?;
    byte_lengths::register(state)?;
    date_parts::register(state)?;
    cut_moments::register(state)?;
    time_zones::register(state)?;
    ages::register(state)?;
    other_names::register(state)?;
    type_names::register(state)?;
    bounded::register(state)?;
    buckets::register(state)?;
    counts::register(state)?;
    series::register(state)?;
    keywords::register(state);
    patterns::register(state)?;
    text_functions::register(state)?;
    partial_functions::register(state)?;
    to_char::register(state)?;
    json_functions::register(state)?;
    json_values::register(state)?;
    json_pretty::register(state)?;
    marks::register(state)?;
    ordered_floats::register(state)?;
    sliding_floats::register(state)?;
    percentiles::register(state)?;
    written_numbers::register(state)?;
    state.register_udf(Arc::new(ScalarUDF::from(IdKey::new())))?;
    state.register_udf(Arc::new(ScalarUDF::from(UuidOf::new())))?;
    state.register_udf(Arc::new(ScalarUDF::from(UuidOf::of_lists())))?;
    state.register_udf(Arc::new(ScalarUDF::from(SimilarToEscape::new())))?;
    state.register_udf(Arc::new(ScalarUDF::from(Expanded::new())))?;
    state.register_udf(Arc::new(ScalarUDF::from(OrEmpty::new())))?;
    for function in functions::fixed() {
        // Those of PostgreSQL's that the planner has of its own stay as they are.
        let known = state.scalar_functions().contains_key(function.name());
        if !known || function.name() == "version" {
            state.register_udf(Arc::new(function))?;
        }
    }
    let called = state.scalar_functions().keys();
    let called = called.chain(state.aggregate_functions().keys());
    let called = called.chain(state.window_functions().keys());
    let called = called.chain(state.table_functions().keys());
    for function in by_name::of_functions(called.cloned().collect()) {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}

/// A statement as the planner reads it.
pub(crate) fn rewritten(mut statement: Statement) -> PlannerStatement {
    sql_types::rewrite(&mut statement);
    patterns::rewrite(&mut statement);
    like_escapes::rewrite(&mut statement);
    exists_values::rewrite(&mut statement);
    lists_of_rows(&mut statement);
    repeated_names::mark(&mut statement);
    sequences::functions::tell_apart(&mut statement);
    moment_calls::rewrite(&mut statement);
    row_fields::rewrite(&mut statement);
    recursive_terms::rewrite(&mut statement);
    marks::hide(&mut statement);
    written_numbers::keep(&mut statement);
    PlannerStatement::Statement(Box::new(statement))
}

/// An expression that stands alone, as the planner reads it.
pub(crate) fn rewritten_expr(mut expr: Expr) -> Expr {
    sql_types::rewrite(&mut expr);
    patterns::rewrite(&mut expr);
    like_escapes::rewrite(&mut expr);
    lists_of_rows(&mut expr);
    moment_calls::rewrite(&mut expr);
    row_fields::rewrite(&mut expr);
    marks::hide(&mut expr);
    written_numbers::keep(&mut expr);
    expr
}

/// Rows that are looked for in lists, element by element: what is read by its full keys does not
/// come here.
fn lists_of_rows(part: &mut impl VisitMut) {
    let done = visit_expressions_mut(part, |expr| {
        list_of_rows(expr);
        ControlFlow::<()>::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}
