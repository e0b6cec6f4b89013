//! Tests of `settings`.

use super::*;

#[test]
fn what_is_set_is_shown() {
    let mut settings = Settings::default();
    for (name, value, shown) in [
        ("lazybase.freshness", "30", "30s"),
        ("lazybase.freshness", "best effort", "best effort"),
        ("lazybase.on_miss", "wait 2 s", "wait 2s"),
        ("lazybase.monotonic", "off", "off"),
        ("lazybase.read_modify_write", "true", "on"),
        ("datafusion.execution.batch_size", "1024", "1024"),
        ("application_name", "tests", "tests"),
    ] {
        settings.set(name, Some(value)).unwrap();
        assert_eq!(settings.show(name).unwrap(), shown, "{name}");
    }
    settings
        .set("datafusion.execution.batch_size", None)
        .unwrap();
    assert_eq!(
        settings.show("datafusion.execution.batch_size").unwrap(),
        "8192"
    );
    settings.reset();
    assert_eq!(settings.show("lazybase.freshness").unwrap(), "0");
}

#[test]
fn unknown_names_hint_at_known_ones() {
    let mut settings = Settings::default();
    let error = settings.set("lazybase.freshnes", Some("1")).unwrap_err();
    assert_eq!(error.hint(), Some("perhaps lazybase.freshness is meant"));
    assert_eq!(error.sqlstate(), "42704");
    let error = settings.show("datafusion.execution.batchsize").unwrap_err();
    assert_eq!(
        error.hint(),
        Some("perhaps datafusion.execution.batch_size is meant")
    );
}

#[test]
fn wrong_values_are_refused() {
    let mut settings = Settings::default();
    for (name, value) in [
        ("lazybase.freshness", "soon"),
        ("lazybase.on_miss", "panic"),
        ("lazybase.monotonic", "perhaps"),
        ("datafusion.execution.batch_size", "many"),
    ] {
        assert_eq!(
            settings.set(name, Some(value)).unwrap_err().sqlstate(),
            "22023",
            "{name}"
        );
    }
    for name in ["lazybase.last_answer", "datafusion.catalog.default_schema"] {
        assert_eq!(
            settings.set(name, Some("x")).unwrap_err().sqlstate(),
            "55P02"
        );
    }
}

#[test]
fn all_are_listed() {
    let all = Settings::default().all();
    assert!(all.iter().any(|shown| shown.name == "lazybase.freshness"));
    assert!(
        all.iter()
            .any(|shown| shown.name == "datafusion.execution.batch_size")
    );
}
