//! ROLLUP and CUBE that name an expression twice, as the sets that they stand for: the planner
//! refuses them as they are.
//!
//! ```text
//!   ROLLUP (a, a)   ->   GROUPING SETS ((a), (a), ())
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant RPG-1: what names nothing twice stays
//! as it is.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Statement, visit_expressions_mut};

/// A CUBE of more stays as it is, and is refused.
const CUBE_MAX: usize = 12;

/// Writes every ROLLUP and CUBE of a statement that names an expression twice as its sets.
pub(super) fn spell_out(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        let sets = match &*expr {
            Expr::Rollup(groups) if is_repeated(groups) => Some(rollup(groups)),
            Expr::Cube(groups) if is_repeated(groups) && groups.len() <= CUBE_MAX => {
                Some(cube(groups))
            }
            _ => None,
        };
        if let Some(sets) = sets {
            *expr = Expr::GroupingSets(sets);
        }
        ControlFlow::<()>::Continue(())
    });
}

fn is_repeated(groups: &[Vec<Expr>]) -> bool {
    let all: Vec<&Expr> = groups.iter().flatten().collect();
    (1..all.len()).any(|at| all[..at].contains(&all[at]))
}

fn rollup(groups: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let sets = (0..=groups.len()).rev();
    sets.map(|to| set(groups[..to].iter().flatten())).collect()
}

fn cube(groups: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let chosen = (0..1_usize << groups.len()).rev();
    let sets = chosen.map(|chosen| {
        let there = groups.iter().enumerate();
        let there = there.filter(|(at, _)| chosen & (1 << at) != 0);
        set(there.flat_map(|(_, group)| group))
    });
    sets.collect()
}

/// Each expression once.
fn set<'e>(exprs: impl Iterator<Item = &'e Expr>) -> Vec<Expr> {
    let mut set: Vec<Expr> = Vec::new();
    for expr in exprs {
        if !set.contains(expr) {
            set.push(expr.clone());
        }
    }
    set
}
