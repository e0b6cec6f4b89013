//! Tests of `settings`.

use lazybase_model::limits::{COLUMNS_MAX, NAME_BYTES_MAX};

use super::*;

#[test]
fn what_is_set_is_shown() {
    let (mut settings, defaults) = (Settings::default(), Settings::default());
    for (name, value, shown) in [
        ("lazybase.freshness", "30", "30s"),
        ("lazybase.freshness", "best effort", "best effort"),
        ("lazybase.on_miss", "wait 2 s", "wait 2s"),
        ("lazybase.monotonic", "off", "off"),
        ("lazybase.read_modify_write", "true", "on"),
        ("datafusion.execution.batch_size", "1024", "1024"),
        ("application_name", "tests", "tests"),
        ("client_min_messages", "Warning", "warning"),
        ("client_min_messages", "debug", "debug2"),
        ("statement_timeout", "2s", "2000"),
        ("idle_in_transaction_session_timeout", "5min", "300000"),
    ] {
        settings.set(name, Some(value), &defaults).unwrap();
        assert_eq!(settings.show(name).unwrap(), shown, "{name}");
    }
    settings
        .set("datafusion.execution.batch_size", None, &defaults)
        .unwrap();
    assert_eq!(
        settings.show("datafusion.execution.batch_size").unwrap(),
        "8192"
    );
    let fresh = Settings::default();
    settings.set("lazybase.freshness", None, &fresh).unwrap();
    assert_eq!(settings.show("lazybase.freshness").unwrap(), "0");
    // What a connection began with is its own default.
    let mut began = Settings::default();
    for (name, value) in [
        ("lazybase.freshness", "30"),
        ("lazybase.copy_format", "text"),
        ("statement_timeout", "5s"),
        ("datafusion.execution.batch_size", "77"),
    ] {
        began.set(name, Some(value), &fresh).unwrap();
        settings.set(name, None, &began).unwrap();
        assert_eq!(settings.show(name).unwrap(), began.show(name).unwrap());
    }
}

#[test]
fn unknown_names_hint_at_known_ones() {
    let (mut settings, defaults) = (Settings::default(), Settings::default());
    let error = settings
        .set("lazybase.freshnes", Some("1"), &defaults)
        .unwrap_err();
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
    let (mut settings, defaults) = (Settings::default(), Settings::default());
    for (name, value) in [
        ("lazybase.freshness", "soon"),
        ("lazybase.on_miss", "panic"),
        ("lazybase.monotonic", "perhaps"),
        ("client_min_messages", "panic"),
        ("datafusion.execution.batch_size", "many"),
    ] {
        assert_eq!(
            settings
                .set(name, Some(value), &defaults)
                .unwrap_err()
                .sqlstate(),
            "22023",
            "{name}"
        );
    }
    for name in [
        "lazybase.last_answer",
        "datafusion.catalog.default_schema",
        "datafusion.execution.parquet.compression",
        "datafusion.execution.sort_spill_reservation_bytes",
        "datafusion.format.null",
        "datafusion.sql_parser.recursion_limit",
        "datafusion.sql_parser.support_varchar_with_length",
    ] {
        assert_eq!(
            settings
                .set(name, Some("x"), &defaults)
                .unwrap_err()
                .sqlstate(),
            "55P02"
        );
    }
}

/// Each setting that a session may set is one of DataFusion's, and can be set to what it is; a
/// number is taken from the least to the greatest.
#[test]
fn numbers_have_bounds() {
    let (mut settings, defaults) = (Settings::default(), Settings::default());
    for (name, values) in of_planner::SETTABLE {
        let shown = settings.show(name).unwrap();
        settings.set(name, Some(&shown), &defaults).unwrap();
        settings.set(name, None, &defaults).unwrap();
        assert_eq!(settings.show(name).unwrap(), shown, "{name}");
        let Some(bounds) = values.bounds() else {
            continue;
        };
        for number in [*bounds.start(), *bounds.end()].map(|number| number.to_string()) {
            settings.set(name, Some(&number), &defaults).unwrap();
            assert_eq!(settings.show(name).unwrap(), number, "{name}");
        }
        let below = bounds
            .start()
            .checked_sub(1)
            .map(|number| number.to_string());
        let beyond = [(bounds.end() + 1).to_string(), u64::MAX.to_string()];
        let before = settings.show(name).unwrap();
        for number in below.into_iter().chain(beyond).chain(["-1".to_owned()]) {
            let refused = settings.set(name, Some(&number), &defaults).unwrap_err();
            assert_eq!(refused.sqlstate(), "22023", "{name} = {number}");
        }
        assert_eq!(settings.show(name).unwrap(), before, "{name}");
    }
}

/// PostgreSQL's names are listed with the values that SHOW gives, and none of the planner's.
#[test]
fn what_show_tells_is_listed() {
    let settings = Settings::default();
    let listed = settings.listed();
    let (name_bytes, columns) = (NAME_BYTES_MAX.to_string(), COLUMNS_MAX.to_string());
    for (name, value) in [
        ("lazybase.freshness", "0"),
        ("DateStyle", "ISO, MDY"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "UTC"),
        ("server_encoding", "UTF8"),
        ("transaction_isolation", "repeatable read"),
        ("work_mem", "4MB"),
        ("max_identifier_length", name_bytes.as_str()),
        ("max_index_keys", columns.as_str()),
    ] {
        let found = listed.iter().find(|setting| setting.name == name);
        assert_eq!(found.expect(name).value, value, "{name}");
        assert_eq!(settings.show(&name.to_lowercase()).unwrap(), value);
    }
    let names: Vec<&str> = listed.iter().map(|setting| setting.name).collect();
    assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("datafusion")));
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

#[test]
fn paths_and_styles_that_would_change_something_are_refused() {
    let (mut settings, defaults) = (Settings::default(), Settings::default());
    for (name, value, refused) in [
        ("search_path", "\"$user\", public", None),
        ("search_path", "$user,public", None),
        ("search_path", "public", None),
        ("search_path", "", None),
        ("search_path", "pg_catalog", None),
        ("search_path", "app, public", None),
        ("search_path", "app", Some("3F000")),
        ("search_path", "app, pg_catalog", Some("3F000")),
        ("datestyle", "ISO", None),
        ("datestyle", "ISO, MDY", None),
        ("datestyle", "iso,us", None),
        ("datestyle", "ISO, DMY", Some("0A000")),
        ("datestyle", "ISO, YMD", Some("0A000")),
        ("datestyle", "German", Some("0A000")),
        ("intervalstyle", "ISO_8601", None),
        ("intervalstyle", "postgres", None),
        ("intervalstyle", "sql_standard", Some("0A000")),
    ] {
        let set = settings.set(name, Some(value), &defaults);
        assert_eq!(set.err().map(|error| error.sqlstate()), refused, "{value}");
    }
}

#[test]
fn what_a_session_does_not_begin_with_is_told() {
    let stored = [
        ("datafusion.execution.batch_size", "10000000000000"),
        ("lazybase.gone", "1"),
        ("statement_timeout", "2s"),
    ];
    let stored = stored.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut settings = Settings::default();
    let told = settings.begin(&stored);
    let names = ["datafusion.execution.batch_size = ", "lazybase.gone = "];
    assert_eq!(told.len(), names.len(), "{told:?}");
    for (told, name) in told.iter().zip(names) {
        assert!(told.starts_with(name), "{told}");
        assert!(told.contains("is not followed: "), "{told}");
    }
    assert_eq!(settings.show("statement_timeout").unwrap(), "2000");
}

/// Whoever looks for a setting finds in the guide what it does.
#[test]
fn the_guide_has_every_setting() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/user/sql.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for name in own_settings() {
        let row = format!("\n| `{name}` | ");
        assert!(guide.contains(&row), "{name}");
    }
}
