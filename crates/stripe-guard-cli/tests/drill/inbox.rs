//! What the file holds, judged in SQL.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, Row as _, SqliteConnection};
use stripe_guard::clock::{Clock as _, SystemClock};
use stripe_guard_core::Digest;

use crate::guard::{LEASE, RETRY_MAX};

/// Clocks are read before what they judge is written.
const SLACK: Duration = Duration::from_secs(1);

/// What must never be found, whenever the process was killed: a name and a count of offenders.
const INVARIANTS: &[(&str, &str)] = &[
    (
        "an open delivery has no due time",
        "SELECT count(*) FROM d WHERE due_at IS NULL AND state IN ('received', 'retryable', 'processing')",
    ),
    (
        "a lease ends later than any lease can",
        "SELECT count(*) FROM d WHERE state = 'processing' AND (due_at > {lease_max} OR owner IS NULL)",
    ),
    (
        "a retry is due later than the schedule allows",
        "SELECT count(*) FROM d WHERE state IN ('received', 'retryable') AND due_at > {retry_max}",
    ),
    (
        "a dead letter has no class, or no last attempt with an error",
        "SELECT count(*) FROM d WHERE state = 'dead_letter' AND (class IS NULL OR (SELECT a.error FROM a \
         WHERE a.delivery_id = d.id ORDER BY a.fence DESC LIMIT 1) IS NULL)",
    ),
    (
        "a processed delivery has not exactly one success in its round",
        "SELECT count(*) FROM d WHERE state = 'processed' AND 1 <> (SELECT count(*) FROM a \
         WHERE a.delivery_id = d.id AND a.round = d.round AND a.outcome = 'delivered')",
    ),
    (
        "a success is recorded and its delivery is not processed",
        "SELECT count(*) FROM d JOIN a ON a.delivery_id = d.id AND a.round = d.round \
         WHERE a.outcome = 'delivered' AND d.state <> 'processed'",
    ),
    (
        "a delivery has two successes in a round",
        "SELECT count(*) FROM (SELECT 1 FROM a WHERE outcome = 'delivered' GROUP BY delivery_id, round HAVING count(*) > 1)",
    ),
    (
        "a fence is lower than the number of attempts, or than the fence of one",
        "SELECT count(*) FROM d WHERE fence < (SELECT count(*) FROM a WHERE a.delivery_id = d.id) \
         OR fence < (SELECT max(a.fence) FROM a WHERE a.delivery_id = d.id)",
    ),
    (
        "the counted failures are not those on record",
        "SELECT count(*) FROM d WHERE attempts <> (SELECT count(*) FROM a WHERE a.delivery_id = d.id \
         AND a.round = d.round AND a.outcome NOT IN ('delivered', 'lost', 'late'))",
    ),
    (
        "an accepted event has no delivery",
        "SELECT count(*) FROM e WHERE intake = 'accepted' AND seq NOT IN (SELECT event_seq FROM d)",
    ),
    ("a delivery has no event", "SELECT count(*) FROM d WHERE event_seq NOT IN (SELECT seq FROM e)"),
    ("an event has no body", "SELECT count(*) FROM e WHERE seq NOT IN (SELECT seq FROM b)"),
    ("a body has no event", "SELECT count(*) FROM b WHERE seq NOT IN (SELECT seq FROM e)"),
    ("an attempt has no delivery", "SELECT count(*) FROM a WHERE delivery_id NOT IN (SELECT id FROM d)"),
    ("an event is there twice", "SELECT count(*) FROM (SELECT 1 FROM e GROUP BY key HAVING count(*) > 1)"),
];

/// An open file.
pub(crate) struct Inbox {
    connection: SqliteConnection,
    _copy: Option<tempfile::TempDir>,
}

impl Inbox {
    /// The file of a folder, beside whoever serves it.
    pub(crate) async fn beside(folder: &Path) -> Self {
        Self { connection: connect(folder).await, _copy: None }
    }

    /// A copy of what a dead process left, so that looking does not recover it in the process's
    /// place. `None` when it died before there was a table.
    pub(crate) async fn copy_of(folder: &Path) -> Option<Self> {
        let copy = tempfile::tempdir().unwrap();
        for name in ["inbox.db", "inbox.db-wal"].iter().filter(|name| folder.join(name).exists()) {
            std::fs::copy(folder.join(name), copy.path().join(name)).unwrap();
        }
        if !copy.path().join("inbox.db").exists() {
            return None;
        }
        let mut inbox = Self { connection: connect(copy.path()).await, _copy: Some(copy) };
        let tables = inbox.number("SELECT count(*) FROM sqlite_schema WHERE name = 'stripe_guard_attempts'").await;
        (tables > 0).then_some(inbox)
    }

    /// One number.
    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let row = self.connection.fetch_one(AssertSqlSafe(named(sql))).await;
        row.unwrap_or_else(|error| panic!("{error}: {sql}")).try_get(0).unwrap()
    }

    /// The keys of all events.
    pub(crate) async fn keys(&mut self) -> HashSet<String> {
        let rows = self.connection.fetch_all(AssertSqlSafe(named("SELECT key FROM e"))).await.unwrap();
        rows.iter().map(|row| row.try_get(0).unwrap()).collect()
    }

    /// How many deliveries are in each state.
    pub(crate) async fn states(&mut self) -> HashMap<String, i64> {
        let sql = named("SELECT state, count(*) FROM d GROUP BY state");
        let rows = self.connection.fetch_all(AssertSqlSafe(sql)).await.unwrap();
        rows.iter().map(|row| (row.try_get(0).unwrap(), row.try_get(1).unwrap())).collect()
    }

    /// Whether nobody holds the lock for writing now.
    pub(crate) async fn can_be_written(&mut self) -> bool {
        self.connection.execute("PRAGMA busy_timeout = 0").await.unwrap();
        let begun = self.connection.execute("BEGIN IMMEDIATE").await.is_ok();
        if begun {
            self.connection.execute("ROLLBACK").await.unwrap();
        }
        begun
    }

    /// Waits until every delivery is processed.
    pub(crate) async fn drained(&mut self, patience: Duration) {
        let until = SystemClock.now().plus(patience);
        while self.number("SELECT count(*) FROM d WHERE state <> 'processed'").await > 0 {
            assert!(SystemClock.now() < until, "not all is processed: {:?}", self.states().await);
            SystemClock.sleep(Duration::from_millis(50)).await;
        }
    }

    /// Everything that must hold at any moment, and every acknowledged id is there.
    pub(crate) async fn check(&mut self, acknowledged: &HashMap<String, u32>, context: &str) {
        let row = self.connection.fetch_one("PRAGMA integrity_check").await.unwrap();
        assert_eq!(row.try_get::<String, _>(0).unwrap(), "ok", "{context}");
        let now = SystemClock.now();
        let lease_max = now.plus(LEASE + SLACK).as_millis().to_string();
        let retry_max = now.plus(RETRY_MAX + SLACK).as_millis().to_string();
        for (name, sql) in INVARIANTS {
            let sql = sql.replace("{lease_max}", &lease_max).replace("{retry_max}", &retry_max);
            assert_eq!(self.number(&sql).await, 0, "{name}; {context}");
        }
        let keys = self.keys().await;
        let lost: Vec<_> = acknowledged.keys().filter(|id| !keys.contains(*id)).collect();
        assert!(lost.is_empty(), "{} ids were answered 2xx and are not stored: {lost:?}; {context}", lost.len());
    }

    /// Every stored body is the one whose digest is stored beside its event.
    pub(crate) async fn check_bodies(&mut self) {
        let sql = named("SELECT e.key, e.digest, b.bytes FROM e JOIN b ON b.seq = e.seq");
        for row in self.connection.fetch_all(AssertSqlSafe(sql)).await.unwrap() {
            let (key, digest, bytes): (String, Vec<u8>, Vec<u8>) =
                (row.try_get(0).unwrap(), row.try_get(1).unwrap(), row.try_get(2).unwrap());
            assert_eq!(digest, Digest::of(&bytes).as_bytes(), "the body of {key} is another");
        }
    }
}

async fn connect(folder: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(folder.join("inbox.db"));
    options.busy_timeout(Duration::from_secs(10)).disable_statement_logging().connect().await.unwrap()
}

/// The tables by their initials, to keep the texts above readable.
fn named(sql: &str) -> String {
    format!(
        "WITH e AS (SELECT * FROM stripe_guard_events), b AS (SELECT seq, bytes FROM stripe_guard_bodies), \
         d AS (SELECT * FROM stripe_guard_deliveries), a AS (SELECT * FROM stripe_guard_attempts) {sql}"
    )
}
