//! The storage engine under trouble: its SQLite half.

use std::sync::Arc;
use std::time::Duration;

use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard::store::{EventFilter, StoreError, open_sqlite};
use stripe_guard_core::Timestamp;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::rig::Rig;
use crate::support::{body, operator, secret, sqlite_file};

#[tokio::test(flavor = "multi_thread")]
async fn fault_59_nobody_meets_a_locked_database() {
    let rig = Rig::start().await;
    let stripe = Arc::new(rig.stripe_with([secret()], 50));
    // A command in another process writes now and then beside the server.
    let beside = open_sqlite(&sqlite_file(&rig.path)).await.unwrap();
    let posts: Vec<_> = (0..50)
        .map(|lane| {
            let stripe = Arc::clone(&stripe);
            tokio::spawn(async move {
                for n in 0..20 {
                    let status = stripe.send(body(&format!("evt_{lane}_{n}"), "invoice.paid")).await.unwrap();
                    assert_eq!(status, 200);
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let ids = rig.deliveries().await.iter().take(5).map(|one| one.id).collect();
        beside.store.retry_now(ids, operator(), SystemClock.now()).await.unwrap();
        beside.store.events(&EventFilter { limit: 100, ..EventFilter::default() }).await.unwrap();
        SystemClock.sleep(Duration::from_millis(20)).await;
    }
    for post in posts {
        post.await.unwrap();
    }
    let deliveries = rig.settled(1000).await;
    assert_eq!(deliveries.len(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_60_many_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    let openers: Vec<_> = (0..12)
        .map(|_| {
            let file = sqlite_file(&path);
            tokio::spawn(async move { open_sqlite(&file).await.map(|opened| opened.store) })
        })
        .collect();
    for opener in openers {
        let store = opener.await.unwrap().unwrap();
        store.stats().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_serve_for_each_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = stripe_guard::store::SqliteFile { exclusive: true, ..sqlite_file(&folder.path().join("inbox.db")) };
    let first = open_sqlite(&file).await.unwrap();
    let Err(StoreError::Open(why)) = open_sqlite(&file).await else { panic!("the second was let in") };
    assert!(why.contains("serves"), "{why}");
    drop(first);
    open_sqlite(&file).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_binary_stops_at_a_newer_schema() {
    let rig = Rig::start().await;
    rig.sql("UPDATE stripe_guard_meta SET value = '99' WHERE name = 'schema_version'").await;
    open_sqlite(&sqlite_file(&rig.path)).await.unwrap();
    rig.sql("UPDATE stripe_guard_meta SET value = '98' WHERE name = 'schema_suits_from'").await;
    let Err(StoreError::Open(why)) = open_sqlite(&sqlite_file(&rig.path)).await else { panic!("it was opened") };
    assert!(why.contains("99") && why.contains("newer stripe-guard"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_serve_changes_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    std::fs::write(&path, "").unwrap();
    let look = stripe_guard::store::SqliteFile { create: false, ..sqlite_file(&path) };
    let Err(StoreError::Open(why)) = open_sqlite(&look).await else { panic!("it was opened") };
    assert!(why.contains("no inbox yet"), "{why}");
    open_sqlite(&sqlite_file(&path)).await.unwrap();
    open_sqlite(&look).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_inbox_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    std::fs::write(&path, "this is a text and has no business here".repeat(100)).unwrap();
    for (path, expected) in
        [(path, "no SQLite database"), (folder.path().join("none/inbox.db"), "must exist and be writable")]
    {
        let Err(StoreError::Open(why)) = open_sqlite(&sqlite_file(&path)).await else { panic!("it was opened") };
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_62_clients_that_hang_up_poison_nothing() {
    let rig = Rig::start().await;
    let mut crowd = Vec::new();
    for n in 0..200_u64 {
        let address = rig.engine().ingest_address();
        crowd.push(tokio::spawn(async move {
            let event = body(&format!("evt_gone_{n}"), "invoice.paid");
            let header = stripe_guard_core::signature::sign(&[&secret()], SystemClock.now(), &event);
            let head = format!(
                "POST /webhooks/stripe HTTP/1.1\r\nhost: g\r\nstripe-signature: {header}\r\ncontent-length: {}\r\n\r\n",
                event.len()
            );
            let request = [head.as_bytes(), &event].concat();
            let mut stream = TcpStream::connect(address).await.unwrap();
            let cut = usize::try_from(n * 37 % (request.len() as u64 + 40)).unwrap();
            _ = stream.write_all(&request[..cut.min(request.len())]).await;
            SystemClock.sleep(Duration::from_micros(n * 13 % 2000)).await;
        }));
    }
    for one in crowd {
        one.await.unwrap();
    }
    for n in 0..100 {
        rig.post(body(&format!("evt_{n}"), "invoice.paid")).await;
    }
    // No lock stays behind: another process can write at once.
    let beside = open_sqlite(&sqlite_file(&rig.path)).await.unwrap();
    beside.store.beat("other", Timestamp::from_secs(1)).await.unwrap();
    let whole = rig.deliveries().await.len();
    rig.settled(whole).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn durability_is_read_back_and_the_file_is_checked() {
    let rig = Rig::start().await;
    rig.post(body("evt_1", "invoice.paid")).await;
    assert_eq!(rig.number("PRAGMA page_size").await, 8192);
    let mut connection = rig.connection().await;
    let row = sqlx::Executor::fetch_one(&mut connection, "PRAGMA journal_mode").await.unwrap();
    assert_eq!(sqlx::Row::try_get::<String, _>(&row, 0).unwrap(), "wal");
    let row = sqlx::Executor::fetch_one(&mut connection, "PRAGMA integrity_check").await.unwrap();
    assert_eq!(sqlx::Row::try_get::<String, _>(&row, 0).unwrap(), "ok");
}
