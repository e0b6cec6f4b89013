//! Statements about roles, by what is read of them; and that no message shows a password.

use super::{AccessStatement, GrantOption, Owned, RoleName, RoleOption, Secret, Targets, redacted};
use crate::parse::{Statement, parse};

fn read(sql: &str) -> AccessStatement {
    match parse(sql).unwrap().statement {
        Statement::Access(statement) => *statement,
        other => panic!("{sql}: {other:?}"),
    }
}

fn refused(sql: &str, sqlstate: &str) -> String {
    let error = parse(sql).expect_err(sql);
    assert_eq!(error.sqlstate(), sqlstate, "{sql}: {error:?}");
    format!("{error:?}")
}

#[test]
fn what_pg_dumpall_writes_is_read() {
    let options = "NOSUPERUSER INHERIT NOCREATEROLE NOCREATEDB LOGIN NOREPLICATION NOBYPASSRLS \
                   PASSWORD 'SCRAM-SHA-256$4096:a$b:c' VALID UNTIL '2030-01-01 00:00:00+00' \
                   CONNECTION LIMIT 5";
    let AccessStatement::AlterRole { role, options } =
        read(&format!("ALTER ROLE \"Anna B\" WITH {options}"))
    else {
        panic!("ALTER ROLE");
    };
    assert_eq!(role, RoleName::Named("Anna B".to_owned()));
    let verifier = "SCRAM-SHA-256$4096:a$b:c".to_owned();
    assert!(options.contains(&RoleOption::Password(Some(Secret(verifier)))));
    assert!(options.contains(&RoleOption::ConnectionLimit(5)));
    let granted = read("GRANT staff TO anna WITH ADMIN OPTION, INHERIT TRUE GRANTED BY postgres");
    let admin = true;
    assert_eq!(
        granted,
        AccessStatement::GrantRoles {
            roles: vec!["staff".to_owned()],
            members: vec![RoleName::Named("anna".to_owned())],
            admin,
        }
    );
}

#[test]
fn users_log_in_and_roles_do_not() {
    for (word, login) in [("USER", true), ("ROLE", false), ("GROUP", false)] {
        let AccessStatement::CreateRole { name, options } = read(&format!("CREATE {word} Anna"))
        else {
            panic!("CREATE");
        };
        assert_eq!(
            (name.as_str(), options),
            ("anna", vec![RoleOption::Login(login)])
        );
    }
}

#[test]
fn privileges_are_of_tables_columns_and_the_database() {
    for (sql, on) in [
        (
            "GRANT SELECT ON t TO anna",
            Targets::Tables(vec!["t".to_owned()]),
        ),
        (
            "REVOKE ALL PRIVILEGES ON TABLE public.t, u FROM PUBLIC CASCADE",
            Targets::Tables(vec!["t".to_owned(), "u".to_owned()]),
        ),
        (
            "GRANT SELECT (a, b), UPDATE (a) ON t TO anna",
            Targets::Tables(vec!["t".to_owned()]),
        ),
        (
            "GRANT INSERT ON ALL TABLES IN SCHEMA public TO anna, bert",
            Targets::AllTables,
        ),
        (
            "GRANT CREATE, CONNECT ON DATABASE lazybase TO anna",
            Targets::Database,
        ),
        ("GRANT USAGE ON SCHEMA public TO anna", Targets::Usage),
        ("GRANT ALL ON SCHEMA public TO anna", Targets::Database),
        (
            "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO anna",
            Targets::AllSequences,
        ),
        (
            "GRANT USAGE, UPDATE ON SEQUENCE public.s, u TO anna WITH GRANT OPTION",
            Targets::Sequences(vec!["s".to_owned(), "u".to_owned()]),
        ),
        (
            "GRANT SELECT ON sequence, t TO anna",
            Targets::Tables(vec!["sequence".to_owned(), "t".to_owned()]),
        ),
        (
            "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC",
            Targets::Without("functions"),
        ),
    ] {
        let AccessStatement::Grant { on: read, .. } = read(sql) else {
            panic!("{sql}");
        };
        assert_eq!(read, on, "{sql}");
    }
    refused("GRANT CONNECT ON t TO anna", "0A000");
    refused("GRANT SELECT ON DATABASE lazybase TO anna", "0A000");
    refused("GRANT INSERT ON SEQUENCE s TO anna", "0A000");
    refused("GRANT USAGE ON t TO anna", "0A000");
    refused("GRANT SELECT (a) ON SEQUENCE s TO anna", "0LP01");
    refused(
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA other TO anna",
        "0A000",
    );
    refused("GRANT DELETE (a) ON t TO anna", "0LP01");
    refused("GRANT SELECT ON DATABASE other TO anna", "3D000");
    refused("GRANT EXECUTE ON FUNCTION f TO anna", "0A000");
    for (sql, expected) in [
        ("GRANT SELECT ON t TO anna", GrantOption::Plain),
        (
            "GRANT SELECT ON t TO anna WITH GRANT OPTION",
            GrantOption::With,
        ),
        (
            "REVOKE GRANT OPTION FOR SELECT ON t FROM anna",
            GrantOption::Only,
        ),
    ] {
        let AccessStatement::Grant { option, .. } = read(sql) else {
            panic!("{sql}");
        };
        assert_eq!(option, expected, "{sql}");
    }
    refused("GRANT SELECT ON lazybase.segments TO anna", "42809");
    refused("GRANT SELECT ON t", "42601");
}

#[test]
fn settings_are_of_roles_and_of_the_database() {
    let setting = |role, name: Option<&str>, value: Option<&str>| AccessStatement::Setting {
        role,
        name: name.map(str::to_owned),
        value: value.map(str::to_owned),
    };
    let anna = || Some(RoleName::Named("anna".to_owned()));
    let freshness = Some("lazybase.freshness");
    for (sql, read_as) in [
        (
            "ALTER ROLE anna SET lazybase.freshness = 'best effort'",
            setting(anna(), freshness, Some("best effort")),
        ),
        (
            "ALTER ROLE anna IN DATABASE lazybase SET lazybase.freshness TO 5",
            setting(anna(), freshness, Some("5")),
        ),
        (
            "ALTER USER anna RESET lazybase.freshness",
            setting(anna(), freshness, None),
        ),
        ("ALTER USER anna RESET ALL", setting(anna(), None, None)),
        (
            "ALTER DATABASE lazybase SET lazybase.on_miss = stale",
            setting(None, Some("lazybase.on_miss"), Some("stale")),
        ),
        (
            "ALTER ROLE ALL SET statement_timeout = '5s'",
            setting(None, Some("statement_timeout"), Some("5s")),
        ),
    ] {
        assert_eq!(read(sql), read_as, "{sql}");
    }
    refused("ALTER DATABASE other SET a = 1", "3D000");
    refused("ALTER DATABASE lazybase OWNER TO anna", "0A000");
}

#[test]
fn owners_and_roles_of_sessions() {
    assert_eq!(read("RESET ROLE"), AccessStatement::SetRole(None));
    assert_eq!(read("SET ROLE NONE"), AccessStatement::SetRole(None));
    let anna = AccessStatement::SetRole(Some("anna".to_owned()));
    assert_eq!(read("SET SESSION ROLE 'anna'"), anna);
    assert!(matches!(
        parse("SET lazybase.freshness = 0").unwrap().statement,
        Statement::Set { .. }
    ));
    refused("SET SESSION AUTHORIZATION anna", "0A000");
    refused("RESET SESSION AUTHORIZATION", "0A000");
    assert!(matches!(
        read("ALTER TABLE IF EXISTS ONLY public.t OWNER TO CURRENT_USER"),
        AccessStatement::Own {
            if_exists: true,
            owner: RoleName::Current,
            ..
        }
    ));
    assert_eq!(
        read("ALTER SEQUENCE IF EXISTS public.s OWNER TO anna"),
        AccessStatement::Own {
            name: "s".to_owned(),
            of: Owned::Sequence,
            if_exists: true,
            owner: RoleName::Named("anna".to_owned()),
        }
    );
    let renamed = parse("ALTER TABLE t RENAME TO u").unwrap().statement;
    assert!(matches!(renamed, Statement::AlterTable(_)));
    let restarted = parse("ALTER SEQUENCE s RESTART").unwrap().statement;
    assert!(matches!(restarted, Statement::Sequence(_)));
}

#[test]
fn no_message_shows_a_password() {
    for sql in [
        "CREATE ROLE anna PASSWORD 'hunter2' 'hunter2'",
        "CREATE ROLE anna PASSWORD hunter2",
        "CREATE ROLE anna PASSWORD 'hunter2' NONSENSE 'hunter2'",
        "CREATE ROLE anna UNENCRYPTED PASSWORD 'hunter2'",
        "ALTER USER anna PASSWORD 'hunter2', 'hunter2'",
    ] {
        let error = parse(sql).expect_err(sql);
        let told = format!("{error:?}");
        let unquoted = sql.contains("PASSWORD hunter2");
        assert!(unquoted || !told.contains("hunter2"), "{told}");
    }
    let read = parse("CREATE ROLE anna PASSWORD 'hunter2'").unwrap();
    assert!(!format!("{read:?}").contains("hunter2"));
    assert_eq!(
        redacted("CREATE ROLE a Password 'x'"),
        "CREATE ROLE a Password ..."
    );
    assert_eq!(redacted("SELECT 1"), "SELECT 1");
}
