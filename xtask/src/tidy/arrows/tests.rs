//! Each forbidden arrow fires, from the manifest and from the code.

use super::check;
use crate::tidy::tree::Tree;

/// The findings for one file, as `rule line item`.
fn findings(path: &str, text: &str) -> Vec<String> {
    let tell = |f: crate::tidy::Finding| format!("{} {} {}", f.rule, f.line, f.item);
    check(&Tree::of(&[(path, text)]))
        .into_iter()
        .map(tell)
        .collect()
}

fn depends(folder: &str, on: &str) -> Vec<String> {
    let manifest = format!("[dependencies]\n{on}.workspace = true\n");
    findings(&format!("crates/{folder}/Cargo.toml"), &manifest)
}

#[test]
fn arrows_point_from_server_to_model() {
    let chain = ["model", "engine", "cluster", "query", "server"];
    for (lower, folder) in chain.iter().enumerate() {
        for (upper, other) in chain.iter().enumerate() {
            let on = format!("lazybase-{other}");
            let found = depends(folder, &on);
            if upper < lower {
                assert!(found.is_empty(), "{folder} may know {other}");
            } else {
                assert_eq!(
                    found,
                    [format!("crate-arrow 2 {on}")],
                    "{folder} knows {other}"
                );
            }
        }
    }
}

#[test]
fn nobody_knows_the_benchmarks_and_xtask_knows_nobody() {
    assert_eq!(
        depends("server", "lazybase-bench"),
        ["crate-arrow 2 lazybase-bench"]
    );
    assert!(depends("bench", "lazybase-query").is_empty());
    let manifest = "[dependencies]\nlazybase-model.workspace = true\n";
    assert_eq!(
        findings("xtask/Cargo.toml", manifest),
        ["crate-arrow 2 lazybase-model"]
    );
}

#[test]
fn a_new_crate_needs_a_rank() {
    assert_eq!(
        findings("crates/newcomer/Cargo.toml", ""),
        ["crate-arrow 0 newcomer"]
    );
}

#[test]
fn only_query_and_the_benchmarks_name_datafusion() {
    let code = "//! About datafusion.\nuse lazybase_query::datafusion::prelude::X;\n";
    for folder in ["model", "engine", "cluster", "server", "sim"] {
        assert_eq!(depends(folder, "datafusion"), ["datafusion 2 datafusion"]);
        assert_eq!(
            depends(folder, "datafusion-expr"),
            ["datafusion 2 datafusion-expr"]
        );
        let path = format!("crates/{folder}/src/a.rs");
        assert_eq!(findings(&path, code), ["datafusion 2 datafusion"]);
    }
    for folder in ["plan", "query", "bench", "bench-peers"] {
        assert!(depends(folder, "datafusion").is_empty());
        assert!(findings(&format!("crates/{folder}/src/a.rs"), code).is_empty());
    }
}

#[test]
fn the_model_does_no_io() {
    for package in super::IO_PACKAGES {
        assert_eq!(depends("model", package), [format!("model-io 2 {package}")]);
        assert!(depends("engine", package).is_empty());
    }
    assert!(depends("model", "arrow-schema").is_empty());
    for module in super::IO_MODULES {
        for code in [
            format!("\nuse std::{module};"),
            format!("\nuse std::{{fmt, {module}::a}};"),
        ] {
            let expected = [format!("model-io 2 {module}")];
            assert_eq!(findings("crates/model/src/a.rs", &code), expected, "{code}");
            assert!(findings("crates/engine/src/a.rs", &code).is_empty());
        }
    }
    assert!(findings("crates/model/src/a.rs", "use std::{fmt, a::{fs}};").is_empty());
}
