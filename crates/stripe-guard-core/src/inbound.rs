//! An event on its way into the store, with the proof of its origin.

use std::fmt;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::{Envelope, Intake, Key, Mode, Origin, Timestamp, Verified, envelope};

/// The SHA-256 of a body as received.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest as the store gives it back; `None` unless it has 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// An event of proven origin. The store takes nothing else, and only a proof makes one:
/// a [`Verified`] body here; Stripe's API, an audited import and a handler's transaction join it
/// with their own proofs.
#[derive(Clone)]
pub struct Inbound {
    source: String,
    key: Key,
    envelope: Option<Envelope>,
    origin: Origin,
    received_at: Timestamp,
    digest: Digest,
    secret_label: Option<String>,
    body: Bytes,
}

impl fmt::Debug for Inbound {
    /// Without the body, which no log may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inbound({} through {}, {} bytes)", self.key, self.source, self.body.len())
    }
}

impl Inbound {
    /// An event posted by Stripe to `source`.
    pub fn webhook(source: &str, verified: Verified, received_at: Timestamp) -> Self {
        let (body, label) = verified.into_parts();
        let digest = Digest::of(&body);
        let envelope = envelope::read(&body);
        let key = match &envelope {
            Some(envelope) => Key::of_event(&envelope.id, &envelope.event_type, envelope.created),
            None => Key::of_unreadable(&digest),
        };
        Self {
            source: source.to_owned(),
            key,
            envelope,
            origin: Origin::Webhook,
            received_at,
            digest,
            secret_label: Some(label),
            body,
        }
    }

    /// The source it came through.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What makes it the same again.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What it says of itself; `None` when the body is no event.
    pub fn envelope(&self) -> Option<&Envelope> {
        self.envelope.as_ref()
    }

    /// How it came.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// When it came, by our clock.
    pub fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// The digest of the body.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The label of the secret that matched, if a signature was the proof.
    pub fn secret_label(&self) -> Option<&str> {
        self.secret_label.as_deref()
    }

    /// The bytes as received.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

/// What becomes of an event at the door of a source.
///
/// `accounts` lists the accounts that the source takes, where `self` means events of the own
/// account; an empty list takes all. `wanted` says whether any destination takes the type.
pub fn intake_of(envelope: Option<&Envelope>, mode: Mode, accounts: &[String], wanted: bool) -> Intake {
    let Some(envelope) = envelope else { return Intake::Unreadable };
    let account = envelope.account.as_deref().or(envelope.context.as_deref()).unwrap_or("self");
    if !mode.takes(envelope.livemode) || !(accounts.is_empty() || accounts.iter().any(|one| one == account)) {
        Intake::Quarantined
    } else if wanted {
        Intake::Accepted
    } else {
        Intake::Unwanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(livemode: Option<bool>, account: Option<&str>) -> Envelope {
        let body = serde_json::json!({"id": "evt_1", "type": "x", "livemode": livemode, "account": account});
        envelope::read(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn an_event_of_the_wrong_mode_or_account_is_quarantined() {
        let test = envelope(Some(false), None);
        assert_eq!(intake_of(Some(&test), Mode::Live, &[], true), Intake::Quarantined);
        assert_eq!(intake_of(Some(&test), Mode::Test, &[], true), Intake::Accepted);
        assert_eq!(intake_of(Some(&envelope(None, None)), Mode::Live, &[], true), Intake::Accepted);
        let connected = envelope(Some(true), Some("acct_1"));
        assert_eq!(intake_of(Some(&connected), Mode::Any, &["self".to_owned()], true), Intake::Quarantined);
        assert_eq!(intake_of(Some(&connected), Mode::Any, &["acct_1".to_owned()], true), Intake::Accepted);
        assert_eq!(intake_of(Some(&test), Mode::Any, &["self".to_owned()], false), Intake::Unwanted);
        assert_eq!(intake_of(None, Mode::Any, &[], true), Intake::Unreadable);
    }
}
