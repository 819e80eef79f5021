//! The states of a delivery and their form in the store.

use crate::{DeadLetterClass, Timestamp};

/// Where a delivery stands.
///
/// | state | leaves by |
/// |---|---|
/// | `received` | claim; discard |
/// | `processing` | settle; release; the next claim once the lease is over |
/// | `retryable` | claim; retry-now; discard |
/// | `processed` | replay |
/// | `dead_letter` | replay; discard |
/// | `discarded` | replay |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Waits for its first attempt of the round; without a time while parked behind its lane's head.
    Received {
        /// When it may be claimed; `None` while parked.
        due_at: Option<Timestamp>,
    },
    /// A worker holds it.
    Processing {
        /// When the hold ends by itself.
        lease_until: Timestamp,
    },
    /// Waits for its next attempt.
    Retryable {
        /// When it may be claimed, drawn once.
        due_at: Timestamp,
    },
    /// The app confirmed it.
    Processed,
    /// Given up by policy.
    DeadLetter {
        /// Why.
        class: DeadLetterClass,
    },
    /// Given up by an operator.
    Discarded,
}

impl State {
    /// Every state's word.
    pub const NAMES: &[&str] = &["received", "processing", "retryable", "processed", "dead_letter", "discarded"];

    /// The word for it in the store, the logs, the metrics and the output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Received { .. } => "received",
            Self::Processing { .. } => "processing",
            Self::Retryable { .. } => "retryable",
            Self::Processed => "processed",
            Self::DeadLetter { .. } => "dead_letter",
            Self::Discarded => "discarded",
        }
    }

    /// When somebody must look at it again: the next attempt, or the end of the lease.
    pub const fn due_at(&self) -> Option<Timestamp> {
        match self {
            Self::Received { due_at } => *due_at,
            Self::Processing { lease_until: due_at } | Self::Retryable { due_at } => Some(*due_at),
            Self::Processed | Self::DeadLetter { .. } | Self::Discarded => None,
        }
    }

    /// Why it was given up.
    pub const fn class(&self) -> Option<DeadLetterClass> {
        if let Self::DeadLetter { class } = self { Some(*class) } else { None }
    }

    /// Whether it waits behind its lane's head.
    pub const fn is_parked(&self) -> bool {
        matches!(self, Self::Received { due_at: None })
    }

    /// Whether it has come to an end, so that only an operator moves it on.
    pub const fn is_ended(&self) -> bool {
        matches!(self, Self::Processed | Self::DeadLetter { .. } | Self::Discarded)
    }

    /// The state of a row; `None` for a combination that no state has.
    pub fn from_columns(
        name: &str,
        due_at: Option<Timestamp>,
        parked: bool,
        class: Option<DeadLetterClass>,
    ) -> Option<Self> {
        Some(match (name, due_at, parked, class) {
            ("received", Some(_), false, None) => Self::Received { due_at },
            ("received", None, true, None) => Self::Received { due_at: None },
            ("processing", Some(lease_until), false, None) => Self::Processing { lease_until },
            ("retryable", Some(due_at), false, None) => Self::Retryable { due_at },
            ("processed", None, false, None) => Self::Processed,
            ("dead_letter", None, false, Some(class)) => Self::DeadLetter { class },
            ("discarded", None, false, None) => Self::Discarded,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_survives_its_columns_and_no_other_combination_is_a_state() {
        let time = Timestamp::from_secs(7);
        let mut states = vec![
            State::Received { due_at: Some(time) },
            State::Received { due_at: None },
            State::Processing { lease_until: time },
            State::Retryable { due_at: time },
            State::Processed,
            State::Discarded,
        ];
        states.extend(DeadLetterClass::ALL.iter().map(|&class| State::DeadLetter { class }));
        for state in &states {
            assert_eq!(
                State::from_columns(state.name(), state.due_at(), state.is_parked(), state.class()),
                Some(*state)
            );
        }
        let mut legal = 0;
        for name in State::NAMES.iter().chain(&["pending"]) {
            for due_at in [None, Some(time)] {
                for parked in [false, true] {
                    for class in DeadLetterClass::ALL.iter().copied().map(Some).chain([None]) {
                        legal += usize::from(State::from_columns(name, due_at, parked, class).is_some());
                    }
                }
            }
        }
        assert_eq!(legal, states.len());
    }
}
