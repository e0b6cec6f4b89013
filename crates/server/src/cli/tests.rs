//! Tests of `cli`.

use std::time::Duration;

use clap::{CommandFactory, Parser};

use super::{BackupCommand, Cli, Command};

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn one_shape_for_all() {
    let text = "lazybase --db d sql -c x --format csv";
    let cli = Cli::parse_from(text.split(' '));
    assert_eq!(cli.db.as_deref(), Some(std::path::Path::new("d")));
    assert!(matches!(cli.command, Command::Sql(args) if args.command == ["x"]));

    let text = "lazybase load --db d t a.csv b.csv --key x,y --producer p --on-error reject-file";
    let Command::Load(args) = Cli::parse_from(text.split(' ')).command else {
        panic!("load");
    };
    assert_eq!((args.table.as_str(), args.files.len()), ("t", 2));
    assert_eq!(args.key, ["x", "y"]);
}

#[test]
fn a_demo_has_a_day_at_least() {
    let days = |days: &str| Cli::try_parse_from(["lazybase", "demo", "--days", days]).is_ok();
    assert_eq!((days("0"), days("1")), (false, true));
}

#[test]
fn an_age_of_backups_has_its_unit() {
    let parse = |age: &str| {
        let prune = ["lazybase", "backup", "prune", "--from", "f", "--older-than"];
        Cli::try_parse_from(prune.into_iter().chain([age]))
    };
    for (text, seconds) in [("30d", 30 * 86_400), ("12 H", 43_200), ("90 min", 5_400)] {
        let Command::Backup(args) = parse(text).unwrap().command else {
            panic!("backup");
        };
        let Some(BackupCommand::Prune(args)) = args.what else {
            panic!("prune");
        };
        assert_eq!(
            args.older_than,
            Some(Duration::from_secs(seconds)),
            "{text}"
        );
        assert_eq!((args.keep, args.dry_run), (None, false));
    }
    for text in ["30", "1.5", "d", "30 fortnights", ""] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn export_takes_a_table_or_a_query() {
    let parse = |text: &[&str]| Cli::try_parse_from(text.iter().copied());
    let Command::Export(args) = parse(&["lazybase", "export", "t", "f.csv"])
        .unwrap()
        .command
    else {
        panic!("export");
    };
    assert_eq!(args.table.as_deref(), Some("t"));
    let query = ["lazybase", "export", "--query", "SELECT 1", "f.csv"];
    let Command::Export(args) = parse(&query).unwrap().command else {
        panic!("export");
    };
    assert_eq!((args.table, args.file.to_str()), (None, Some("f.csv")));
    assert!(parse(&["lazybase", "export", "f.csv"]).is_err());
}
