//! What goes from role to role: grant options, grants on tables to come, producers, and how
//! `information_schema` tells of them.

use lazybase_query::{Database, Session};
use tempfile::TempDir;

use crate::open_in;

struct World {
    folder: TempDir,
    database: Database,
    admin: Session,
}

impl World {
    async fn new(setup: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let database = open_in(folder.path()).await;
        let admin = database.session();
        admin.execute(setup).await.unwrap();
        World {
            folder,
            database,
            admin,
        }
    }

    async fn role(&self, name: &str) -> Session {
        let session = self.database.session();
        session.execute(&format!("SET ROLE {name}")).await.unwrap();
        session
    }

    /// The same after it was closed and opened; no session is left of before.
    async fn opened_again(self) -> World {
        let World {
            folder,
            database,
            admin,
        } = self;
        drop(admin);
        database.close().await.unwrap();
        drop(database);
        let database = open_in(folder.path()).await;
        let admin = database.session();
        World {
            folder,
            database,
            admin,
        }
    }
}

/// The SQLSTATE that a statement fails with.
async fn refused(session: &Session, sql: &str) -> String {
    let error = session.execute(sql).await.expect_err(sql);
    error.sqlstate().to_owned()
}

/// Rows as text, a line each.
async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let answers = session.execute(sql).await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&answers[0].batches).unwrap();
    let text = text.to_string();
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(1);
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        cells.collect::<Vec<_>>().join(" ")
    };
    lines.map(cells).collect()
}

const TABLES: &str = "
    CREATE ROLE owner; CREATE ROLE a; CREATE ROLE b; CREATE ROLE c;
    GRANT CREATE ON DATABASE lazybase TO owner;
    SET ROLE owner;
    CREATE TABLE t (k INT PRIMARY KEY, v INT);
    INSERT INTO t VALUES (1, 1);
    RESET ROLE";

#[tokio::test]
async fn what_comes_with_a_grant_option_is_passed_on() {
    let world = World::new(TABLES).await;
    let [owner, a, b] = [
        world.role("owner").await,
        world.role("a").await,
        world.role("b").await,
    ];
    let read = "SELECT k FROM t";
    owner
        .execute("GRANT SELECT, INSERT ON t TO a")
        .await
        .unwrap();
    assert_eq!(refused(&a, "GRANT SELECT ON t TO b").await, "42501");
    let grant = "GRANT SELECT ON t TO a WITH GRANT OPTION";
    owner.execute(grant).await.unwrap();
    assert_eq!(refused(&b, read).await, "42501");
    for refusal in [
        "GRANT INSERT ON t TO b",
        "GRANT SELECT, INSERT ON t TO b",
        "GRANT ALL ON t TO b",
        "REVOKE SELECT ON t FROM b",
        "REVOKE GRANT OPTION FOR SELECT ON t FROM a",
    ] {
        assert_eq!(refused(&a, refusal).await, "42501", "{refusal}");
    }
    a.execute("GRANT SELECT (k) ON t TO b").await.unwrap();
    b.execute(read).await.unwrap();
    assert_eq!(refused(&b, "SELECT v FROM t").await, "42501");
    a.execute("GRANT SELECT ON t TO b WITH GRANT OPTION")
        .await
        .unwrap();
    b.execute("GRANT SELECT ON t TO c").await.unwrap();
    let asked = "SELECT has_table_privilege('b', 't', 'SELECT WITH GRANT OPTION'), \
        has_table_privilege('c', 't', 'SELECT WITH GRANT OPTION'), \
        has_table_privilege('c', 't', 'SELECT')";
    assert_eq!(rows(&world.admin, asked).await, ["true false true"]);

    // Without the option, what was granted stays; it does not come back with a plain grant.
    drop((owner, a, b));
    let world = world.opened_again().await;
    let [owner, a, b] = [
        world.role("owner").await,
        world.role("a").await,
        world.role("b").await,
    ];
    owner
        .execute("REVOKE GRANT OPTION FOR SELECT ON t FROM a")
        .await
        .unwrap();
    a.execute(read).await.unwrap();
    assert_eq!(refused(&a, "GRANT SELECT ON t TO c").await, "42501");
    owner
        .execute("REVOKE SELECT ON t FROM b; GRANT SELECT ON t TO b")
        .await
        .unwrap();
    b.execute(read).await.unwrap();
    assert_eq!(refused(&b, "GRANT SELECT ON t TO c").await, "42501");
    world.database.close().await.unwrap();
}

/// PostgreSQL takes back with CASCADE what was passed on, and refuses without it. Here nobody knows
/// who has passed on what, and nothing may look as if it were taken back.
#[tokio::test]
async fn what_was_passed_on_is_told_to_stay() {
    let world = World::new(TABLES).await;
    world
        .admin
        .execute("GRANT SELECT, INSERT ON t TO a WITH GRANT OPTION; GRANT DELETE ON t TO a")
        .await
        .unwrap();
    let a = world.role("a").await;
    a.execute("GRANT SELECT ON t TO b").await.unwrap();
    let grants = "SELECT role, privilege, grant_option FROM lazybase.grants \
        WHERE object = 't' ORDER BY role, privilege";
    let before = [
        "a DELETE false",
        "a INSERT true",
        "a SELECT true",
        "b SELECT false",
    ];
    assert_eq!(rows(&world.admin, grants).await, before);
    let owner = world.role("owner").await;
    for sql in [
        "REVOKE SELECT ON t FROM a CASCADE",
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM b, a CASCADE",
        "REVOKE GRANT OPTION FOR SELECT ON t FROM a CASCADE",
        "REVOKE SELECT ON t FROM b GRANTED BY a",
        "GRANT SELECT ON t TO b GRANTED BY a",
    ] {
        assert_eq!(refused(&owner, sql).await, "0A000", "{sql}");
    }
    assert_eq!(rows(&world.admin, grants).await, before);
    let notices = async |sql: &str| {
        let answers = owner.execute(sql).await.unwrap();
        let notices = answers[0].notices.iter();
        notices.map(ToString::to_string).collect::<Vec<String>>()
    };
    // What could not be passed on leaves nothing behind.
    let quiet: Vec<String> = Vec::new();
    assert_eq!(notices("REVOKE DELETE ON t FROM a CASCADE").await, quiet);
    assert_eq!(notices("REVOKE SELECT (k) ON t FROM a").await, quiet);
    let told = notices("REVOKE GRANT OPTION FOR INSERT ON t FROM a").await;
    assert!(
        told[0].starts_with("warning: what role \"a\" has granted"),
        "{told:?}"
    );
    let told = notices("REVOKE SELECT ON t FROM a RESTRICT").await;
    assert!(
        told[0].starts_with("warning: what role \"a\" has granted"),
        "{told:?}"
    );
    let after = ["a INSERT false", "b SELECT false"];
    assert_eq!(rows(&world.admin, grants).await, after);
    assert_eq!(refused(&a, "SELECT * FROM t").await, "42501");
    world.database.close().await.unwrap();
}

#[tokio::test]
async fn grant_options_are_of_roles_and_of_whole_tables() {
    let world = World::new(TABLES).await;
    for (sql, state) in [
        ("GRANT SELECT ON t TO PUBLIC WITH GRANT OPTION", "0LP01"),
        ("GRANT SELECT (k) ON t TO a WITH GRANT OPTION", "0A000"),
        (
            "GRANT CREATE ON DATABASE lazybase TO a WITH GRANT OPTION",
            "0A000",
        ),
        ("REVOKE GRANT OPTION FOR a FROM b", "42601"),
        ("GRANT SELECT ON t TO nosuch WITH GRANT OPTION", "42704"),
    ] {
        assert_eq!(refused(&world.admin, sql).await, state, "{sql}");
    }
    let public = "SELECT has_table_privilege('a', 't', 'SELECT')";
    assert_eq!(
        rows(&world.admin, public).await,
        ["false"],
        "nothing stays of what failed"
    );
    world.database.close().await.unwrap();
}

#[tokio::test]
async fn tables_to_come_are_granted_as_their_maker_says() {
    let world = World::new(TABLES).await;
    let [owner, a] = [world.role("owner").await, world.role("a").await];
    owner
        .execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT ON TABLES TO a")
        .await
        .unwrap();
    world
        .admin
        .execute("ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT DELETE ON TABLES TO PUBLIC")
        .await
        .unwrap();
    assert_eq!(
        refused(&a, "SELECT * FROM t").await,
        "42501",
        "what was there before"
    );
    drop((owner, a));
    let world = world.opened_again().await;
    let [owner, a, b] = [
        world.role("owner").await,
        world.role("a").await,
        world.role("b").await,
    ];
    owner
        .execute("BEGIN; CREATE TABLE u (k INT PRIMARY KEY); COMMIT")
        .await
        .unwrap();
    a.execute("INSERT INTO u VALUES (1), (2); SELECT * FROM u")
        .await
        .unwrap();
    b.execute("DELETE FROM u").await.unwrap();
    assert_eq!(refused(&b, "SELECT * FROM u").await, "42501");
    // Another maker's tables are not concerned.
    world.admin.execute("CREATE TABLE w (k INT)").await.unwrap();
    assert_eq!(refused(&a, "SELECT * FROM w").await, "42501");
    owner
        .execute("ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM a; CREATE TABLE x (k INT)")
        .await
        .unwrap();
    assert_eq!(refused(&a, "SELECT * FROM x").await, "42501");
    for (session, sql, state) in [
        (
            &a,
            "ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON TABLES TO a",
            "42501",
        ),
        (
            &owner,
            "ALTER DEFAULT PRIVILEGES GRANT SELECT (k) ON TABLES TO a",
            "0LP01",
        ),
        (
            &owner,
            "ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO a",
            "0A000",
        ),
        (
            &owner,
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO a WITH GRANT OPTION",
            "0A000",
        ),
        (
            &owner,
            "ALTER DEFAULT PRIVILEGES IN SCHEMA other GRANT SELECT ON TABLES TO a",
            "0A000",
        ),
        (
            &world.admin,
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO a",
            "42704",
        ),
    ] {
        assert_eq!(refused(session, sql).await, state, "{sql}");
    }
    // They go with the role.
    world
        .admin
        .execute("REASSIGN OWNED BY owner TO b; DROP ROLE owner; DROP ROLE a")
        .await
        .unwrap();
    world.database.close().await.unwrap();
}

#[tokio::test]
async fn information_schema_tells_who_is_a_member_of_what() {
    let world = World::new(
        "CREATE ROLE a; CREATE ROLE reader; CREATE ROLE writer; CREATE ROLE staff; \
         CREATE ROLE aside NOINHERIT; \
         GRANT reader TO staff; GRANT staff TO a; GRANT writer TO a WITH ADMIN OPTION; \
         GRANT reader TO aside",
    )
    .await;
    let enabled = "SELECT role_name FROM information_schema.enabled_roles ORDER BY 1";
    let applicable = "SELECT * FROM information_schema.applicable_roles ORDER BY 1, 2";
    let administrable = "SELECT * FROM information_schema.administrable_role_authorizations";
    let a = world.role("a").await;
    assert_eq!(rows(&a, enabled).await, ["a", "reader", "staff", "writer"]);
    assert_eq!(
        rows(&a, applicable).await,
        ["a staff NO", "a writer YES", "staff reader NO"]
    );
    assert_eq!(rows(&a, administrable).await, ["a writer YES"]);
    // A role that does not inherit has no rights but its own: it is still a member.
    let aside = world.role("aside").await;
    assert_eq!(rows(&aside, enabled).await, ["aside"]);
    assert_eq!(rows(&aside, applicable).await, ["aside reader NO"]);
    aside.execute("SET ROLE reader").await.unwrap();
    assert_eq!(rows(&aside, enabled).await, ["reader"]);
    let nothing: [&str; 0] = [];
    assert_eq!(rows(&aside, applicable).await, nothing);
    // Superusers, and whoever owns the folder, have the rights of all roles.
    let all = "SELECT count(*), (SELECT count(*) FROM pg_roles) FROM \
        information_schema.enabled_roles";
    assert_eq!(rows(&world.admin, all).await, ["6 6"]);
    assert_eq!(
        rows(&world.admin, applicable).await,
        [
            "a staff NO",
            "a writer YES",
            "aside reader NO",
            "staff reader NO"
        ]
    );
    // As PostgreSQL's own definition of them gives it.
    let same = "SELECT a.rolname, b.rolname, CASE WHEN m.admin_option THEN 'YES' ELSE 'NO' END \
        FROM pg_auth_members m JOIN pg_roles a ON m.member = a.oid \
        JOIN pg_roles b ON m.roleid = b.oid WHERE pg_has_role(a.oid, 'USAGE') ORDER BY 1, 2";
    for session in [&a, &aside, &world.admin] {
        assert_eq!(rows(session, same).await, rows(session, applicable).await);
    }
    world.database.close().await.unwrap();
}

#[tokio::test]
async fn information_schema_tells_who_was_granted_what() {
    let world = World::new(TABLES).await;
    world
        .admin
        .execute(
            "GRANT SELECT ON t TO a WITH GRANT OPTION; GRANT INSERT (v) ON t TO b; \
             GRANT DELETE ON t TO PUBLIC",
        )
        .await
        .unwrap();
    let of_table = "SELECT grantor, grantee, table_name, privilege_type, is_grantable \
        FROM information_schema.table_privileges WHERE grantee <> 'owner' ORDER BY grantee";
    let both = ["owner PUBLIC t DELETE NO", "owner a t SELECT YES"];
    assert_eq!(rows(&world.admin, of_table).await, both);
    assert_eq!(rows(&world.role("owner").await, of_table).await, both);
    assert_eq!(rows(&world.role("a").await, of_table).await, both);
    let b = world.role("b").await;
    assert_eq!(
        rows(&b, of_table).await,
        both[..1],
        "others see what is theirs"
    );
    let of_roles = of_table.replace("table_privileges", "role_table_grants");
    assert_eq!(rows(&world.admin, &of_roles).await, both[1..]);
    let owners = "SELECT count(*) FROM information_schema.table_privileges \
        WHERE grantee = 'owner' AND is_grantable = 'YES' AND table_schema = 'public'";
    assert_eq!(rows(&world.admin, owners).await, ["5"]);
    let of_columns = "SELECT grantee, column_name, privilege_type, is_grantable \
        FROM information_schema.column_privileges WHERE grantee <> 'owner' ORDER BY 1, 2";
    assert_eq!(
        rows(&world.admin, of_columns).await,
        ["a k SELECT YES", "a v SELECT YES", "b v INSERT NO"]
    );
    assert_eq!(rows(&b, of_columns).await, ["b v INSERT NO"]);
    // DataFusion's own tables stay.
    let columns = "SELECT column_name FROM information_schema.columns \
        WHERE table_name = 't' ORDER BY ordinal_position";
    assert_eq!(rows(&world.admin, columns).await, ["k", "v"]);
    world.admin.execute("SHOW TABLES").await.unwrap();
    world.database.close().await.unwrap();
}

#[tokio::test]
async fn a_producer_belongs_to_the_role_that_opened_it_first() {
    let world = World::new(TABLES).await;
    world
        .admin
        .execute("GRANT INSERT ON t TO a, b, c; GRANT a TO c; CREATE ROLE root SUPERUSER")
        .await
        .unwrap();
    let sends = |number: u32, key: u32| {
        format!(
            "SET lazybase.producer = 'feed'; SET lazybase.batch_number = {number}; \
             INSERT INTO t VALUES ({key}, 0)"
        )
    };
    let [a, b, c] = [
        world.role("a").await,
        world.role("b").await,
        world.role("c").await,
    ];
    a.execute(&sends(1, 10)).await.unwrap();
    assert_eq!(refused(&b, &sends(2, 11)).await, "42501");
    // The refusal fences nobody.
    a.execute("SET lazybase.batch_number = 2; INSERT INTO t VALUES (12, 0)")
        .await
        .unwrap();
    c.execute(&sends(3, 13)).await.unwrap();
    world
        .role("root")
        .await
        .execute(&sends(4, 14))
        .await
        .unwrap();
    drop((a, b, c));
    let world = world.opened_again().await;
    let b = world.role("b").await;
    assert_eq!(refused(&b, &sends(5, 15)).await, "42501");
    // It changes hands with all that its role owns, and is nobody's once the role is gone.
    world
        .admin
        .execute("REASSIGN OWNED BY a TO b")
        .await
        .unwrap();
    b.execute(&sends(5, 15)).await.unwrap();
    let a = world.role("a").await;
    assert_eq!(refused(&a, &sends(6, 16)).await, "42501");
    world.admin.execute("DROP ROLE b").await.unwrap();
    a.execute(&sends(6, 16)).await.unwrap();
    let count = "SELECT count(*) FROM t WHERE k >= 10";
    assert_eq!(rows(&world.admin, count).await, ["6"]);
    world.database.close().await.unwrap();
}
