//! Opening: what is refused, in which words, and what several starts do to each other.

use std::time::Duration;

use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard::store::{Pooler, PostgresInbox, StoreError, open_postgres};
use stripe_guard_test_postgres::{Cluster, Database, database};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{opened, refused, take};
use crate::support::postgres_at;

/// The URL of a database as another user.
fn as_user(database: &Database, user: &str) -> String {
    format!("postgres://{user}:canary@{}:{}/{}", database.host(), database.port(), database.name())
}

#[track_caller]
fn says(why: &str, parts: &[&str]) {
    for part in parts {
        assert!(why.contains(part), "{part:?} is not in: {why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_opened_is_said_in_words_with_the_remedy() {
    let database = database();
    let nobody_listens = "postgres://u:canary@127.0.0.1:9/inbox";
    says(&refused(&postgres_at(nobody_listens)).await, &["127.0.0.1:9", "is the server running"]);
    let elsewhere = database.url().replace(database.name(), "no_such_database");
    says(&refused(&postgres_at(&elsewhere)).await, &["no_such_database", "CREATE DATABASE"]);
    let role = format!("poor_{}", database.name());
    database.psql(&format!("CREATE ROLE {role} LOGIN"));
    let inbox = postgres_at(&as_user(&database, &role));
    says(&refused(&inbox).await, &["permission denied", "GRANT CREATE ON DATABASE"]);
    let looking = PostgresInbox { create: false, ..postgres_at(&database.url()) };
    says(&refused(&looking).await, &["holds no inbox yet", "serve"]);
    // With a schema of its own it needs no more.
    database.psql(&format!("CREATE SCHEMA stripe_guard AUTHORIZATION {role}"));
    open_postgres(&inbox).await.unwrap();
    open_postgres(&PostgresInbox { create: false, ..inbox }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_at_its_connection_limit_is_named_as_that() {
    let database = database();
    let role = format!("full_{}", database.name());
    database
        .psql(&format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 1; CREATE SCHEMA stripe_guard AUTHORIZATION {role}"));
    says(&refused(&postgres_at(&as_user(&database, &role))).await, &["connection limit", "takes up to 12 connections"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_lose_what_it_acknowledged_is_refused() {
    let database = database();
    let role = format!("fast_{}", database.name());
    database.psql(&format!("CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET synchronous_commit = off"));
    says(
        &refused(&postgres_at(&as_user(&database, &role))).await,
        &["synchronous_commit = off", "acknowledged to Stripe"],
    );
    let cluster = Cluster::start(&[("fsync", "off")]);
    let inbox = postgres_at(&cluster.url("postgres"));
    says(&refused(&inbox).await, &["fsync = off"]);
    cluster.set(&[("fsync", "on"), ("full_page_writes", "off")]);
    cluster.restart();
    says(&refused(&inbox).await, &["full_page_writes = off"]);
    cluster.set(&[("full_page_writes", "on")]);
    cluster.restart();
    let store = open_postgres(&inbox).await.unwrap().store;
    take(&store, 1).await.unwrap();
    // A new connection asks again, whatever the server was at the start.
    cluster.set(&[("fsync", "off")]);
    cluster.restart();
    let mut refusals = 0;
    for n in 2..20 {
        let Err(StoreError::Unavailable(why)) = take(&store, n).await else { panic!("{n} was stored without fsync") };
        refusals += usize::from(why.to_string().contains("fsync = off"));
        SystemClock.sleep(Duration::from_millis(50)).await;
    }
    assert!(refusals > 0);
}

/// A server that lets everybody in and answers each question with one row of these texts.
async fn pretend_server(cells: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0_u8; 4096];
            // Whether it speaks TLS, which it does not; then who we are.
            assert!(stream.read(&mut asked).await.unwrap() > 0);
            stream.write_all(b"N").await.unwrap();
            assert!(stream.read(&mut asked).await.unwrap() > 0);
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.unwrap();
            while stream.read(&mut asked).await.is_ok_and(|length| length > 0) {
                let mut fields = u16::try_from(cells.len()).unwrap().to_be_bytes().to_vec();
                let mut values = fields.clone();
                for cell in cells {
                    fields.extend(b"c\0\0\0\0\0\0\0\0\0\0\x19\xFF\xFF\xFF\xFF\xFF\xFF\0\0");
                    values.extend(u32::try_from(cell.len()).unwrap().to_be_bytes());
                    values.extend(cell.as_bytes());
                }
                for (kind, payload) in
                    [(b'T', fields), (b'D', values), (b'C', b"SELECT 1\0".to_vec()), (b'Z', b"I".to_vec())]
                {
                    let length = u32::try_from(payload.len() + 4).unwrap().to_be_bytes();
                    stream.write_all(&[&[kind], &length[..], &payload].concat()).await.unwrap();
                }
            }
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_too_old_is_refused() {
    let port = pretend_server(&["140011", "on", "on", "on", "off", "false"]).await;
    let why = refused(&postgres_at(&format!("postgres://u:canary@127.0.0.1:{port}/inbox"))).await;
    says(&why, &["PostgreSQL 14", "needs 15 or later"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_what_sslmode_says() {
    let (cluster, files) = Cluster::start_with_tls();
    let url = |mode: &str, root: &std::path::Path| {
        format!("{}?sslmode={mode}&sslrootcert={}", cluster.url("postgres"), root.display())
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        let store = opened(&url(mode, &files.ca)).await.store;
        let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE application_name LIKE 'stripe-guard%'";
        take(&store, 1).await.unwrap();
        assert_eq!(cluster.psql("postgres", encrypted).trim(), "t");
        store.close().await;
    }
    says(&refused(&postgres_at(&url("verify-full", &files.other_ca))).await, &["sslrootcert"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_63_a_pooler_in_transaction_mode_is_seen_and_used_when_told() {
    let database = database();
    let pooler = stripe_guard_test_postgres::Pooler::start(database.port(), "transaction");
    let told = PostgresInbox { pooler: Pooler::Transaction, ..postgres_at(&pooler.url(database.name())) };
    says(&refused(&postgres_at(&pooler.url(database.name()))).await, &["pooler = \"transaction\""]);
    let store = open_postgres(&told).await.unwrap().store;
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let store = std::sync::Arc::clone(&store);
            tokio::spawn(async move {
                for n in 0..20 {
                    take(&store, task * 100 + n).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut delivered = 0;
    loop {
        let claims = store.claim(crate::support::request(crate::support::T0, 50)).await.unwrap();
        if claims.is_empty() {
            break;
        }
        assert!(claims.iter().all(|claim| claim.intact_body().is_some()));
        delivered += claims.len();
    }
    assert_eq!((delivered, store.stats().await.unwrap().destinations[0].processing), (320, 320));
    store.checkpoint().await.unwrap();
    // And the same without a pooler between.
    open_postgres(&PostgresInbox { url: database.url().parse().unwrap(), ..told }).await.unwrap();
    assert_eq!(database.psql("SELECT count(*) FROM stripe_guard.events").trim(), "320");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_64_five_starts_at_once_make_one_inbox_also_when_one_is_killed() {
    let database = database();
    // Each table takes its time, so that one can be caught in the middle.
    database.psql(
        "CREATE FUNCTION slowly() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.05); END'; \
         CREATE EVENT TRIGGER slowly ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION slowly()",
    );
    let url = database.url();
    let starts: Vec<_> = (0..5)
        .map(|_| {
            let inbox = postgres_at(&url);
            tokio::spawn(async move { open_postgres(&inbox).await.is_ok() })
        })
        .collect();
    SystemClock.sleep(Duration::from_millis(300)).await;
    let killed = database.psql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_locks JOIN pg_database d ON d.oid = database \
         WHERE locktype = 'advisory' AND granted AND datname = current_database()",
    );
    assert_eq!(killed.trim(), "1", "one was at it");
    let mut good = 0;
    for start in starts {
        good += usize::from(start.await.unwrap());
    }
    assert_eq!(good, 4, "the one that was killed, and no other, did not start");
    let versions = "SELECT string_agg(value, ' ' ORDER BY name) FROM stripe_guard.meta WHERE name LIKE 'schema%'";
    let now = database.psql(versions);
    // From an older release: what its last migration made is not there.
    database
        .psql("DROP TABLE stripe_guard.shares; UPDATE stripe_guard.meta SET value = '1' WHERE name = 'schema_version'");
    let looking = PostgresInbox { create: false, ..postgres_at(&url) };
    says(&refused(&looking).await, &["schema version 1", "start `stripe-guard serve` of this release once"]);
    let starts: Vec<_> = (0..5)
        .map(|_| {
            let inbox = postgres_at(&url);
            tokio::spawn(async move { open_postgres(&inbox).await.map(drop) })
        })
        .collect();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    assert_eq!(database.psql(versions), now);
    // The next release's schema, which says that it suits this one; and one that does not.
    database.psql("UPDATE stripe_guard.meta SET value = '99' WHERE name = 'schema_version'");
    take(&opened(&url).await.store, 1).await.unwrap();
    database.psql("UPDATE stripe_guard.meta SET value = '99' WHERE name = 'schema_suits_from'");
    says(&refused(&postgres_at(&url)).await, &["schema version 99", "needs a newer stripe-guard"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn require_replica_needs_a_standby_and_the_right_to_see_it() {
    let database = database();
    let inbox = PostgresInbox { require_replica: true, ..postgres_at(&database.url()) };
    says(&refused(&inbox).await, &["synchronous_standby_names is empty"]);
    let role = format!("blind_{}", database.name());
    database.psql(&format!("CREATE ROLE {role} LOGIN"));
    let inbox = PostgresInbox { url: as_user(&database, &role).parse().unwrap(), ..inbox };
    says(&refused(&inbox).await, &["GRANT pg_read_all_stats TO", &role]);
}
