//! Each way in which a manifest can name a dependency.

use super::dependencies;

#[track_caller]
fn check(manifest: &str, expected: &[(&str, usize)]) {
    let found = dependencies(manifest);
    let found: Vec<(&str, usize)> = found.iter().map(|d| (d.name.as_str(), d.line)).collect();
    assert_eq!(found, expected);
}

#[test]
fn keys_of_every_dependency_section() {
    let manifest = "[package]\nname = \"a\"\n\n[dependencies]\n# why\nb.workspace = true\n\
                    c = \"1\"\n[dev-dependencies]\n\"d\" = { version = \"1\" }\n\
                    [build-dependencies]\ne = \"1\"\n[features]\nf = [\"b\"]\n";
    check(manifest, &[("b", 6), ("c", 7), ("d", 9), ("e", 11)]);
}

#[test]
fn values_over_several_lines_are_no_keys() {
    let manifest =
        "[dependencies]\na = { version = \"1\", features = [\n    \"x\",\n] }\nb = \"1\"\n";
    check(manifest, &[("a", 2), ("b", 5)]);
}

#[test]
fn sections_of_one_dependency_and_of_targets() {
    let manifest = "[dependencies.a]\nversion = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nb = \"1\"\n\
                    [target.'cfg(unix)'.dependencies.c]\nversion = \"1\"\n";
    check(manifest, &[("a", 1), ("b", 4), ("c", 5)]);
}

#[test]
fn the_true_name_counts() {
    let manifest = "[dependencies]\na = { package = \"b\", version = \"1\" }\n\
                    [dependencies.c]\npackage = \"d\"\n";
    check(manifest, &[("b", 2), ("d", 3)]);
}

#[test]
fn what_the_workspace_offers_is_no_dependency() {
    check(
        "[workspace.dependencies]\na = \"1\"\n[workspace.dependencies.b]\nversion = \"1\"\n",
        &[],
    );
}
