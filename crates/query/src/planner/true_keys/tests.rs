//! The planner's rules that ours stand for.

use datafusion::optimizer::Optimizer;

use super::*;

#[test]
fn each_rule_stands_for_one_of_the_planners() {
    let own = Optimizer::new().rules;
    for rule in rules() {
        let is_it = |own: &&Arc<dyn OptimizerRule + Send + Sync>| own.name() == rule.name();
        let found = own.iter().find(is_it).map(|own| own.apply_order());
        assert_eq!(found, Some(rule.apply_order()), "{}", rule.name());
    }
}
