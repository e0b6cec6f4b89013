//! What a server says of itself after a sync that failed, through each of its doors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use lazybase_cluster::Settings;
use lazybase_engine::env::Env;
use lazybase_engine::env::local::{DiskRecord, LocalStore};
use lazybase_model::Result;
use lazybase_query::Database;
use tokio::runtime::Builder;

use super::{Health, Http};
use crate::config::Config;
use crate::pages::Phase;
use crate::status;
use crate::wall;
use crate::wire::Wire;

#[path = "../../../../tests/http.rs"]
mod pages;

use pages::get;

/// A port of this machine that is free.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A server over HTTP, at this address.
async fn serve(database: &Database) -> Result<(Http, String)> {
    let health = Health::default();
    health.opened(database);
    health.enter(Phase::Ready);
    let mut config = Config::default();
    config.http_listen = Some(ANY_PORT);
    let http = Http::open(&config, &health, None, 8).await?;
    let told = http.told();
    let (_, address) = told.split_once("http://").unwrap();
    let (address, _) = address.split_once('/').unwrap();
    Ok((http, address.to_owned()))
}

/// The page of `lazybase status --url`.
async fn page(database: &Database) -> Result<String> {
    let options = lazybase_pg::Options::default();
    let server = lazybase_pg::Server::bind(database.clone(), ANY_PORT, options).await?;
    let url = format!("postgresql://me@{}/lazybase", server.address());
    let serving = wall::spawn(server.serve(std::future::pending()));
    let wire = Wire::connect(&url).await?;
    let page = status::page::text(&wire).await?;
    serving.abort();
    Ok(page)
}

async fn a_sync_fails() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let record = DiskRecord::below(&base);
    let store = LocalStore::open_recorded(&base.join("db"), &record)?;
    let settings = Settings {
        log_file_bytes: 64 << 10,
        ..Settings::default()
    };
    let database = Database::open_env(Env::system(Arc::new(store)), settings).await?;
    let session = database.session();
    let made = "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)";
    session.execute(made).await?;
    let (http, address) = serve(&database).await?;
    let is_ready = (200, "ready\n".to_owned());
    assert_eq!(get(&address, "/ready"), is_ready);
    assert_eq!(get(&address, "/health"), (200, "alive\n".to_owned()));
    let (_, metrics) = get(&address, "/metrics");
    assert!(metrics.contains("\nlazybase_sync_failed 0\n"), "{metrics}");
    assert!(page(&database).await?.starts_with("writers are not held"));

    let refused = io::ErrorKind::ReadOnlyFilesystem;
    record.refuse_sync(refused, |name| name.starts_with("db/log/"));
    let lost = session.execute("INSERT INTO t VALUES (2)").await;
    let lost = lost.unwrap_err().to_string();
    assert!(lost.contains("an earlier sync failed"), "{lost}");

    let failed = database.instance().status().failed_sync.unwrap();
    assert!(failed.name.starts_with("log/"), "{failed}");
    let why = failed.to_string();
    let told = format!("batches can't be made durable: {why}\n");
    assert_eq!(get(&address, "/ready"), (503, told));
    let told = format!("alive, for readers: {why}\n");
    assert_eq!(get(&address, "/health"), (200, told));
    let (_, metrics) = get(&address, "/metrics");
    assert!(metrics.contains("\nlazybase_sync_failed 1\n"), "{metrics}");
    assert!(metrics.contains("\nlazybase_ready 0\n"), "{metrics}");
    let told = format!("\nwriters are refused: {why}\n");
    let text = status::text(database.instance());
    assert!(text.contains(&told), "{text}");
    let page = page(&database).await?;
    let line = page.lines().find(|line| line.contains("every writer"));
    assert!(line.is_some_and(|line| line.contains(&why)), "{page}");

    let answers = session.execute("SELECT k FROM t FRESHNESS 0").await?;
    assert_eq!(answers[0].rows, 1, "readers are served");
    http.close();
    // What can't be sealed the next opening seals.
    let _ = database.close().await;
    Ok(())
}

#[test]
fn after_a_sync_that_failed_every_door_says_that_the_server_must_be_restarted() {
    let done = wall::on_a_stack(crate::STACK_BYTES, || {
        let runtime = crate::threads("http", Builder::enable_all)?;
        runtime.block_on(a_sync_fails())
    });
    done.unwrap();
}
