//! The parts of the table of bodies: new ones ahead of ingest, old ones away in one go.
//!
//! A plain `CREATE TABLE … PARTITION OF` or `DROP TABLE` of a part locks the whole table against
//! everybody, and waits for every open reader while all ingest waits behind it. A part that is made
//! beside and attached, or detached concurrently and then dropped, locks nobody out (PostgreSQL's
//! manual, "Table Partitioning", on maintenance).

use std::time::Duration;

use sqlx::Row as _;

use super::dialect::{PARTITION_EVENTS, code};
use super::session::{Pooler, Session};
use stripe_guard_core::Timestamp;

/// How many whole parts lie ahead of the newest arrival.
const AHEAD: i64 = 2;

/// How long house-keeping waits for a lock, so that nobody waits behind it for longer.
const LOCK_LIMIT: &str = "200ms";

/// How long a detach may wait for those who still read the table.
const DETACH_LIMIT: Duration = Duration::from_secs(30);

/// The second number of the advisory lock on removing parts. Not that of attaching: a removal may
/// wait for a reader, and ingest may need a new part meanwhile.
const PRUNING: i32 = 3;

/// The same on attaching.
const ATTACHING: i32 = 4;

/// The parts of one inbox's bodies.
pub(super) struct Partitions {
    schema: String,
    /// Arrival numbers in each new part.
    width: i64,
    /// Tells this inbox's advisory locks from those of others in the database.
    lock: i32,
}

/// One part: `from <= seq < to`.
struct Part {
    name: String,
    to: i64,
    pending: bool,
}

impl Partitions {
    pub(super) fn new(schema: &str, width: Option<i64>) -> Self {
        Self { schema: schema.to_owned(), width: width.unwrap_or(PARTITION_EVENTS), lock: lock_of(schema) }
    }

    /// Makes parts until enough lie ahead. Cheap when they do: one question.
    pub(super) async fn ensure(&self, session: &mut Session) -> sqlx::Result<()> {
        let (parts, newest) = self.parts(session).await?;
        let mut top = parts.iter().map(|part| part.to).max().unwrap_or(0);
        while top <= newest.saturating_add(AHEAD * self.width) {
            let to = top - top.rem_euclid(self.width) + self.width;
            if !self.attach(session, top, to).await? {
                return Ok(());
            }
            top = to;
        }
        Ok(())
    }

    /// Removes parts of which every event arrived before `cutoff` and no body is needed. Answers
    /// how many bodies that were.
    pub(super) async fn drop_old(
        &self,
        session: &mut Session,
        beside: &mut Session,
        cutoff: Timestamp,
    ) -> sqlx::Result<u64> {
        // Held in a transaction of another connection: a concurrent detach cannot be in one.
        beside.command("BEGIN").await?;
        let answer = self.drop_old_alone(session, beside, cutoff).await;
        beside.command("ROLLBACK").await?;
        answer
    }

    async fn drop_old_alone(
        &self,
        session: &mut Session,
        beside: &mut Session,
        cutoff: Timestamp,
    ) -> sqlx::Result<u64> {
        let taken = format!("SELECT CAST(pg_try_advisory_xact_lock({}, {PRUNING}) AS TEXT)", self.lock);
        if beside.row(&taken).await?.try_get::<String, _>(0)? != "true" {
            return Ok(0);
        }
        let mut removed = 0;
        let (parts, newest) = self.parts(session).await?;
        for part in parts {
            if !part.pending && (part.to > newest || !self.is_over(session, &part, cutoff).await?) {
                continue;
            }
            match self.remove(session, &part).await {
                Ok(bodies) => removed += bodies,
                // Somebody reads it. Only one part can be on its way out, so that the others wait
                // for the next pass, too.
                Err(error) if matches!(code(&error).as_deref(), Some("55P03" | "55000")) => break,
                Err(error) => return Err(error),
            }
        }
        // Those that a former pass detached and could not drop.
        for name in self.detached(session).await? {
            match self.drop_table(session, &name).await {
                Err(error) if code(&error).as_deref() != Some("55P03") => return Err(error),
                _ => {}
            }
        }
        Ok(removed)
    }

    async fn parts(&self, session: &mut Session) -> sqlx::Result<(Vec<Part>, i64)> {
        let schema = &self.schema;
        let rows = session
            .rows(&format!(
                "SELECT CAST(c.relname AS TEXT), pg_get_expr(c.relpartbound, c.oid), CAST(i.inhdetachpending AS TEXT), \
                 (SELECT CAST(coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('\"{schema}\".events', 'seq') AS regclass)), 0) AS TEXT)) \
                 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
                 WHERE i.inhparent = CAST('\"{schema}\".bodies' AS regclass) ORDER BY c.oid"
            ))
            .await?;
        let mut newest = 0;
        let mut parts = Vec::with_capacity(rows.len());
        for row in rows {
            let bound = row.try_get::<String, _>(1)?;
            let to = bound.rsplit_once("TO ('").and_then(|(_, to)| to.trim_end_matches("')").parse().ok());
            let to = to.ok_or_else(|| sqlx::Error::Protocol(format!("a part of bodies has the bound {bound}")))?;
            newest = row.try_get::<String, _>(3)?.parse().unwrap_or(0);
            parts.push(Part { name: row.try_get(0)?, to, pending: row.try_get::<String, _>(2)? == "true" });
        }
        Ok((parts, newest))
    }

    /// Makes one part beside the table and attaches it; not while another process does.
    async fn attach(&self, session: &mut Session, from: i64, to: i64) -> sqlx::Result<bool> {
        let (schema, lock) = (&self.schema, self.lock);
        let name = format!("\"{schema}\".bodies_{from}");
        let taken = session
            .row(&format!(
                "BEGIN; SET LOCAL lock_timeout = '{LOCK_LIMIT}'; SELECT CAST(pg_try_advisory_xact_lock({lock}, {ATTACHING}) AS TEXT)"
            ))
            .await;
        let work = async {
            if taken?.try_get::<String, _>(0)? != "true" {
                return Ok(false);
            }
            session
                .command(&format!(
                    "CREATE TABLE {name} (LIKE \"{schema}\".bodies INCLUDING DEFAULTS INCLUDING CONSTRAINTS, \
                     CONSTRAINT range CHECK (seq >= {from} AND seq < {to})); \
                     ALTER TABLE \"{schema}\".bodies ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({to}); \
                     ALTER TABLE {name} DROP CONSTRAINT range; COMMIT"
                ))
                .await?;
            Ok(true)
        };
        let answer = work.await;
        if !matches!(answer, Ok(true)) {
            session.command("ROLLBACK").await?;
        }
        match answer {
            // Made by another process since we looked, or not to be had now: the next look tells.
            Err(error) if matches!(code(&error).as_deref(), Some("42P07" | "55P03" | "42P17")) => Ok(false),
            answer => answer,
        }
    }

    /// Whether its youngest event is older than the cutoff, and no body of it is needed.
    async fn is_over(&self, session: &mut Session, part: &Part, cutoff: Timestamp) -> sqlx::Result<bool> {
        let (schema, name, to, cutoff) = (&self.schema, &part.name, part.to, cutoff.as_millis());
        let youngest = session
            .row(&format!(
                "SELECT CAST(coalesce((SELECT received_at < {cutoff} FROM \"{schema}\".events WHERE seq < {to} ORDER BY seq DESC LIMIT 1), true) AS TEXT)"
            ))
            .await?;
        if youngest.try_get::<String, _>(0)? != "true" {
            return Ok(false);
        }
        let needed = session
            .row(&format!(
                "SELECT CAST(EXISTS (SELECT 1 FROM \"{schema}\".\"{name}\" b JOIN \"{schema}\".events e ON e.seq = b.seq \
                 JOIN \"{schema}\".deliveries d ON d.key = e.key AND d.event_seq = e.seq \
                 WHERE d.state NOT IN ('processed', 'discarded')) AS TEXT)"
            ))
            .await?;
        Ok(needed.try_get::<String, _>(0)? != "true")
    }

    async fn remove(&self, session: &mut Session, part: &Part) -> sqlx::Result<u64> {
        let (schema, name) = (&self.schema, &part.name);
        let bodies = session.row(&format!("SELECT CAST(count(*) AS TEXT) FROM \"{schema}\".\"{name}\"")).await?;
        let detach = format!("ALTER TABLE \"{schema}\".bodies DETACH PARTITION \"{schema}\".\"{name}\"");
        if session.pooler() == Pooler::Transaction {
            // Nothing can be set for a statement outside a transaction, and a concurrent detach
            // cannot be in one: so a plain one, that gives up before anybody has waited long.
            let how = if part.pending { " FINALIZE" } else { "" };
            let done = session
                .command(&format!(
                    "BEGIN; SET LOCAL lock_timeout = '{LOCK_LIMIT}'; {detach}{how}; DROP TABLE \"{schema}\".\"{name}\"; COMMIT"
                ))
                .await;
            if done.is_err() {
                session.command("ROLLBACK").await?;
            }
            done?;
        } else {
            let how = if part.pending { "FINALIZE" } else { "CONCURRENTLY" };
            session.command_within(DETACH_LIMIT, &format!("{detach} {how}")).await?;
            self.drop_table(session, name).await?;
        }
        Ok(bodies.try_get::<String, _>(0)?.parse().unwrap_or(0))
    }

    async fn detached(&self, session: &mut Session) -> sqlx::Result<Vec<String>> {
        let schema = &self.schema;
        let rows = session
            .rows(&format!(
                "SELECT CAST(c.relname AS TEXT) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = '{schema}' AND c.relkind = 'r' AND NOT c.relispartition AND c.relname ~ '^bodies_[0-9]+$'"
            ))
            .await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    async fn drop_table(&self, session: &mut Session, name: &str) -> sqlx::Result<()> {
        let sql = format!(
            "BEGIN; SET LOCAL lock_timeout = '{LOCK_LIMIT}'; DROP TABLE IF EXISTS \"{}\".\"{name}\"; COMMIT",
            self.schema
        );
        let done = session.command(&sql).await;
        if done.is_err() {
            session.command("ROLLBACK").await?;
        }
        done
    }
}

/// The first of the two numbers of this inbox's advisory locks: FNV-1a over the schema's name.
pub(super) fn lock_of(schema: &str) -> i32 {
    let hash = schema.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed()
}
