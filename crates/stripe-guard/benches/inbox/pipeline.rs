//! The whole way: over HTTP into the inbox, over HTTP to the app, settled on disk.

use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Executor as _, Row as _};
use stripe_guard_sandbox::{App, AppOptions};

use crate::child::{Child, Kind, Order};
use crate::ingest::send;
use crate::machine::{cpu_seconds, flush_time, folder, median, resident_mib};
use crate::options::Options;
use crate::servers::secret;

/// So long may the last event take after the last acknowledgement.
const PATIENCE: Duration = Duration::from_mins(2);

pub async fn run(options: &Options) {
    let Options { rounds, events, connections, concurrency, .. } = options;
    println!("pipeline: {events} events a round, {connections} connections in, {concurrency} in flight to the app");
    let folder = folder();
    let database = folder.path().join("engine.db");
    let app = App::start(AppOptions { arrivals_kept: 0, ..AppOptions::verifying([secret()]) }).await.unwrap();
    let mut child = Child::start(&Order {
        kind: Kind::Engine,
        database: database.clone(),
        app: app.url(),
        concurrency: *concurrency,
    });
    let (mut rates, mut ingest, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..*rounds as u64 {
        let (flush, cpu, began) = (flush_time(), cpu_seconds(child.pid()), Instant::now());
        let (report, traffic) = send(&child.url(), 1000 + round, *events, *connections).await;
        let all = usize::try_from((round + 1) * events).unwrap();
        assert!(app.wait_until(PATIENCE, |app| app.ledger().events() == all).await, "events are lost");
        child.wait_settled();
        let took = began.elapsed().as_secs_f64();
        for id in traffic.ledger().successes().keys() {
            assert_eq!(app.successes_of(id), 1, "{id} was not delivered once");
        }
        rates.push(*events as f64 / took);
        ingest.push(*events as f64 / report.elapsed.as_secs_f64());
        costs.push((cpu_seconds(child.pid()) - cpu) * 1e6 / *events as f64);
        println!(
            "round {round}: {:.0} events/s end to end, taken in at {:.0}/s (p50 {:?}, p99 {:?}, max {:?}); flush {flush:?}",
            rates[rates.len() - 1],
            ingest[ingest.len() - 1],
            report.p50,
            report.p99,
            report.max
        );
    }
    let memory = resident_mib(child.pid());
    drop(child);
    prove(&database, i64::try_from(*rounds as u64 * events).unwrap()).await;
    let rate = median(rates);
    println!(
        "end to end {rate:.0} events/s (aim 5000), {:.1} µs of CPU for each; memory {:.0} MiB, at most {:.0}; 0 lost, 0 double\n",
        median(costs),
        memory.0,
        memory.1
    );
    assert!(!options.quick || rate > 100.0, "something is grossly slow");
}

/// The inbox's own records say the same as the two ledgers.
async fn prove(database: &std::path::Path, events: i64) {
    let mut connection = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    for counted in [
        "SELECT COUNT(*) FROM stripe_guard_events",
        "SELECT COUNT(*) FROM stripe_guard_deliveries WHERE state = 'processed'",
        "SELECT COUNT(*) FROM stripe_guard_attempts WHERE outcome = 'delivered'",
        "SELECT COUNT(*) FROM stripe_guard_attempts",
    ] {
        let found: i64 = connection.fetch_one(counted).await.unwrap().get(0);
        assert_eq!(found, events, "{counted}");
    }
}
