//! ROLLUP, CUBE and GROUPING SETS that the planner refuses or takes for something else, as the sets
//! that they stand for.
//!
//! ```text
//!   ROLLUP (a, a)                    ->   GROUPING SETS ((a), (a), ())
//!   ROLLUP ((a, b), c)               ->   GROUPING SETS ((a, b, c), (a, b), ())
//!   GROUPING SETS (ROLLUP (a), (b))  ->   GROUPING SETS ((a), (), (b))
//!   a, ROLLUP (b)                    ->   GROUPING SETS ((a, b), (a))
//!   SELECT a, b ... ROLLUP (1, 2)    ->   SELECT a, b ... ROLLUP (a, b)
//!   GROUP BY ((a), b), ()            ->   GROUP BY a, b
//!   GROUP BY ()                      ->   HAVING count(*) >= 0
//! ```
//!
//! Rewrites sqlparser's tree, and of tokens puts brackets around what begins with some and does not
//! end with them. Invariant RPG-1: what names nothing twice, and columns one by one, and no groups
//! beside sets, stays as it is.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select,
    SelectItem, Statement, Value, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::{Error, Result};

use super::{folded, unsupported};
use crate::text_places::of_template;
use crate::walk::visit_mut;

/// A CUBE of more stays as it is, and is refused.
const CUBE_MAX: usize = 12;

/// Puts brackets around each member of ROLLUP, CUBE and GROUPING SETS that begins with a bracket
/// and goes on behind it: the parser takes that one for the member's.
pub(super) fn tokens(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 1 < tokens.len() {
        let opens = ["rollup", "cube", "sets"]
            .iter()
            .any(|word| is(&tokens[at].token, word));
        if opens && tokens[at + 1].token == Token::LParen {
            in_brackets(tokens, at + 2);
        }
        at += 1;
    }
}

fn is(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(known)
        if known.quote_style.is_none() && known.value.eq_ignore_ascii_case(word))
}

/// Puts brackets around the members of a list, which begins at this place.
fn in_brackets(tokens: &mut Vec<TokenWithSpan>, first: usize) {
    let mut begin = first;
    let mut depth = 0_usize;
    // Where the bracket ends that the member begins with.
    let mut closed = None;
    let mut at = first;
    while at < tokens.len() {
        let ends = depth == 0 && matches!(tokens[at].token, Token::Comma | Token::RParen);
        if ends {
            let is_list = tokens[at].token == Token::RParen;
            let goes_on = closed.is_some_and(|closed| closed + 1 < at);
            if goes_on && tokens[begin].token == Token::LParen {
                let [mut open, mut close] = [tokens[begin].clone(), tokens[at].clone()];
                open.token = Token::LParen;
                close.token = Token::RParen;
                tokens.insert(at, close);
                tokens.insert(begin, open);
                at += 2;
            }
            if is_list {
                return;
            }
            begin = at + 1;
            closed = None;
        } else if tokens[at].token == Token::LParen {
            depth += 1;
        } else if tokens[at].token == Token::RParen {
            depth -= 1;
            if depth == 0 && closed.is_none() {
                closed = Some(at);
            }
        }
        at += 1;
    }
}

/// Rewrites the groups of every SELECT of a statement.
///
/// # Errors
/// `Invalid`: 42P10 for a place that the SELECT does not have, 0A000 for one that can't be told.
pub(super) fn spell_out(statement: &mut Statement) -> Result<()> {
    struct Groups;
    impl VisitorMut for Groups {
        type Break = Error;

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
            match in_select(select) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }
    }
    match visit_mut(statement, &mut Groups) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn in_select(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(groups, modifiers) = &mut select.group_by else {
        return Ok(());
    };
    let is_grouped = !groups.is_empty();
    let items = &select.projection;
    let mut spelt = Vec::with_capacity(groups.len());
    for group in groups.drain(..) {
        match group {
            Expr::Tuple(members) => spelt.extend(members),
            Expr::Rollup(members) => {
                let members = placed(members, items)?;
                spelt.push(match is_plain(&members) {
                    true => Expr::Rollup(members),
                    false => Expr::GroupingSets(rollup(&members)),
                });
            }
            Expr::Cube(members) => {
                let members = placed(members, items)?;
                spelt.push(match is_plain(&members) || members.len() > CUBE_MAX {
                    true => Expr::Cube(members),
                    false => Expr::GroupingSets(cube(&members)),
                });
            }
            Expr::GroupingSets(sets) => {
                let sets = sets.into_iter().flat_map(sets_within).collect();
                spelt.push(Expr::GroupingSets(placed(sets, items)?));
            }
            other => spelt.push(other),
        }
    }
    let is_one = is_grouped && spelt.is_empty() && modifiers.is_empty();
    *groups = match joined(&spelt, items)? {
        Some(sets) => vec![Expr::GroupingSets(sets)],
        None => spelt,
    };
    if is_one && select.having.is_none() {
        select.having = any_count();
    }
    Ok(())
}

/// The sets that groups beside sets come to. Left apart, a group that is a key would bring what
/// depends on it into each set: the planner takes that for grouped by.
///
/// # Errors
/// As [`placed`].
fn joined(groups: &[Expr], items: &[SelectItem]) -> Result<Option<Vec<Vec<Expr>>>> {
    let is_set = |group: &&Expr| {
        matches!(
            group,
            Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_)
        )
    };
    let with_sets = groups.iter().filter(is_set).count();
    if with_sets == 0 || with_sets == groups.len() {
        return Ok(None);
    }
    let mut all = vec![Vec::new()];
    for group in groups {
        let sets = match group {
            Expr::Rollup(members) => rollup(members),
            Expr::Cube(members) if members.len() <= CUBE_MAX => cube(members),
            Expr::GroupingSets(sets) => sets.clone(),
            Expr::Cube(_) => return Ok(None),
            one => placed(vec![vec![one.clone()]], items)?,
        };
        if all.len().saturating_mul(sets.len()) > 1 << CUBE_MAX {
            return Ok(None);
        }
        let with = |before: &Vec<Expr>| {
            let before = before.clone();
            let each = sets.iter();
            each.map(move |added| set(before.iter().chain(added)))
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(Some(all))
}

/// What any number of rows fulfils, and makes one group of them.
fn any_count() -> Option<Expr> {
    let parser = of_template("count(*) >= 0");
    parser.ok()?.parse_expr().ok()
}

/// The members with those that are places of columns as these columns.
fn placed(members: Vec<Vec<Expr>>, items: &[SelectItem]) -> Result<Vec<Vec<Expr>>> {
    let each = members.into_iter().map(|member| {
        let exprs = member.into_iter().map(|expr| match place(&expr) {
            Some(place) => at_place(place, items),
            None => Ok(expr),
        });
        exprs.collect()
    });
    each.collect()
}

fn place(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn at_place(place: usize, items: &[SelectItem]) -> Result<Expr> {
    let before = items.get(..place).unwrap_or(items);
    let is_known = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    };
    if !before.iter().all(is_known) {
        return Err(unsupported(format!(
            "GROUP BY position {place} can't be told behind a *"
        ))
        .with_hint("write the column's name"));
    }
    match place.checked_sub(1).and_then(|at| items.get(at)) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            Ok(expr.clone())
        }
        _ => Err(Error::invalid(format!(
            "GROUP BY position {place} is not in the SELECT list"
        ))
        .with_hint("positions count from 1")
        .with_sqlstate("42P10")),
    }
}

/// The sets that a member of GROUPING SETS stands for: in it, the parser takes ROLLUP and CUBE for
/// functions.
fn sets_within(member: Vec<Expr>) -> Vec<Vec<Expr>> {
    let [Expr::Function(function)] = member.as_slice() else {
        return vec![member];
    };
    let name = match function.name.0.as_slice() {
        [name] => name.as_ident().map(folded),
        _ => None,
    };
    match (name.as_deref(), members_of(function)) {
        (Some("rollup"), Some(members)) => rollup(&members),
        (Some("cube"), Some(members)) if members.len() <= CUBE_MAX => cube(&members),
        _ => vec![member],
    }
}

fn members_of(function: &Function) -> Option<Vec<Vec<Expr>>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let members = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(all))) => Some(all.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(one)) => Some(vec![one.clone()]),
        _ => None,
    });
    members.collect()
}

/// Whether members are columns one by one, each of them once.
fn is_plain(groups: &[Vec<Expr>]) -> bool {
    groups.iter().all(|group| group.len() == 1) && !is_repeated(groups)
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
