//! A primary that goes: what was promised stays, and work goes on by itself.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard::store::{PostgresInbox, Store, open_postgres};
use stripe_guard_test_postgres::{Cluster, Stop};
use tokio::time::Instant;

use super::{opened, take};
use crate::support::postgres_at;

/// Writers that note what was acknowledged.
struct Load {
    acknowledged: Arc<Mutex<HashSet<u32>>>,
    slowest: Arc<Mutex<Duration>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(store: &Arc<dyn Store>, writers: u32) -> Self {
        let next = Arc::new(AtomicU32::new(1));
        let mut load =
            Self { acknowledged: Arc::default(), slowest: Arc::default(), stop: Arc::default(), tasks: Vec::new() };
        for _ in 0..writers {
            let (store, next, stop) = (Arc::clone(store), Arc::clone(&next), Arc::clone(&load.stop));
            let (acknowledged, slowest) = (Arc::clone(&load.acknowledged), Arc::clone(&load.slowest));
            load.tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let began = Instant::now();
                    if take(&store, n).await.is_ok() {
                        acknowledged.lock().unwrap().insert(n);
                    } else {
                        let took = began.elapsed();
                        {
                            let mut slowest = slowest.lock().unwrap();
                            *slowest = took.max(*slowest);
                        }
                        SystemClock.sleep(Duration::from_millis(10)).await;
                    }
                }
            }));
        }
        load
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Waits until this many more are acknowledged, and says how long that took.
    async fn goes_on(&self, more: usize) -> Duration {
        let (target, began) = (self.count() + more, Instant::now());
        while self.count() < target {
            assert!(began.elapsed() < Duration::from_secs(30), "work does not go on");
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    }

    async fn end(self) -> (HashSet<u32>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        let acknowledged = self.acknowledged.lock().unwrap().clone();
        (acknowledged, *self.slowest.lock().unwrap())
    }
}

/// The numbers of the events that a server holds.
fn stored(cluster: &Cluster) -> HashSet<u32> {
    let keys = cluster.psql("postgres", "SELECT substr(key, 5) FROM stripe_guard.events");
    keys.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vanished_server_is_an_answer_at_once_and_work_goes_on_when_it_is_back() {
    let cluster = Cluster::start(&[]);
    let store = opened(&cluster.url("postgres")).await.store;
    let load = Load::start(&store, 4);
    load.goes_on(50).await;
    cluster.stop(Stop::Immediate);
    SystemClock.sleep(Duration::from_secs(1)).await;
    cluster.start_again();
    let back = load.goes_on(50).await;
    let (acknowledged, slowest) = load.end().await;
    assert!(acknowledged.is_subset(&stored(&cluster)));
    println!("refusals took at most {slowest:.2?}; work went on {back:.2?} after the server was back");
    assert!(slowest < Duration::from_secs(2) && back < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_turned_read_only_are_dropped() {
    let cluster = Cluster::start(&[]);
    let store = opened(&cluster.url("postgres")).await.store;
    take(&store, 1).await.unwrap();
    cluster.set(&[("default_transaction_read_only", "on")]);
    let mut refused = false;
    for n in 2..100 {
        refused |= take(&store, n).await.is_err();
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    assert!(refused, "a read-only server was written to");
    cluster.set(&[("default_transaction_read_only", "off")]);
    let began = Instant::now();
    while take(&store, 200).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(5));
        SystemClock.sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_has_all_that_was_acknowledged() {
    let primary = Cluster::start(&[]);
    let standby = primary.standby("second");
    primary.set(&[("synchronous_standby_names", "second")]);
    let both = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port(),
        standby.port()
    );
    let inbox = PostgresInbox { require_replica: true, ..postgres_at(&both) };
    let store = open_postgres(&inbox).await.unwrap().store;
    let load = Load::start(&store, 4);
    load.goes_on(100).await;
    primary.stop(Stop::Immediate);
    standby.promote();
    // A lone primary again, so the proof can no more be had: nothing is acknowledged.
    let after_promotion = load.count();
    SystemClock.sleep(Duration::from_secs(3)).await;
    assert_eq!(load.count(), after_promotion, "acknowledged without a standby");
    let (acknowledged, _) = load.end().await;
    assert!(acknowledged.len() >= 100 && acknowledged.is_subset(&stored(&standby)));
    // Without the demand, the same hosts serve.
    let store = opened(&both).await.store;
    take(&store, 1_000_000).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_wait_was_cut_short_is_no_success() {
    let primary = Cluster::start(&[]);
    let standby = primary.standby("second");
    primary.set(&[("synchronous_standby_names", "second")]);
    let inbox = PostgresInbox { require_replica: true, connections: 60, ..postgres_at(&primary.url("postgres")) };
    let store = open_postgres(&inbox).await.unwrap().store;
    take(&store, 0).await.unwrap();
    // With the standby gone every commit waits for ever, until somebody ends its wait by hand.
    standby.stop(Stop::Fast);
    let cancelling = Arc::new(AtomicBool::new(true));
    let (again, port) = (Arc::clone(&cancelling), primary.url("postgres"));
    let cancelled = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&cancelled);
    let by_hand = tokio::spawn(async move {
        let mut hand = <sqlx::PgConnection as sqlx::Connection>::connect(&port).await.unwrap();
        while again.load(Ordering::Relaxed) {
            let done = sqlx::query(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> pg_backend_pid()",
            )
            .execute(&mut hand)
            .await
            .unwrap();
            counted.fetch_add(u32::try_from(done.rows_affected()).unwrap(), Ordering::Relaxed);
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    });
    let tasks: Vec<_> = (1..=55)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                // A resend finds the event stored, and must not be waved through either.
                (take(&store, n).await.is_ok(), take(&store, n).await.is_ok())
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), (false, false), "acknowledged what no standby has");
    }
    cancelling.store(false, Ordering::Relaxed);
    by_hand.await.unwrap();
    assert!(cancelled.load(Ordering::Relaxed) >= 100, "{cancelled:?} waits were cut short");
    assert!(stored(&primary).len() > 1, "nothing was committed at all, so nothing was shown");
    standby.start_again();
    let began = Instant::now();
    while take(&store, 1).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "work does not go on");
        SystemClock.sleep(Duration::from_millis(50)).await;
    }
}
