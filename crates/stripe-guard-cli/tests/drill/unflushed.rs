//! The server of the control: the same engine on a store that does not flush.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use stripe_guard::Engine;
use stripe_guard::clock::SystemClock;
use stripe_guard::settings::{Database, Destination, Limits, Retention, Settings, Source, TABLE_PREFIX};
use stripe_guard::store::{SqliteFile, open_sqlite_unflushed};
use stripe_guard_core::{Mode, RetryPolicy, Tolerance, TypeFilter};

use crate::guard::{Folder, LEASE, PATIENCE, program, secret};

/// Makes this executable that server, when the test below is run: where, and at which ports.
const PLACE: &str = "STRIPE_GUARD_DRILL_UNFLUSHED";

/// The command that serves a folder without flushing.
pub(crate) fn command(folder: &Folder, tracer: &[String]) -> Command {
    let this = std::env::current_exe().unwrap().display().to_string();
    let me = [&this, "unflushed::serves_without_flushing", "--exact", "--ignored", "--nocapture"].map(str::to_owned);
    let mut command = program(&[tracer, &me].concat());
    let place = format!("{} {} {}", folder.ingest_port(), folder.admin_port(), folder.path().display());
    command.env(PLACE, place);
    command
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "is no test: the drill of the flush runs it as the server of its control"]
async fn serves_without_flushing() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let [listen, admin_listen, folder] = place.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let address = |port: &str| format!("127.0.0.1:{port}").parse().unwrap();
    let (listen, admin_listen) = (address(listen), address(admin_listen));
    let path = Path::new(folder).join("inbox.db");
    let settings = settings(listen, admin_listen, &path);
    let file = SqliteFile { path, table_prefix: TABLE_PREFIX.to_owned(), create: true, exclusive: true };
    let opened = open_sqlite_unflushed(&file).await.unwrap();
    let engine = Engine::start_on(opened, &settings, Arc::new(SystemClock)).await.unwrap();
    println!("Taking events at {}", engine.ingest_address());
    // Until it is killed.
    tokio::time::timeout(PATIENCE * 2, engine.fatal()).await.ok();
}

fn settings(listen: std::net::SocketAddr, admin_listen: std::net::SocketAddr, path: &Path) -> Settings {
    let timeout = std::time::Duration::from_secs(1);
    Settings {
        database: Database::Sqlite { path: path.to_owned(), table_prefix: TABLE_PREFIX.to_owned() },
        listen,
        admin_listen,
        admin_hosts: Vec::new(),
        sources: vec![Source {
            name: "stripe".to_owned(),
            path: "/webhooks/stripe".to_owned(),
            secrets: vec![secret()],
            mode: Mode::Any,
            accounts: Vec::new(),
            api_version: None,
            tolerance: Tolerance::default(),
        }],
        destinations: vec![Destination {
            name: "app".to_owned(),
            url: "http://127.0.0.1:1/webhook".parse().unwrap(),
            sources: Vec::new(),
            types: vec![TypeFilter::All],
            secrets: Vec::new(),
            concurrency: 1,
            timeout,
            first_byte_timeout: timeout,
            connect_timeout: timeout,
            final_statuses: vec![410],
            retry: RetryPolicy::default(),
        }],
        limits: Limits { lease: LEASE, ..Limits::default() },
        retention: Retention::default(),
    }
}
