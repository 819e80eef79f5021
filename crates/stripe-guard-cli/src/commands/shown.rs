//! Records of the store as JSON, with names that stay.

use serde_json::{Value, json};
use stripe_guard::store::{AttemptRecord, CopyRecord, DeliveryRecord, EventRecord};
use stripe_guard_core::{DeadLetterClass, DeliveryId, Timestamp};

/// A time, as RFC 3339 in UTC.
pub(crate) fn time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| at.to_string().into())
}

/// An event.
pub(crate) fn event(event: &EventRecord) -> Value {
    json!({
        "seq": event.seq,
        "key": event.key,
        "event_id": event.event_id,
        "type": event.event_type,
        "source": event.source,
        "form": event.form.map(|form| form.to_string()),
        "origin": event.origin.as_str(),
        "intake": event.intake.as_str(),
        "created": time(event.created),
        "livemode": event.livemode,
        "account": event.account,
        "context": event.context,
        "customer": event.customer,
        "object_id": event.object_id,
        "api_version": event.api_version,
        "received_at": time(Some(event.received_at)),
        "sha256": event.digest.to_string(),
        "secret_label": event.secret_label,
        "copies": event.copies,
        "differing_copies": event.differing_copies,
    })
}

/// A delivery.
pub(crate) fn delivery(delivery: &DeliveryRecord) -> Value {
    json!({
        "delivery": delivery.id.get(),
        "seq": delivery.event_seq,
        "key": delivery.key,
        "type": delivery.event_type,
        "destination": delivery.destination,
        "state": delivery.state.name(),
        "class": delivery.state.class().map(DeadLetterClass::as_str),
        "due_at": time(delivery.state.due_at()),
        "attempts": delivery.attempts,
        "lost": delivery.lost,
        "round": delivery.round,
        "round_started_at": time(Some(delivery.round_started_at)),
        "fence": delivery.fence,
        "last_error": delivery.last_error,
    })
}

/// An attempt of a delivery.
pub(crate) fn attempt(id: DeliveryId, attempt: &AttemptRecord) -> Value {
    json!({
        "delivery": id.get(),
        "fence": attempt.fence,
        "round": attempt.round,
        "number": attempt.number,
        "started_at": time(Some(attempt.started_at)),
        "duration_ms": attempt.duration.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        "outcome": attempt.outcome.as_str(),
        "status": attempt.status,
        "error": attempt.error,
        "excerpt": attempt.excerpt,
    })
}

/// A copy of an event, and whether its bytes are others.
pub(crate) fn copy(of: &EventRecord, copy: &CopyRecord) -> Value {
    json!({
        "received_at": time(Some(copy.received_at)),
        "secret_label": copy.secret_label,
        "sha256": copy.digest.to_string(),
        "bytes_differ": copy.digest != of.digest,
    })
}
