//! What an event is called, and how it came.

use std::{fmt, str::FromStr};

use crate::{Digest, Timestamp};

/// The id that Stripe's dashboard gives to every test event it sends.
pub const TEST_EVENT_ID: &str = "evt_00000000000000";

/// A Stripe event id, kept as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(String);

/// The text cannot be an event id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event id has 1 to 255 bytes and no control characters")]
pub struct NotAnEventId;

impl EventId {
    /// Takes 1 to 255 bytes without control characters. Stripe's "upgrades" page promises no
    /// prefix and allows 255 characters, so nothing more is asked for.
    pub fn parse(raw: &str) -> Result<Self, NotAnEventId> {
        if plausible_name(raw) { Ok(Self(raw.to_owned())) } else { Err(NotAnEventId) }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A Stripe event type such as `invoice.paid` or `v2.core.account[requirements].updated`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventType(String);

/// The text cannot be an event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event type has 1 to 255 bytes and no control characters")]
pub struct NotAnEventType;

impl EventType {
    /// Takes 1 to 255 bytes without control characters. Types that nobody knows yet are welcome.
    pub fn parse(raw: &str) -> Result<Self, NotAnEventType> {
        if plausible_name(raw) { Ok(Self(raw.to_owned())) } else { Err(NotAnEventType) }
    }

    /// The type as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn plausible_name(raw: &str) -> bool {
    (1..=255).contains(&raw.len()) && !raw.chars().any(char::is_control)
}

/// What makes an event the same again, within its source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// The key of a readable event: its id. Stripe's fixed test id names every dashboard test
    /// event alike, so type and creation second join it there.
    pub fn of_event(id: &EventId, event_type: &EventType, created: Option<Timestamp>) -> Self {
        if id.as_str() == TEST_EVENT_ID {
            let created = created.map_or(0, Timestamp::as_secs);
            Self(format!("{id}:{event_type}:{created}"))
        } else {
            Self(id.as_str().to_owned())
        }
    }

    /// The key of a body that is rightly signed and still no event.
    pub fn of_unreadable(digest: &Digest) -> Self {
        Self(format!("unreadable:{digest}"))
    }

    /// A key as the store or an operator gives it back.
    pub fn from_store(text: String) -> Self {
        Self(text)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes an enum of plain words with its text form, both ways.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$word_doc])* $variant),+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word for it in the store, the logs, the metrics and the output.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(format!("must be one of: {}", [$($text),+].join(", "))),
                }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// How an event came to us.
    Origin {
        /// Posted by Stripe and verified by its signature.
        Webhook = "webhook",
        /// Fetched from Stripe's API because it was missing.
        Reconciled = "reconciled",
        /// Brought in by an operator.
        Imported = "imported",
        /// A follow-up made by a handler inside its own transaction.
        Staged = "staged",
    }
}

words! {
    /// What became of an event at the door.
    Intake {
        /// At least one destination takes it.
        Accepted = "accepted",
        /// No destination takes its type.
        Unwanted = "unwanted",
        /// Of the wrong mode or account for its source.
        Quarantined = "quarantined",
        /// Rightly signed, and no event.
        Unreadable = "unreadable",
    }
}

words! {
    /// Which of Stripe's modes a source takes.
    Mode {
        /// Live events only.
        Live = "live",
        /// Test and sandbox events only.
        Test = "test",
        /// Both.
        Any = "any",
    }
}

impl Mode {
    /// Whether an event of this `livemode` belongs here. Early thin events do not say; they are
    /// signed with this source's secret, so they pass.
    pub fn takes(self, livemode: Option<bool>) -> bool {
        match (self, livemode) {
            (Self::Any, _) | (_, None) => true,
            (Self::Live, Some(live)) => live,
            (Self::Test, Some(live)) => !live,
        }
    }
}

impl FromStr for Key {
    type Err = NotAnEventId;

    /// A key as an operator types it.
    fn from_str(text: &str) -> Result<Self, NotAnEventId> {
        if text.is_empty() || text.chars().any(char::is_control) {
            Err(NotAnEventId)
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_id(raw: &str, good: bool) {
        assert_eq!(EventId::parse(raw).is_ok(), good, "{raw:?}");
    }

    #[test]
    fn an_id_needs_no_prefix_and_may_have_255_bytes() {
        check_id("evt_1", true);
        check_id("anything at all", true);
        check_id(&"x".repeat(255), true);
        check_id(&"x".repeat(256), false);
        check_id("", false);
        check_id("evt\n", false);
        check_id("evt\u{0}", false);
    }

    #[test]
    fn the_fixed_test_id_is_told_apart_by_type_and_second() {
        let key = |event_type: &str, created| {
            let id = EventId::parse(TEST_EVENT_ID).unwrap();
            Key::of_event(&id, &EventType::parse(event_type).unwrap(), Some(Timestamp::from_secs(created)))
        };
        assert_eq!(key("invoice.paid", 7).as_str(), "evt_00000000000000:invoice.paid:7");
        assert_ne!(key("invoice.paid", 7), key("invoice.paid", 8));
        assert_ne!(key("invoice.paid", 7), key("charge.succeeded", 7));
    }

    #[test]
    fn words_round_trip() {
        for origin in Origin::ALL {
            assert_eq!(origin.as_str().parse(), Ok(*origin));
        }
        assert!("webhooks".parse::<Origin>().is_err());
    }
}
