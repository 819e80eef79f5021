//! Every statement of the verbs and reads, rendered once when a store opens.

use stripe_guard_core::State;

use super::batch::Batch;
use super::dialect::{Dialect, Statement, statement};

/// The columns of an event, in the order that `record` reads them.
pub(super) const EVENT_COLUMNS: &str = "e.seq, e.source, e.key, e.event_id, e.type, e.form, e.origin, e.intake, \
    e.created, e.livemode, e.account, e.context, e.customer, e.object_id, e.api_version, e.received_at, e.digest, e.secret_label";

const DELIVERY_COLUMNS: &str = "d.id, d.event_seq, d.key, d.destination, d.state, d.due_at, d.parked, d.class, d.fence, \
    d.attempts, d.lost, d.round, d.round_started_at, d.held_at_start, d.claimed_at";

pub(super) struct Statements {
    /// As [`Dialect::CONCURRENT`].
    pub(super) concurrent: bool,
    // Ingest.
    pub(super) insert_events: Batch,
    pub(super) insert_bodies: Batch,
    pub(super) insert_deliveries: Batch,
    pub(super) find_event: Statement,
    pub(super) count_copies: Statement,
    pub(super) insert_copy: Statement,
    // Claim.
    pub(super) due: Statement,
    pub(super) due_suspect: Statement,
    pub(super) has_suspects: Statement,
    pub(super) take: Batch,
    pub(super) events_with_bodies: Batch,
    // Settle and release.
    pub(super) apply: Batch,
    pub(super) insert_attempts: Batch,
    pub(super) mark_late: Statement,
    // By hand.
    pub(super) delivery: Statement,
    pub(super) operate: Statement,
    pub(super) event_by_seq: Statement,
    pub(super) accept_event: Statement,
    pub(super) has_body: Statement,
    pub(super) instance_id: Statement,
    pub(super) insert_audit: Statement,
    // Chores.
    pub(super) time: Option<Statement>,
    pub(super) lock_shares: Statement,
    pub(super) drop_shares: Statement,
    pub(super) shares: Statement,
    pub(super) set_share: Statement,
    pub(super) beat: Statement,
    pub(super) count_refusals: Batch,
    pub(super) prune_candidates: Statement,
    pub(super) delete_bodies: Batch,
    // Reads.
    pub(super) events_by_key: Statement,
    pub(super) events: Statement,
    pub(super) deliveries: Statement,
    pub(super) deliveries_in: Vec<(&'static str, Statement)>,
    pub(super) deliveries_of: Statement,
    pub(super) attempts: Statement,
    pub(super) copies: Statement,
    pub(super) body: Statement,
    pub(super) refusals: Statement,
    pub(super) last_event: Statement,
    pub(super) stats: Statement,
}

impl Statements {
    #[expect(clippy::too_many_lines, reason = "a list of statements, to be read beside each other")]
    pub(super) fn new<D: Dialect>(qualifier: &str) -> Self {
        let one = |text: &str| statement::<D>(text, qualifier);
        let many = |text: &str, row: &str, types: &str| Batch::new::<D>(text, row, types, qualifier);
        let event = format!(
            "SELECT {EVENT_COLUMNS}, coalesce(c.copies, 0), coalesce(c.differing, 0) FROM {{p}}events e LEFT JOIN {{p}}copy_counts c ON c.event_seq = e.seq"
        );
        let delivery = format!(
            "SELECT {DELIVERY_COLUMNS}, e.type, (SELECT coalesce(a.error, a.outcome) FROM {{p}}attempts a WHERE a.delivery_id = d.id AND a.outcome <> 'delivered' ORDER BY a.fence DESC LIMIT 1) \
             FROM {{p}}deliveries d LEFT JOIN {{p}}events e ON e.seq = d.event_seq"
        );
        let page = |state: &str| {
            format!(
                "{delivery} WHERE {state} (CAST(? AS BIGINT) IS NULL OR d.id < ?) AND (CAST(? AS TEXT) IS NULL OR d.destination = ?) \
                 AND (CAST(? AS TEXT) IS NULL OR d.class = ?) ORDER BY d.id DESC LIMIT ?"
            )
        };
        let suspects = "FROM {p}deliveries d WHERE d.destination = ? AND d.lost > 0 AND d.due_at IS NOT NULL AND d.due_at <= ? AND (d.lost >= 2 OR d.state = 'processing')";
        Self {
            concurrent: D::CONCURRENT,
            insert_events: many(
                "INSERT INTO {p}events (source, key, event_id, type, form, origin, intake, created, livemode, account, context, customer, object_id, api_version, received_at, digest, secret_label) \
                 {rows} ON CONFLICT (key, source) DO NOTHING RETURNING seq, key, source",
                "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?",
                "tttttttiitttttibt",
            ),
            insert_bodies: many("INSERT INTO {p}bodies (seq, bytes) {rows}", "?, ?", "ib"),
            insert_deliveries: many(
                "INSERT INTO {p}deliveries (event_seq, key, destination, state, due_at, round_started_at) {rows} ON CONFLICT (key, destination) DO NOTHING",
                "?, ?, ?, 'received', ?, ?",
                "ittii",
            ),
            find_event: one("SELECT seq, digest FROM {p}events WHERE key = ? AND source = ?"),
            count_copies: one(
                "INSERT INTO {p}copy_counts (event_seq, copies, differing, last_at) VALUES (?, 1, ?, ?) \
                 ON CONFLICT (event_seq) DO UPDATE SET copies = {p}copy_counts.copies + 1, differing = {p}copy_counts.differing + excluded.differing, last_at = excluded.last_at \
                 RETURNING copies",
            ),
            insert_copy: one(
                "INSERT INTO {p}copies (event_seq, number, received_at, secret_label, digest) VALUES (?, ?, ?, ?, ?)",
            ),
            // A share of each kind, so that the caller can be fair; it takes no more than its limit.
            due: one(&format!(
                "WITH leases AS MATERIALIZED (SELECT {DELIVERY_COLUMNS} FROM {{p}}deliveries d WHERE d.destination = ? AND d.state = 'processing' AND d.due_at >= ? AND d.due_at <= ? AND d.lost = 0 ORDER BY d.due_at LIMIT ? {{skip_locked}}), \
                 retries AS MATERIALIZED (SELECT {DELIVERY_COLUMNS} FROM {{p}}deliveries d WHERE d.destination = ? AND d.state = 'retryable' AND d.due_at >= ? AND d.due_at <= ? AND d.lost < 2 ORDER BY d.due_at LIMIT ? {{skip_locked}}), \
                 fresh AS MATERIALIZED (SELECT {DELIVERY_COLUMNS} FROM {{p}}deliveries d WHERE d.destination = ? AND d.state = 'received' AND d.due_at >= ? AND d.due_at <= ? AND d.lost < 2 ORDER BY d.due_at LIMIT ? {{skip_locked}}) \
                 SELECT * FROM leases UNION ALL SELECT * FROM retries UNION ALL SELECT * FROM fresh"
            )),
            due_suspect: one(&format!(
                "SELECT {DELIVERY_COLUMNS} {suspects} ORDER BY d.due_at LIMIT 1 {{skip_locked}}"
            )),
            has_suspects: one(&format!("SELECT d.id {suspects} LIMIT 1")),
            take: many(
                "WITH v (id, fence, state, due_at, class, lost, owner, claimed_at) AS ({rows}) \
                 UPDATE {p}deliveries SET state = v.state, fence = v.fence, due_at = v.due_at, class = v.class, lost = v.lost, owner = v.owner, claimed_at = v.claimed_at FROM v \
                 WHERE {p}deliveries.id = v.id AND {p}deliveries.fence = v.fence - 1 AND {p}deliveries.state IN ('received', 'processing', 'retryable') RETURNING {p}deliveries.id",
                "?, ?, ?, ?, ?, ?, ?, ?",
                "iitititi",
            ),
            events_with_bodies: many(
                &format!(
                    "SELECT {EVENT_COLUMNS}, CAST(0 AS BIGINT), CAST(0 AS BIGINT), b.bytes FROM {{p}}events e LEFT JOIN {{p}}bodies b ON b.seq = e.seq WHERE e.seq IN ({{rows}})"
                ),
                "?",
                "i",
            ),
            apply: many(
                "WITH v (id, fence, state, due_at, class, attempts, lost) AS ({rows}) \
                 UPDATE {p}deliveries SET state = v.state, due_at = v.due_at, class = v.class, attempts = v.attempts, lost = v.lost, owner = NULL, claimed_at = NULL FROM v \
                 WHERE {p}deliveries.id = v.id AND {p}deliveries.fence = v.fence AND {p}deliveries.state = 'processing' RETURNING {p}deliveries.id, {p}deliveries.fence",
                "?, ?, ?, ?, ?, ?, ?",
                "iititii",
            ),
            insert_attempts: many(
                "INSERT INTO {p}attempts (delivery_id, fence, round, number, started_at, duration_ms, outcome, status, error, excerpt) {rows}",
                "?, ?, ?, ?, ?, ?, ?, ?, ?, ?",
                "iiiiiititt",
            ),
            mark_late: one(
                "UPDATE {p}attempts SET outcome = 'late', status = ?, error = ?, excerpt = ?, duration_ms = ? WHERE delivery_id = ? AND fence = ? AND outcome = 'lost'",
            ),
            delivery: one(&format!("{delivery} WHERE d.id = ?")),
            operate: one(
                "UPDATE {p}deliveries SET state = ?, due_at = ?, class = ?, parked = 0, attempts = ?, lost = ?, round = ?, round_started_at = ?, held_at_start = ? \
                 WHERE id = ? AND fence = ? AND state = ? AND round = ? RETURNING id",
            ),
            event_by_seq: one(&format!("{event} WHERE e.seq = ?")),
            accept_event: one(
                "UPDATE {p}events SET intake = 'accepted' WHERE seq = ? AND intake IN ('unwanted', 'quarantined') RETURNING seq",
            ),
            has_body: one("SELECT seq FROM {p}bodies WHERE seq = ?"),
            instance_id: one("SELECT value FROM {p}meta WHERE name = 'instance_id'"),
            insert_audit: one(
                "INSERT INTO {p}audit (at, actor, action, subject, answer, reason) VALUES (?, ?, ?, ?, ?, ?)",
            ),
            time: D::TIME.map(one),
            lock_shares: one("UPDATE {p}meta SET value = value WHERE name = 'instance_id'"),
            drop_shares: one(
                "DELETE FROM {p}shares WHERE owner IN (SELECT s.owner FROM {p}shares s LEFT JOIN {p}processes p ON p.owner = s.owner WHERE coalesce(p.seen_at, 0) < ? AND s.owner <> ?)",
            ),
            shares: one("SELECT owner, slots FROM {p}shares WHERE destination = ? ORDER BY owner"),
            set_share: one(
                "INSERT INTO {p}shares (destination, owner, slots) VALUES (?, ?, ?) ON CONFLICT (destination, owner) DO UPDATE SET slots = excluded.slots",
            ),
            beat: one(
                "INSERT INTO {p}processes (owner, started_at, seen_at, version) VALUES (?, ?, ?, ?) ON CONFLICT (owner) DO UPDATE SET seen_at = excluded.seen_at",
            ),
            count_refusals: many(
                "INSERT INTO {p}refusals (source, reason, count, last_at, skew_seconds) {rows} \
                 ON CONFLICT (source, reason) DO UPDATE SET count = {p}refusals.count + excluded.count, last_at = excluded.last_at, skew_seconds = excluded.skew_seconds",
                "?, ?, ?, ?, ?",
                "ttiii",
            ),
            prune_candidates: one(
                "SELECT b.seq, e.received_at, (SELECT COUNT(*) FROM {p}deliveries d WHERE d.key = e.key AND d.event_seq = e.seq AND d.state NOT IN ('processed', 'discarded')) \
                 FROM {p}bodies b JOIN {p}events e ON e.seq = b.seq WHERE b.seq >= ? ORDER BY b.seq LIMIT ?",
            ),
            delete_bodies: many("DELETE FROM {p}bodies WHERE seq IN ({rows})", "?", "i"),
            events_by_key: one(&format!("{event} WHERE e.key = ? OR (e.key > ? AND e.key < ?) ORDER BY e.seq")),
            events: one(&format!(
                "{event} WHERE (CAST(? AS BIGINT) IS NULL OR e.seq < ?) AND (CAST(? AS TEXT) IS NULL OR e.source = ?) AND (CAST(? AS TEXT) IS NULL OR e.type = ?) \
                 AND (CAST(? AS TEXT) IS NULL OR e.intake = ?) AND (CAST(? AS TEXT) IS NULL OR e.account = ?) ORDER BY e.seq DESC LIMIT ?"
            )),
            deliveries: one(&page("")),
            // The state as a literal, so that the partial index of that state is found.
            deliveries_in: State::NAMES
                .iter()
                .map(|state| (*state, one(&page(&format!("d.state = '{state}' AND")))))
                .collect(),
            deliveries_of: one(&format!("{delivery} WHERE d.key = ? ORDER BY d.id")),
            attempts: one(
                "SELECT fence, round, number, started_at, duration_ms, outcome, status, error, excerpt FROM {p}attempts WHERE delivery_id = ? ORDER BY fence",
            ),
            copies: one("SELECT received_at, secret_label, digest FROM {p}copies WHERE event_seq = ? ORDER BY number"),
            body: one("SELECT bytes FROM {p}bodies WHERE seq = ?"),
            refusals: one(
                "SELECT source, reason, count, last_at, skew_seconds FROM {p}refusals ORDER BY source, reason",
            ),
            last_event: one("SELECT seq, received_at FROM {p}events ORDER BY seq DESC LIMIT 1"),
            stats: one(
                "SELECT destination, 'received', COUNT(*), MIN(round_started_at), MIN(due_at) FROM {p}deliveries WHERE state = 'received' GROUP BY destination \
                 UNION ALL SELECT destination, 'processing', COUNT(*), MIN(round_started_at), MIN(due_at) FROM {p}deliveries WHERE state = 'processing' GROUP BY destination \
                 UNION ALL SELECT destination, 'retryable', COUNT(*), MIN(round_started_at), MIN(due_at) FROM {p}deliveries WHERE state = 'retryable' GROUP BY destination \
                 UNION ALL SELECT destination, 'dead_letter', COUNT(*), NULL, NULL FROM {p}deliveries WHERE state = 'dead_letter' GROUP BY destination",
            ),
        }
    }
}
