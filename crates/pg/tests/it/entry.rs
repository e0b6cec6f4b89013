//! Who is let in: passwords, what roles may do over the wire, and bytes that are no SASL message.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::BytesMut;
use lazybase_pg::{Options, Server};
use lazybase_query::Database;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::raw::{framed, startup};
use crate::served::{LESS_THAN_SILENCE, Served, sqlstate};
use crate::skips::skip;

/// A server with roles: from the first one that may log in on, everybody gives a password.
async fn guarded() -> Served {
    let served = Served::start().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (k INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'one');
             CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret';
             CREATE USER anna PASSWORD 'anna''s'; CREATE ROLE staff; GRANT SELECT ON t TO staff;
             GRANT staff TO anna; CREATE ROLE locked PASSWORD 'secret'",
        )
        .await
        .unwrap();
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_role_that_may_log_in_closes_the_open_door() {
    let served = guarded().await;
    for more in [
        "user=admin password=Secret",
        "user=admin password=x",
        "user=nosuch password=secret",
        "user=locked password=secret",
        "user=lazybase password=secret",
    ] {
        assert_eq!(sqlstate(served.connect(more).await), "28P01", "{more}");
    }
    assert!(served.connect("user=admin").await.is_err(), "no password");
    let admin = served.connect("user=admin password=secret").await.unwrap();
    let row = admin
        .query_one("SELECT current_user, session_user", &[])
        .await
        .unwrap();
    assert_eq!((row.get(0), row.get(1)), ("admin", "admin"));
    // PostgreSQL's own spelling of a password that nobody knows here.
    let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                    WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                    wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    admin
        .batch_execute(&format!("ALTER ROLE anna PASSWORD '{verifier}'"))
        .await
        .unwrap();
    assert_eq!(
        sqlstate(served.connect("user=anna password=anna's").await),
        "28P01"
    );
    served.connect("user=anna password=pencil").await.unwrap();
    admin
        .batch_execute("ALTER ROLE anna VALID UNTIL '2020-01-01 00:00:00+00'")
        .await
        .unwrap();
    assert_eq!(
        sqlstate(served.connect("user=anna password=pencil").await),
        "28P01"
    );
}

/// Nobody could come in by a password: whoever made the role could not take it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_a_password_locks_nobody_out() {
    let served = Served::start().await;
    let me = served.connect("user=me").await.unwrap();
    // As `createuser` has it.
    let made = "CREATE ROLE zed NOSUPERUSER NOCREATEDB NOCREATEROLE INHERIT LOGIN NOREPLICATION \
                NOBYPASSRLS";
    me.batch_execute(made).await.unwrap();
    let zed = served.connect("user=zed").await.unwrap();
    let who = zed.query_one("SELECT current_user", &[]).await.unwrap();
    assert_eq!(who.get::<_, &str>(0), "zed");
    let refused = zed.batch_execute("CREATE TABLE t (k INT)").await;
    assert_eq!(sqlstate(refused), "42501");
    let again = served.connect("user=me").await.unwrap();
    let dropped = "DROP ROLE zed; CREATE USER bob; ALTER USER bob PASSWORD 'secret'";
    again.batch_execute(dropped).await.unwrap();
    // One that has a password can show who it is, and then everybody is to.
    for more in ["user=me password=x", "user=bob password=x"] {
        assert_eq!(sqlstate(served.connect(more).await), "28P01", "{more}");
    }
    let bob = served.connect("user=bob password=secret").await.unwrap();
    let last = bob.batch_execute("ALTER USER bob PASSWORD NULL").await;
    assert_eq!(sqlstate(last), "42501");
}

/// The programs themselves, where they are on this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn createuser_and_dropuser_work_on_a_fresh_server() {
    let served = Served::start().await;
    let port = served.address.port().to_string();
    for program in ["/usr/bin/createuser", "/usr/bin/dropuser"] {
        if !Path::new(program).exists() {
            skip(&format!("there is no {program} on this machine"));
            return;
        }
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &port, "-U", "me", "-w", "zed"]);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
    }
    served.connect("user=me").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn privileges_hold_over_the_wire_also_for_what_was_prepared() {
    let served = guarded().await;
    let admin = served.connect("user=admin password=secret").await.unwrap();
    let anna = served.connect("user=anna password=anna's").await.unwrap();
    let point = anna.prepare("SELECT v FROM t WHERE k = $1").await.unwrap();
    let scan = anna.prepare("SELECT v FROM t WHERE v = $1").await.unwrap();
    assert_eq!(anna.query(&point, &[&1_i32]).await.unwrap().len(), 1);
    assert_eq!(anna.query(&scan, &[&"one"]).await.unwrap().len(), 1);
    for sql in [
        "INSERT INTO t VALUES (2, 'two')",
        "COPY t FROM '/etc/passwd'",
        "DELETE FROM t",
        "CREATE TABLE u (k INT)",
    ] {
        assert_eq!(sqlstate(anna.batch_execute(sql).await), "42501", "{sql}");
    }
    assert_eq!(
        sqlstate(
            anna.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN")
                .await
                .map(|_| ())
        ),
        "42501"
    );
    admin
        .batch_execute("REVOKE SELECT ON t FROM staff")
        .await
        .unwrap();
    assert_eq!(sqlstate(anna.query(&point, &[&1_i32]).await), "42501");
    assert_eq!(sqlstate(anna.query(&point, &[&77_i32]).await), "42501");
    assert_eq!(sqlstate(anna.query(&scan, &[&"one"]).await), "42501");
    assert_eq!(
        sqlstate(anna.copy_out("COPY t TO STDOUT").await.map(|_| ())),
        "42501"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_a_pool_gives_on_acts_as_itself_again() {
    let served = guarded().await;
    let anna = served.connect("user=anna password=anna's").await.unwrap();
    let who = async || -> String {
        anna.query_one("SELECT current_user", &[])
            .await
            .unwrap()
            .get(0)
    };
    anna.batch_execute("SET ROLE staff").await.unwrap();
    assert_eq!(who().await, "staff");
    assert_eq!(
        sqlstate(anna.batch_execute("SET ROLE admin").await),
        "42501"
    );
    anna.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!(who().await, "anna");
    assert_eq!(
        sqlstate(anna.batch_execute("SET SESSION AUTHORIZATION admin").await),
        "0A000"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_has_no_more_connections_than_its_limit() {
    let served = guarded().await;
    let admin = served.connect("user=admin password=secret").await.unwrap();
    admin
        .batch_execute("ALTER ROLE anna CONNECTION LIMIT 1")
        .await
        .unwrap();
    let first = served.connect("user=anna password=anna's").await.unwrap();
    let more = served.connect("user=anna password=anna's").await;
    assert_eq!(sqlstate(more), "53300");
    drop(first);
    for attempt in 0.. {
        match served.connect("user=anna password=anna's").await {
            Ok(_) => break,
            Err(error) if attempt == 1500 => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_may_be_trusted_on_this_machine() {
    let options = Options {
        trusts_loopback: true,
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    let client = served.client().await;
    client
        .batch_execute("CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'x'")
        .await
        .unwrap();
    served.connect("user=admin").await.unwrap();
    assert_eq!(sqlstate(served.connect("user=nosuch").await), "28000");
    // A role that may log in, and no superuser among them, locks nobody out.
    client
        .batch_execute("CREATE ROLE app LOGIN; DROP ROLE admin")
        .await
        .unwrap();
    let owner = served.connect("user=lazybase").await.unwrap();
    owner
        .batch_execute("CREATE ROLE admin SUPERUSER; SET ROLE admin; RESET ROLE")
        .await
        .unwrap();
    let app = served.connect("user=app").await.unwrap();
    assert_eq!(
        sqlstate(app.batch_execute("CREATE ROLE other").await),
        "42501"
    );
}

/// As `pg_dumpall --roles-only` does, and psql that reads it in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tests_a_password_makes_another_role_that_has_the_password() {
    let served = guarded().await;
    let admin = served.connect("user=admin password=secret").await.unwrap();
    let shown = "SELECT rolpassword FROM pg_authid WHERE rolname = 'anna'";
    let verifier: String = admin.query_one(shown, &[]).await.unwrap().get(0);
    admin
        .batch_execute(&format!("CREATE ROLE twin LOGIN PASSWORD '{verifier}'"))
        .await
        .unwrap();
    served.connect("user=twin password=anna's").await.unwrap();
    let wrong = served.connect("user=twin password=secret").await;
    assert_eq!(sqlstate(wrong.map(drop)), "28P01");
    let anna = served.connect("user=anna password=anna's").await.unwrap();
    assert_eq!(sqlstate(anna.query(shown, &[]).await), "42501");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_folders_owner_is_let_in_by_name_only_where_this_machine_is_trusted() {
    let served = guarded().await;
    let Err(refused) = served.connect("user=lazybase password=secret").await else {
        panic!("the folder's owner has no password");
    };
    let refused = refused.as_db_error().unwrap();
    assert_eq!(refused.code().code(), "28P01");
    let hint = refused.hint().unwrap();
    assert!(hint.contains("--trust-loopback"), "{hint}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_not_listened_to_without_encryption_and_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path().join("db")).await.unwrap();
    let bind = async |options| {
        let address = "0.0.0.0:0".parse().unwrap();
        Server::bind(database.clone(), address, options)
            .await
            .map(drop)
    };
    let error = bind(Options::default()).await.unwrap_err();
    assert!(error.detail().unwrap().contains("no TLS"), "{error:?}");
    database
        .session()
        .execute("CREATE ROLE admin LOGIN SUPERUSER PASSWORD 'x'")
        .await
        .unwrap();
    let error = bind(Options::default()).await.unwrap_err();
    assert!(
        error.detail().unwrap().contains("TLS is needed"),
        "{error:?}"
    );
    let tls = crate::encrypted::tls(&folder.path().join("tls"), false);
    let with_tls = || Options {
        tls: Some(tls.clone()),
        ..Options::default()
    };
    bind(with_tls()).await.unwrap();
    database
        .session()
        .execute("ALTER ROLE admin PASSWORD NULL")
        .await
        .unwrap();
    let error = bind(with_tls()).await.unwrap_err();
    assert!(error.detail().unwrap().contains("no role"), "{error:?}");
}

/// Sends bytes after the server has asked for a password; gives all that it says.
async fn answer(served: &Served, user: &str, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(&startup(user)).await.unwrap();
    let mut told = BytesMut::new();
    let mut messages = messages.iter();
    loop {
        let read = tokio::time::timeout(LESS_THAN_SILENCE, stream.read_buf(&mut told)).await;
        match read {
            Ok(Ok(0)) | Ok(Err(_)) => return told.to_vec(),
            Err(_) => panic!("the server neither answers nor ends: {told:?}"),
            Ok(Ok(_)) => {}
        }
        match messages.next() {
            Some(message) => drop(stream.write_all(message).await),
            None => drop(stream.shutdown().await),
        }
    }
}

fn sasl(mechanism: &str, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as i32).to_be_bytes();
    framed(b'p', &[mechanism.as_bytes(), &[0], &length, data].concat())
}

fn holds(told: &[u8], text: &str) -> bool {
    told.windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_nonsense_in_the_place_of_a_password_lets_anybody_in() {
    let served = guarded().await;
    let first = || sasl("SCRAM-SHA-256", b"n,,n=,r=abc");
    let nonsense: Vec<Vec<Vec<u8>>> = vec![
        vec![first(), framed(b'p', b"")],
        vec![first(), framed(b'p', b"c=biws,r=abc,p=")],
        vec![first(), framed(b'p', b"c=biws,r=,p=AAAA")],
        vec![first(), framed(b'p', b",p=")],
        vec![first(), framed(b'p', &[0xfe; 100])],
        vec![first(), framed(b'p', &[b'a'; 4090])],
        vec![first(), first()],
        vec![framed(b'Q', b"SELECT 1\0")],
        vec![framed(b'p', b"secret\0")],
        vec![framed(b'p', b"")],
        vec![vec![b'p', 0xff, 0xff, 0xff, 0xff]],
        vec![vec![b'p', 0, 0, 0, 3]],
        vec![vec![b'p', 0, 0, 0x10, 0x01]],
        vec![sasl("SCRAM-SHA-1", b"n,,n=,r=abc")],
        vec![sasl(
            "SCRAM-SHA-256-PLUS",
            b"p=tls-server-end-point,,n=,r=abc",
        )],
        vec![sasl("SCRAM-SHA-256", b"")],
        vec![sasl("SCRAM-SHA-256", b",,,,")],
        vec![sasl("SCRAM-SHA-256", b"n,a=admin,n=,r=abc")],
        vec![sasl("SCRAM-SHA-256", b"n,,m=x,n=,r=abc")],
        vec![sasl("SCRAM-SHA-256", &[0xff; 40])],
    ];
    for messages in &nonsense {
        let told = answer(&served, "admin", messages).await;
        assert!(holds(&told, "FATAL"), "{messages:?}: {told:?}");
        // AuthenticationOk, and ReadyForQuery.
        for open in ["R\0\0\0\u{8}\0\0\0\0", "Z\0\0\0\u{5}"] {
            assert!(!holds(&told, open), "{messages:?}");
        }
    }
    served.connect("user=admin password=secret").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_not_there_is_asked_as_any_other() {
    let served = guarded().await;
    let asked = async |user: &str| {
        let told = answer(&served, user, &[sasl("SCRAM-SHA-256", b"n,,n=,r=abc")]).await;
        let text = String::from_utf8_lossy(&told).into_owned();
        let (_, server_first) = text.split_once("r=abc").expect("the exchange begins");
        let fields: Vec<&str> = server_first.split(',').collect();
        let salt = fields[1].to_owned();
        assert!(
            salt.starts_with("s=") && fields[2].starts_with("i=4096"),
            "{text}"
        );
        (told.len(), salt)
    };
    let mut shapes = Vec::new();
    for user in ["admin", "nosuch", "nosuch", "locked"] {
        shapes.push(asked(user).await);
    }
    assert!(
        shapes.iter().all(|(length, _)| *length == shapes[0].0),
        "{shapes:?}"
    );
    assert_eq!(
        shapes[1], shapes[2],
        "the salt of a name is always the same"
    );
    let anna = asked("anna").await;
    let admin = served.connect("user=admin password=secret").await.unwrap();
    for change in ["VALID UNTIL '2000-01-01 00:00:00+00'", "NOLOGIN"] {
        admin
            .batch_execute(&format!("ALTER ROLE anna {change}"))
            .await
            .unwrap();
        assert_eq!(asked("anna").await, anna, "{change}");
        let refused = served.connect("user=anna password=anna's").await;
        assert_eq!(sqlstate(refused), "28P01", "{change}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guessing_becomes_slow() {
    let served = guarded().await;
    let begun = std::time::Instant::now();
    for _ in 0..6 {
        assert_eq!(
            sqlstate(served.connect("user=admin password=guess").await),
            "28P01"
        );
    }
    // 0.1 + 0.2 + 0.4 s before the last three.
    assert!(
        begun.elapsed() >= Duration::from_millis(600),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_that_come_together_are_as_slow_as_those_that_come_in_turn() {
    let served = guarded().await;
    let begun = std::time::Instant::now();
    let guesses = (0..6).map(|_| served.connect("user=admin password=guess"));
    for refused in futures::future::join_all(guesses).await {
        assert_eq!(sqlstate(refused), "28P01");
    }
    // 0.1 + 0.2 + 0.4 s before the last three.
    assert!(
        begun.elapsed() >= Duration::from_millis(600),
        "{:?}",
        begun.elapsed()
    );
    // Right ones wait for nothing but one another, once the first of them was let in.
    let right = (0..20).map(|_| served.connect("user=admin password=secret"));
    let let_in = futures::future::join_all(right).await;
    assert!(let_in.iter().all(Result::is_ok));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_connections_are_kept_for_superusers() {
    let options = Options {
        connections_max: 3,
        superuser_reserved: 1,
        ..Options::default()
    };
    let served = Served::start_with(options).await;
    let owner = served.client().await;
    let roles = "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'; \
                 CREATE USER anna PASSWORD 'secret'";
    owner.batch_execute(roles).await.unwrap();
    let (anna, admin) = ("user=anna password=secret", "user=admin password=secret");
    let first = served.connect(anna).await.unwrap();
    assert_eq!(sqlstate(served.connect(anna).await.map(drop)), "53300");
    let second = served.connect(admin).await.unwrap();
    assert_eq!(sqlstate(served.connect(admin).await.map(drop)), "53300");
    for client in [&first, &second] {
        client.batch_execute("SELECT 1").await.unwrap();
    }
    drop((owner, first, second));
    served.stop().await;
}
