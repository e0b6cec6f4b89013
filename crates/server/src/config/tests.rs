//! Every option has all its doors; what is printed reads back; the document says the same.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Command, FromArgMatches};

use super::options::{OPTIONS, misspelt};
use super::{Config, Given, print, printed};

/// A value of each option that is not its default.
fn others() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("db", "some.lb"),
        ("pg_listen", "127.0.0.1:7001"),
        ("flight_listen", "127.0.0.1:7002"),
        ("http_listen", "off"),
        ("tls_cert", "server.pem"),
        ("tls_key", "key.pem"),
        ("tls_client_ca", "clients.pem"),
        ("http_client_cert", "on"),
        ("trust_loopback", "on"),
        ("max_connections", "17"),
        ("superuser_reserved_connections", "4"),
        ("grace", "3 min"),
        ("statement_timeout", "1500 ms"),
        ("heavy_statements", "3"),
        ("heavy_waiting", "0"),
        ("query_memory", "3 GiB"),
        ("query_spill_bytes", "none"),
        ("cache_bytes", "12345"),
        ("retention", "2 h"),
        ("superseded_bytes_max", "none"),
        ("batch_bytes_max", "1 MiB"),
        ("seal_age", "250 ms"),
        ("seal_bytes", "64 MiB"),
        ("log_file_bytes", "8 MiB"),
        ("log_compression", "lz4"),
        ("unsorted_memory", "7 MiB"),
        ("unsorted_bytes_max", "9 MiB"),
        ("workers", "5"),
        ("sort_memory", "33 MiB"),
        ("merge_fan_in", "4"),
        ("merge_task_bytes", "5 MiB"),
        ("range_split_bytes", "6 MiB"),
        ("log_level", "warn,lazybase_pg=debug"),
        ("log_format", "json"),
        ("slow_query", "off"),
        ("trace_endpoint", "http://127.0.0.1:4317"),
    ])
}

fn nothing(_: &str) -> Option<OsString> {
    None
}

fn of_file(text: &str) -> lazybase_model::Result<Config> {
    Config::of(None, &nothing, Some((Path::new("a.toml"), text)))
}

fn given(args: &[String]) -> Given {
    let command = Given::augment_args(Command::new("serve"));
    let args = ["serve".to_owned()].into_iter().chain(args.iter().cloned());
    let matches = command.try_get_matches_from(args).unwrap();
    Given::from_arg_matches(&matches).unwrap()
}

/// All values as they are shown.
fn shown(config: &Config) -> Vec<(&'static str, Option<String>)> {
    let options = OPTIONS.iter();
    options
        .map(|option| (option.key, option.show(config)))
        .collect()
}

#[test]
fn every_option_has_three_doors_and_a_comment() {
    let others = others();
    for option in OPTIONS {
        let value = others[option.key];
        assert!(option.about.ends_with('.'), "{}", option.key);
        let default = option.show(&Config::default());
        let by_file = of_file(&format!("{} = \"{value}\"", option.key)).unwrap();
        let by_variable = Config::of(
            None,
            &|name| (name == option.variable()).then(|| value.into()),
            None,
        );
        assert_eq!(option.show(&by_file), option.show(&by_variable.unwrap()));
        assert_ne!(option.show(&by_file), default, "{}", option.key);
        if option.key != "db" {
            let flags = given(&[option.flag().to_owned(), value.to_owned()]);
            let by_flag = Config::of(Some(&flags), &nothing, None).unwrap();
            assert_eq!(option.show(&by_file), option.show(&by_flag));
        }
    }
    assert_eq!(others.len(), OPTIONS.len());
}

#[test]
fn flags_go_before_variables_before_the_file_before_defaults() {
    let variable = |name: &str| match name {
        "LAZYBASE_WORKERS" | "LAZYBASE_MERGE_FAN_IN" => Some(OsString::from("6")),
        _ => None,
    };
    let file = "workers = 5\nmerge_fan_in = 5\nmax_connections = 5\n";
    let file = Some((Path::new("a.toml"), file));
    let flags = given(&["--workers".to_owned(), "7".to_owned()]);
    let config = Config::of(Some(&flags), &variable, file).unwrap();
    assert_eq!(config.settings.workers, 7);
    assert_eq!(config.settings.merge_fan_in, 6);
    assert_eq!(config.max_connections, 5);
    assert_eq!(
        config.settings.seal_bytes,
        Config::default().settings.seal_bytes
    );
}

#[test]
fn switches_are_also_booleans_of_the_file() {
    let config = of_file("trust_loopback = true\nhttp_client_cert = false\n").unwrap();
    assert!(config.trust_loopback && config.is_given("trust_loopback"));
    assert!(!config.http_client_cert && config.is_given("http_client_cert"));
    assert!(of_file("http_listen = false").is_err());
}

#[test]
fn a_switch_is_on_where_its_flag_stands_alone() {
    let given_as = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Config::of(Some(&given(&args)), &nothing, None).unwrap()
    };
    let config = given_as(&["--trust-loopback", "--workers", "3"]);
    assert!(config.trust_loopback && config.settings.workers == 3);
    assert!(given_as(&["--workers", "3", "--http-client-cert"]).http_client_cert);
    assert!(!given_as(&["--trust-loopback", "off"]).trust_loopback);
}

#[test]
fn variables_that_are_nearly_an_options_are_told_of() {
    let names = [
        "LAZYBASE_PG_LISTN",
        "LAZYBASE_PG_LISTEN",
        "LAZYBASE_DB",
        "LAZYBASE_CONFIG",
        "LAZYBASE_SEED",
        "PG_LISTN",
    ];
    let told = misspelt(names.into_iter().map(str::to_owned));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("perhaps LAZYBASE_PG_LISTEN is meant"));
}

#[test]
fn a_level_is_read_in_capitals_too() {
    assert_eq!(of_file("log_level = \"DEBUG\"").unwrap().log_level, "debug");
}

#[test]
fn what_is_printed_reads_back() {
    let text: String = others()
        .iter()
        .map(|(key, value)| format!("{key} = \"{value}\"\n"))
        .collect();
    let number = of_file("db = \"007\"\n").unwrap();
    for config in [Config::default(), of_file(&text).unwrap(), number] {
        let printed = printed(&config);
        let again = of_file(&printed).unwrap();
        assert_eq!(shown(&again), shown(&config), "{printed}");
        for option in OPTIONS {
            let line = format!("{} = ", option.key);
            let at = printed.find(&line).unwrap();
            let before = printed[..at].trim_end_matches("# ").lines().next_back();
            assert!(before.unwrap().starts_with("# --"), "{line}{before:?}");
        }
    }
}

#[test]
fn what_is_not_known_or_no_value_is_an_error_with_a_hint() {
    for (text, said, hint) in [
        ("wrokers = 3", "no option \"wrokers\"", "workers"),
        ("nonsense = 3", "no option", "--print-config"),
        ("workers = true", "no number", "workers = "),
        ("workers = 0", "a.toml: workers", "from 1 on"),
        ("retention = \"soon\"", "not a duration", "2 h"),
        ("query_memory = \"1 GB\"", "number of bytes", "GiB"),
        (
            "log_file_bytes = \"none\"",
            "is too much: \"none\"",
            "4 GiB",
        ),
        ("log_file_bytes = \"5 GiB\"", "is too much", "4 GiB"),
        ("pg_listen = \"here\"", "no address", "off"),
        ("log_level = \"inof\"", "is no log level", "info"),
        ("log_level = \"warn,lazybase=inof\"", "is no log level", ""),
        ("log_level = \"loud\"\n[x]\n", "", ""),
        ("a = 1\nb = ", "line 2", ""),
    ] {
        let error = of_file(text).unwrap_err();
        assert!(error.message().contains(said), "{text}: {error}");
        assert!(error.hint().unwrap_or("").contains(hint), "{text}: {error}");
    }
    let variable = |name: &str| (name == "LAZYBASE_WORKERS").then(|| "x".into());
    let error = Config::of(None, &variable, None).unwrap_err();
    assert!(
        error.message().starts_with("LAZYBASE_WORKERS is"),
        "{error}"
    );
    let flags = given(&["--grace".to_owned(), "x".to_owned()]);
    let error = Config::of(Some(&flags), &nothing, None).unwrap_err();
    assert!(error.message().starts_with("--grace is"), "{error}");
}

/// `LAZYBASE_REWRITE_DOCS=1` writes the options into the document anew.
#[test]
fn the_document_lists_the_options() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/user/configuration.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- options -->\n", "<!-- end of options -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (listed, after) = rest.split_once(end).unwrap();
    let wanted = print::document();
    if std::env::var_os("LAZYBASE_REWRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(listed, wanted, "LAZYBASE_REWRITE_DOCS=1 writes it anew");
}
