//! What can be reached: the same tables filled in fixed statements, or one bare table, and nothing else.

use std::path::Path;

use axum::body::Bytes;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteSynchronous};
use sqlx::{
    Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, SqlSafeStr as _, SqlStr,
};
use stripe_guard_core::Inbound;
use tokio::sync::{mpsc, oneshot};

use crate::child::Kind;

/// As the writer's.
const QUEUE: usize = 4096;
const BATCH_MAX: usize = 256;

/// The sizes that a batch is cut into, each a prepared statement.
const SIZES: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// A ceiling's way in.
pub enum Ceiling {
    Bare(Writer<Bytes>),
    Same(Writer<Inbound>),
}

/// A group commit by a minimal loop.
pub struct Writer<T> {
    jobs: mpsc::Sender<(T, oneshot::Sender<()>)>,
}

impl<T> Writer<T> {
    pub async fn store(&self, item: T) -> bool {
        let (answer, answered) = oneshot::channel();
        self.jobs.try_send((item, answer)).is_ok() && answered.await.is_ok()
    }
}

/// The rows of one table.
struct Table<T> {
    statements: [SqlStr; SIZES.len()],
    bind: fn(i64, &T, &mut SqliteArguments),
}

impl<T> Table<T> {
    fn new(head: &str, row: &str, bind: fn(i64, &T, &mut SqliteArguments)) -> Self {
        let statement =
            |size: usize| AssertSqlSafe(format!("{head} VALUES {}", vec![row; size].join(", "))).into_sql_str();
        Self { statements: SIZES.map(statement), bind }
    }

    async fn insert(&self, connection: &mut SqliteConnection, first: i64, items: &[T]) {
        let (mut rest, mut number) = (items, first);
        for (size, statement) in SIZES.iter().zip(&self.statements) {
            while rest.len() >= *size {
                let (piece, later) = rest.split_at(*size);
                rest = later;
                let mut arguments = SqliteArguments::default();
                for item in piece {
                    (self.bind)(number, item, &mut arguments);
                    number += 1;
                }
                sqlx::query_with(statement.clone(), arguments).execute(&mut *connection).await.unwrap();
            }
        }
    }
}

/// Opens a connection as the store does, and starts the loop.
pub async fn start(kind: Kind, database: &Path) -> Ceiling {
    let mut connection = SqliteConnectOptions::new()
        .filename(database)
        .synchronous(SqliteSynchronous::Full)
        .statement_cache_capacity(256)
        .pragma("wal_autocheckpoint", "0")
        .pragma("cache_size", "-16384")
        .pragma("mmap_size", "0")
        .foreign_keys(false)
        .disable_statement_logging()
        .connect()
        .await
        .unwrap();
    if kind == Kind::Bare {
        connection
            .execute("CREATE TABLE IF NOT EXISTS bare (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL)")
            .await
            .unwrap();
        return Ceiling::Bare(writer(
            connection,
            vec![Table::new("INSERT INTO bare (seq, bytes)", "(?, ?)", bind_bare)],
        ));
    }
    Ceiling::Same(writer(
        connection,
        vec![
            Table::new(
                "INSERT INTO stripe_guard_events (seq, source, key, event_id, type, form, origin, intake, created, livemode, account, context, customer, object_id, api_version, received_at, digest, secret_label)",
                "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                bind_event,
            ),
            Table::new("INSERT INTO stripe_guard_bodies (seq, bytes)", "(?, ?)", bind_body),
            Table::new(
                "INSERT INTO stripe_guard_deliveries (event_seq, key, destination, state, due_at, round_started_at)",
                "(?, ?, 'app', 'received', ?, ?)",
                bind_delivery,
            ),
        ],
    ))
}

fn writer<T: Send + Sync + 'static>(mut connection: SqliteConnection, tables: Vec<Table<T>>) -> Writer<T> {
    let (jobs, mut queue) = mpsc::channel::<(T, oneshot::Sender<()>)>(QUEUE);
    tokio::spawn(async move {
        let mut next = 1;
        loop {
            let mut batch = Vec::new();
            if queue.recv_many(&mut batch, BATCH_MAX).await == 0 {
                return;
            }
            let (items, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
            for table in &tables {
                table.insert(&mut tx, next, &items).await;
            }
            tx.commit().await.unwrap();
            next += i64::try_from(items.len()).unwrap();
            for answer in answers {
                _ = answer.send(());
            }
        }
    });
    Writer { jobs }
}

fn bind_bare(seq: i64, body: &Bytes, to: &mut SqliteArguments) {
    to.add(seq).unwrap();
    to.add(body.to_vec()).unwrap();
}

fn bind_event(seq: i64, inbound: &Inbound, to: &mut SqliteArguments) {
    let envelope = inbound.envelope().unwrap();
    to.add(seq).unwrap();
    for text in [
        Some(inbound.source()),
        Some(inbound.key().as_str()),
        Some(envelope.id.as_str()),
        Some(envelope.event_type.as_str()),
        Some(envelope.form.as_str()),
        Some(inbound.origin().as_str()),
        Some("accepted"),
    ] {
        to.add(text).unwrap();
    }
    to.add(envelope.created.map(stripe_guard_core::Timestamp::as_millis)).unwrap();
    to.add(envelope.livemode.map(i64::from)).unwrap();
    for text in [&envelope.account, &envelope.context, &envelope.customer, &envelope.object_id, &envelope.api_version] {
        to.add(text.as_deref()).unwrap();
    }
    to.add(inbound.received_at().as_millis()).unwrap();
    to.add(inbound.digest().as_bytes()).unwrap();
    to.add(inbound.secret_label()).unwrap();
}

fn bind_body(seq: i64, inbound: &Inbound, to: &mut SqliteArguments) {
    to.add(seq).unwrap();
    to.add(inbound.body().to_vec()).unwrap();
}

fn bind_delivery(seq: i64, inbound: &Inbound, to: &mut SqliteArguments) {
    to.add(seq).unwrap();
    to.add(inbound.key().as_str()).unwrap();
    to.add(inbound.received_at().as_millis()).unwrap();
    to.add(inbound.received_at().as_millis()).unwrap();
}
