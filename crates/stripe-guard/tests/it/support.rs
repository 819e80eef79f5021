//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use stripe_guard::store::{
    Arrival, Claim, ClaimRequest, Opened, Operator, Pooler, PostgresInbox, Settlement, SqliteFile, Store, Watermark,
    open_postgres, open_sqlite,
};
use stripe_guard_core::{
    Inbound, Intake, Outcome, RetryPolicy, SigningSecret, Situation, Timestamp, Tolerance, signature,
};

/// The secret of the tests.
pub const SECRET: &str = "whsec_demo_alpha";
/// A second one.
pub const OTHER_SECRET: &str = "whsec_demo_beta";
/// When the tests of the store begin.
pub const T0: Timestamp = Timestamp::from_secs(1_796_083_200);
/// How long their claims last.
pub const LEASE: Duration = Duration::from_secs(45);

/// The secret, ready.
pub fn secret() -> SigningSecret {
    SigningSecret::parse(SECRET).unwrap()
}

/// An inbox in a file of its own, which goes when this does.
pub struct Inbox {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The file.
    pub path: std::path::PathBuf,
    _opened: Opened,
    _folder: tempfile::TempDir,
}

/// A new inbox.
pub async fn sqlite() -> Inbox {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    let opened = open_sqlite(&sqlite_file(&path)).await.unwrap();
    Inbox { store: Arc::clone(&opened.store), path, _opened: opened, _folder: folder }
}

/// How the tests open a file.
pub fn sqlite_file(path: &std::path::Path) -> SqliteFile {
    SqliteFile { path: path.to_owned(), table_prefix: "stripe_guard_".to_owned(), create: true, exclusive: false }
}

/// An inbox in a database of its own.
pub struct ServerInbox {
    /// The store.
    pub store: Arc<dyn Store>,
    _database: stripe_guard_test_postgres::Database,
}

/// A new inbox in PostgreSQL.
pub async fn postgres() -> ServerInbox {
    let database = stripe_guard_test_postgres::database();
    let opened = open_postgres(&postgres_at(&database.url())).await.unwrap();
    ServerInbox { store: opened.store, _database: database }
}

/// How the tests open a database.
pub fn postgres_at(url: &str) -> PostgresInbox {
    PostgresInbox {
        url: url.parse().unwrap(),
        schema: "stripe_guard".to_owned(),
        pooler: Pooler::None,
        require_replica: false,
        connections: 8,
        create: true,
        partition_events: None,
    }
}

/// A body with this id and type.
pub fn body(id: &str, event_type: &str) -> Bytes {
    format!("{{\n  \"id\": \"{id}\",\n  \"object\": \"event\",\n  \"created\": 1796083200,\n  \"data\": {{\"object\": {{\"id\": \"in_1\"}}}},\n  \"livemode\": false,\n  \"type\": \"{event_type}\"\n}}").into()
}

/// An event of proven origin.
pub fn inbound(source: &str, body: Bytes, at: Timestamp) -> Inbound {
    let header = signature::sign(&[&secret()], at, &body);
    let verified = signature::verify(body, header.as_bytes(), [&secret()], at, Tolerance::default()).unwrap();
    Inbound::webhook(source, verified, at)
}

/// An arrival of event number `n` for destination `app`.
pub fn arrival(n: u32, at: Timestamp) -> Arrival {
    arrival_for("stripe", &format!("evt_{n}"), &["app"], at)
}

/// An arrival through a source for some destinations.
pub fn arrival_for(source: &str, id: &str, destinations: &[&str], at: Timestamp) -> Arrival {
    Arrival {
        inbound: inbound(source, body(id, "invoice.paid"), at),
        intake: if destinations.is_empty() { Intake::Unwanted } else { Intake::Accepted },
        destinations: destinations.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// A claim request for `app`.
pub fn request(now: Timestamp, limit: u32) -> ClaimRequest {
    ClaimRequest {
        destination: "app".to_owned(),
        owner: "test".to_owned(),
        now,
        lease: LEASE,
        limit,
        from: Watermark::START,
        odd_to_retries: false,
        suspects: false,
    }
}

/// The settlement of a claim with an outcome, by the transition function.
pub fn settlement(claim: &Claim, outcome: Outcome, now: Timestamp) -> Settlement {
    settlement_by(claim, outcome, &RetryPolicy::default(), now)
}

/// The same under another policy.
pub fn settlement_by(claim: &Claim, outcome: Outcome, policy: &RetryPolicy, now: Timestamp) -> Settlement {
    let situation = Situation { now, held: Duration::ZERO, counted: true, retry_after: None };
    Settlement {
        id: claim.id(),
        fence: claim.fence(),
        next: claim.progress().after(outcome, policy, &situation),
        round: claim.progress().round,
        number: claim.progress().attempts + 1,
        started_at: claim.claimed_at(),
        duration: Duration::from_millis(12),
        outcome,
        status: (outcome == Outcome::Delivered).then_some(200),
        error: (outcome != Outcome::Delivered).then(|| format!("made {outcome} by a test")),
        excerpt: None,
    }
}

/// An operator.
pub fn operator() -> Operator {
    Operator { actor: "test".to_owned(), reason: "because".to_owned() }
}
