//! Which event types a destination takes.

use std::fmt;

use crate::EventType;

/// An exact type, `*`, or a suffix wildcard: `invoice.*` matches `invoice.paid` and not
/// `v1.invoice.paid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeFilter {
    /// Every type.
    All,
    /// Every type that begins with this text, which ends in a dot.
    Prefix(String),
    /// This type.
    Exact(String),
}

/// The text is no type filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a type filter is an exact type (invoice.paid), a wildcard at the end (invoice.*), or *")]
pub struct NotATypeFilter;

impl TypeFilter {
    /// Reads a filter as it stands in the configuration.
    pub fn parse(text: &str) -> Result<Self, NotATypeFilter> {
        if text == "*" {
            return Ok(Self::All);
        }
        if EventType::parse(text).is_err() || text.contains(char::is_whitespace) {
            return Err(NotATypeFilter);
        }
        match text.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('.') && !prefix.contains('*') && prefix.len() > 1 => {
                Ok(Self::Prefix(prefix.to_owned()))
            }
            None if !text.contains('*') => Ok(Self::Exact(text.to_owned())),
            _ => Err(NotATypeFilter),
        }
    }

    /// Whether an event of this type passes.
    pub fn matches(&self, event_type: &str) -> bool {
        match self {
            Self::All => true,
            Self::Prefix(prefix) => event_type.len() > prefix.len() && event_type.starts_with(prefix),
            Self::Exact(exact) => event_type == exact,
        }
    }
}

impl fmt::Display for TypeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Exact(exact) => f.write_str(exact),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(filter: &str, event_type: &str, expected: bool) {
        assert_eq!(TypeFilter::parse(filter).unwrap().matches(event_type), expected, "{filter} on {event_type}");
    }

    #[test]
    fn a_filter_is_exact_or_a_prefix_up_to_a_dot() {
        check("*", "anything", true);
        check("invoice.*", "invoice.paid", true);
        check("invoice.*", "invoice.", false);
        check("invoice.*", "v1.invoice.paid", false);
        check("invoice.*", "invoice_payment.paid", false);
        check("invoice.paid", "invoice.paid", true);
        check("invoice.paid", "invoice.paid.more", false);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "invoice*", "*.paid", "in*voice.*", ".*", "**", "invoice. *", "a\n"] {
            assert_eq!(TypeFilter::parse(text), Err(NotATypeFilter), "{text:?}");
        }
    }
}
