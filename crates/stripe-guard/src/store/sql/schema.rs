//! Tables, indexes and the way from one schema version to the next.
//!
//! The texts are those of both databases: three column types (text, bytes, 64-bit integers), times
//! in milliseconds since 1970, flags 0 and 1. `{p}` stands for the qualifier of a name, `{id}` for
//! the dialect's self-numbering key, `{key}` for a key that is given, `{name}` for a text that is
//! compared byte by byte, `{bytes}` for its bytes, `{clustered}` for what keeps a table in the order
//! of its key, `{index}` for the qualifier of an index. [`BODIES`] stands for the dialect's own
//! table of bodies.

/// The schema this binary writes.
pub(crate) const VERSION: i64 = 2;

/// The migrations, in order: number, the oldest binary that works on its result, statements.
pub(crate) const MIGRATIONS: &[(i64, i64, &[&str])] = &[(1, 1, INITIAL), (2, 1, SHARES)];

/// Where the dialect's statements for the table of bodies come.
pub(crate) const BODIES: &str = "{bodies}";

/// What a database holds before the first migration can be told from none.
pub(crate) const META: &str = "CREATE TABLE IF NOT EXISTS {p}meta (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
)";

const INITIAL: &[&str] = &[
    "INSERT INTO {p}meta (name, value) VALUES ('instance_id', {random_id})",
    // Narrow and for ever: identities outlive bodies, so that a copy is always recognised.
    "CREATE TABLE {p}events (
        seq          {id},
        source       {name} NOT NULL,
        key          {name} NOT NULL,
        event_id     TEXT,
        type         TEXT,
        form         TEXT,
        origin       TEXT   NOT NULL,
        intake       TEXT   NOT NULL,
        created      BIGINT,
        livemode     BIGINT,
        account      TEXT,
        context      TEXT,
        customer     TEXT,
        object_id    TEXT,
        api_version  TEXT,
        received_at  BIGINT NOT NULL,
        digest       {bytes} NOT NULL,
        secret_label TEXT,
        CONSTRAINT event_form_known     CHECK (form IS NULL OR form IN ('snapshot', 'thin', 'envelope')),
        CONSTRAINT event_origin_known   CHECK (origin IN ('webhook', 'reconciled', 'imported', 'staged')),
        CONSTRAINT event_intake_known   CHECK (intake IN ('accepted', 'unwanted', 'quarantined', 'unreadable')),
        CONSTRAINT event_livemode_flag  CHECK (livemode IS NULL OR livemode IN (0, 1)),
        CONSTRAINT event_readable       CHECK ((intake = 'unreadable') = (event_id IS NULL)
                                           AND (event_id IS NULL) = (type IS NULL)
                                           AND (event_id IS NULL) = (form IS NULL)),
        CONSTRAINT event_digest_length  CHECK (length(digest) = 32)
    )",
    "CREATE UNIQUE INDEX {index}events_key ON {p}events (key, source)",
    // Written once, never changed; apart, so that no change of state copies a body.
    BODIES,
    "CREATE TABLE {p}copies (
        event_seq    BIGINT NOT NULL,
        number       BIGINT NOT NULL,
        received_at  BIGINT NOT NULL,
        secret_label TEXT,
        digest       {bytes} NOT NULL,
        PRIMARY KEY (event_seq, number)
    ) {clustered}",
    "CREATE TABLE {p}copy_counts (
        event_seq {key},
        copies    BIGINT NOT NULL,
        differing BIGINT NOT NULL,
        last_at   BIGINT NOT NULL,
        CONSTRAINT copy_counts_ordered CHECK (copies >= 1 AND differing BETWEEN 0 AND copies)
    )",
    // Narrow and hot. The state machine lives here; the checks are its shape.
    "CREATE TABLE {p}deliveries (
        id               {id},
        event_seq        BIGINT NOT NULL,
        key              {name} NOT NULL,
        destination      {name} NOT NULL,
        state            TEXT   NOT NULL,
        class            TEXT,
        parked           BIGINT NOT NULL DEFAULT 0,
        due_at           BIGINT,
        fence            BIGINT NOT NULL DEFAULT 0,
        attempts         BIGINT NOT NULL DEFAULT 0,
        lost             BIGINT NOT NULL DEFAULT 0,
        round            BIGINT NOT NULL DEFAULT 1,
        round_started_at BIGINT NOT NULL,
        held_at_start    BIGINT NOT NULL DEFAULT 0,
        lane             TEXT,
        owner            TEXT,
        claimed_at       BIGINT,
        CONSTRAINT delivery_state_known  CHECK (state IN ('received', 'processing', 'processed', 'retryable', 'dead_letter', 'discarded')),
        CONSTRAINT delivery_due_iff_open CHECK ((due_at IS NOT NULL) = (state IN ('processing', 'retryable') OR (state = 'received' AND parked = 0))),
        CONSTRAINT delivery_parked_flag  CHECK (parked = 0 OR (parked = 1 AND state = 'received')),
        CONSTRAINT delivery_class_iff_dead CHECK ((class IS NOT NULL) = (state = 'dead_letter')
                                              AND (class IS NULL OR class IN ('rejected', 'exhausted', 'unreachable', 'crashed', 'internal'))),
        CONSTRAINT delivery_owner_iff_processing CHECK ((owner IS NOT NULL) = (state = 'processing') AND (claimed_at IS NOT NULL) = (state = 'processing')),
        CONSTRAINT delivery_counts CHECK (fence >= 0 AND attempts >= 0 AND lost BETWEEN 0 AND 5 AND round >= 1 AND held_at_start >= 0)
    )",
    "CREATE UNIQUE INDEX {index}deliveries_key ON {p}deliveries (key, destination)",
    "CREATE INDEX {index}deliveries_received ON {p}deliveries (destination, due_at, round_started_at) WHERE state = 'received'",
    "CREATE INDEX {index}deliveries_retryable ON {p}deliveries (destination, due_at, round_started_at) WHERE state = 'retryable'",
    "CREATE INDEX {index}deliveries_processing ON {p}deliveries (destination, due_at, round_started_at) WHERE state = 'processing'",
    "CREATE INDEX {index}deliveries_suspect ON {p}deliveries (destination, due_at) WHERE lost > 0 AND due_at IS NOT NULL",
    "CREATE INDEX {index}deliveries_dead ON {p}deliveries (id, destination, class) WHERE state = 'dead_letter'",
    "CREATE TABLE {p}attempts (
        delivery_id BIGINT NOT NULL,
        fence       BIGINT NOT NULL,
        round       BIGINT NOT NULL,
        number      BIGINT NOT NULL,
        started_at  BIGINT NOT NULL,
        duration_ms BIGINT,
        outcome     TEXT   NOT NULL,
        status      BIGINT,
        error       TEXT,
        excerpt     TEXT,
        PRIMARY KEY (delivery_id, fence),
        CONSTRAINT attempt_outcome_known CHECK (outcome IN ('delivered', 'rejected', 'failed', 'overloaded', 'misconfigured', 'timed_out', 'unreachable', 'lost', 'late', 'internal'))
    ) {clustered}",
    "CREATE TABLE {p}destinations (
        name      {name} PRIMARY KEY NOT NULL,
        paused    BIGINT NOT NULL DEFAULT 0,
        paused_at BIGINT,
        breaker   TEXT   NOT NULL DEFAULT 'closed',
        breaker_at BIGINT,
        held_ms   BIGINT NOT NULL DEFAULT 0,
        CONSTRAINT destination_paused_flag CHECK (paused IN (0, 1) AND (paused_at IS NOT NULL) = (paused = 1)),
        CONSTRAINT destination_breaker_known CHECK (breaker IN ('closed', 'open', 'half_open'))
    )",
    "CREATE TABLE {p}processes (
        owner      {name} PRIMARY KEY NOT NULL,
        started_at BIGINT NOT NULL,
        seen_at    BIGINT NOT NULL,
        version    TEXT   NOT NULL
    )",
    // What was turned away at the door, so that a wrong secret shows itself. Counted in memory and
    // written in passing: a forger must not be able to make us write.
    "CREATE TABLE {p}refusals (
        source       {name} NOT NULL,
        reason       {name} NOT NULL,
        count        BIGINT NOT NULL,
        last_at      BIGINT NOT NULL,
        skew_seconds BIGINT,
        PRIMARY KEY (source, reason)
    ) {clustered}",
    "CREATE TABLE {p}audit (
        id      {id},
        at      BIGINT NOT NULL,
        actor   TEXT   NOT NULL,
        action  TEXT   NOT NULL,
        subject TEXT   NOT NULL,
        answer  TEXT   NOT NULL,
        reason  TEXT   NOT NULL
    )",
];

/// How many requests at once each process may have under way at a destination: the sum holds for
/// the installation.
const SHARES: &[&str] = &["CREATE TABLE {p}shares (
        destination {name} NOT NULL,
        owner       {name} NOT NULL,
        slots       BIGINT NOT NULL,
        PRIMARY KEY (destination, owner),
        CONSTRAINT share_slots CHECK (slots >= 0)
    ) {clustered}"];
