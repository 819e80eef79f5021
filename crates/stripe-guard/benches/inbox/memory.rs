//! Resident memory while very many events wait, and while they drain.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use stripe_guard::settings::{Database, TABLE_PREFIX};
use stripe_guard_core::Digest;
use stripe_guard_sandbox::{App, AppOptions, Shapes};

use crate::child::{Child, Kind, Order};
use crate::ingest::send;
use crate::machine::{folder, resident_mib};
use crate::options::Options;
use crate::servers::secret;

const AIM_MIB: f64 = 64.0;

pub async fn run(options: &Options) {
    println!("memory: {} events wait; {} s of each phase", options.rows, options.seconds);
    let folder = folder();
    let database = folder.path().join("memory.db");
    fill(&database, options.rows).await;
    let mut app = App::start(AppOptions { arrivals_kept: 0, ..AppOptions::verifying([secret()]) }).await.unwrap();
    app.stop().await;
    let child = Child::start(&Order { kind: Kind::Engine, database, app: app.url(), concurrency: options.concurrency });
    let mut highest = 0.0_f64;
    let mut phase = |name: &str| {
        let (now, most) = resident_mib(child.pid());
        println!("{name:<34} {now:>6.1} MiB, at most {most:.1} so far");
        highest = highest.max(most);
    };
    phase("started");
    let span = Duration::from_secs(options.seconds);
    tokio::time::sleep(span).await;
    phase("app unreachable");
    // Fresh ones come in while the old ones cannot leave.
    send(&child.url(), 77, options.events, options.connections).await;
    phase("app unreachable, ingest at full rate");
    app.start_again().await.unwrap();
    tokio::time::sleep(span).await;
    let drained = app.arrivals();
    phase("draining");
    send(&child.url(), 78, options.events, options.connections).await;
    phase("draining, ingest at full rate");
    println!("drained {drained} in {} s; at most {highest:.1} MiB (aim {AIM_MIB})\n", options.seconds);
    assert!(!options.quick || highest < 2.0 * AIM_MIB, "something holds far too much");
}

/// Rows made in SQL. All have one body, so that one digest suits them.
async fn fill(database: &Path, rows: u64) {
    let settings = Database::Sqlite { path: database.to_owned(), table_prefix: TABLE_PREFIX.to_owned() };
    let opened = stripe_guard::open(&settings, false, true).await.unwrap();
    opened.store.close().await;
    let mut connection = SqliteConnectOptions::new()
        .filename(database)
        .pragma("synchronous", "off")
        .pragma("cache_size", "-1000000")
        .connect()
        .await
        .unwrap();
    let body = Shapes::new(5).event(3).body;
    let digest = Digest::of(&body);
    let text = std::str::from_utf8(&body).unwrap();
    let numbers = format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})");
    let key = "printf('evt_%016x', (i * 2654435761) % 4294967296 * 10000000 + i)";
    for statement in [
        "BEGIN".to_owned(),
        format!(
            "{numbers} INSERT INTO stripe_guard_events (seq, source, key, event_id, type, form, origin, intake, received_at, digest) \
            SELECT i, 'stripe', {key}, {key}, 'invoice.paid', 'snapshot', 'webhook', 'accepted', 1790000000000 + i, x'{digest}' FROM n"
        ),
        format!(
            "INSERT INTO stripe_guard_bodies (seq, bytes) SELECT seq, CAST('{}' AS BLOB) FROM stripe_guard_events",
            text.replace('\'', "''")
        ),
        "INSERT INTO stripe_guard_deliveries (id, event_seq, key, destination, state, due_at, round_started_at) \
            SELECT seq, seq, key, 'app', 'received', received_at, received_at FROM stripe_guard_events"
            .to_owned(),
        "COMMIT".to_owned(),
        "PRAGMA wal_checkpoint(TRUNCATE)".to_owned(),
    ] {
        connection.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    connection.close().await.unwrap();
}
