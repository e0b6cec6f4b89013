//! The demo fails where one of its checks does.

use std::sync::Arc;

use lazybase_cluster::Settings;
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_model::{ErrorKind, Result};
use lazybase_query::Database;
use tokio::runtime::Builder;

use super::data::Source;
use super::replay::Rate;
use super::{Outcome, expected, perform, tell};
use crate::wall;

/// A day without readers, of which one count is expected to be another one.
async fn day_with_a_wrong_count() -> Result<Outcome> {
    let settings = Settings {
        log_file_bytes: 1 << 20,
        ..Settings::default()
    };
    let env = Env::system(Arc::new(MemoryStore::without_history()));
    let database = Database::open_env(env, settings).await?;
    let source = Source::read(Some(1))?;
    let mut expected = expected::expected(&source)?;
    let by_status = &mut expected[1].rows[0];
    let flights: u64 = by_status[1].parse().unwrap();
    by_status[1] = (flights + 1).to_string();
    let outcome = perform(&database, &source, &expected, Rate::Max, 0).await?;
    database.close().await?;
    Ok(outcome)
}

#[test]
fn a_demo_of_which_a_check_fails_ends_with_an_error() {
    let performed = wall::on_a_stack(crate::STACK_BYTES, || {
        let runtime = crate::threads("demo", Builder::enable_all)?;
        runtime.block_on(day_with_a_wrong_count())
    });
    let mut outcome = performed.unwrap();
    let failed = outcome.checks.iter().filter(|check| !check.passed);
    let failed: Vec<&str> = failed.map(|check| check.name.as_str()).collect();
    let asked = ["best effort", "0"].map(|level| format!("flights by status (asked {level})"));
    assert_eq!(failed, asked);
    let folder = tempfile::tempdir().unwrap();
    let told = |outcome: &Outcome| tell(outcome, folder.path(), "", true);
    let error = told(&outcome).unwrap_err();
    // Which `main` ends with status 1.
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(
        error.message(),
        "0 of the answers and 2 of the sums are wrong"
    );
    let report = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(report.contains("2 checks failed"));
    // What passed is a success, unless an answer was wrong meanwhile.
    outcome.checks.retain(|check| check.passed);
    assert_eq!(outcome.checks.len(), 10);
    told(&outcome).unwrap();
    outcome.shared.fail("an answer was torn".to_owned());
    assert_eq!(
        told(&outcome).unwrap_err().message(),
        "1 of the answers and 0 of the sums are wrong"
    );
}
