//! Times and spans as people read them.

use std::time::Duration;

use stripe_guard_core::Timestamp;

/// A point in time in UTC, to the second.
pub(crate) fn time(at: Timestamp) -> String {
    let text = at.to_string();
    match (text.get(..19), text.get(10..11)) {
        (Some(whole), Some("T")) => format!("{}Z", whole.replace('T', " ")),
        _ => text,
    }
}

/// A span in its largest unit, rounded down.
pub(crate) fn span(span: Duration) -> String {
    let (millis, secs) = (span.as_millis(), span.as_secs());
    match secs {
        0 => format!("{millis} ms"),
        1..60 => format!("{secs} s"),
        60..3600 => format!("{} min", secs / 60),
        3600..172_800 => format!("{} h", secs / 3600),
        _ => format!("{} d", secs / 86_400),
    }
}

/// How long ago a time was, or how far ahead it is.
pub(crate) fn ago(now: Timestamp, at: Timestamp) -> String {
    if at > now { format!("in {}", span(at.since(now))) } else { format!("{} ago", span(now.since(at))) }
}

/// A point in time, and how long ago it was.
pub(crate) fn when(now: Timestamp, at: Timestamp) -> String {
    format!("{} ({})", time(at), ago(now, at))
}

/// A count with its noun.
pub(crate) fn count(number: impl Into<i128>, one: &str, many: &str) -> String {
    let number = number.into();
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What may be missing, shown as a dash.
pub(crate) fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

/// A text of at most so many characters, with a mark where something was left out.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_shown_in_its_largest_unit() {
        let shown = |secs| span(Duration::from_secs(secs));
        assert_eq!(span(Duration::from_millis(7)), "7 ms");
        assert_eq!(
            [1, 59, 60, 3599, 3600, 172_799, 172_800].map(shown),
            ["1 s", "59 s", "1 min", "59 min", "1 h", "47 h", "2 d"]
        );
    }

    #[test]
    fn a_time_is_shown_in_utc_with_its_age() {
        let at = Timestamp::from_millis(1_796_083_203_417);
        assert_eq!(when(at.plus(Duration::from_secs(185)), at), "2026-12-01 00:00:03Z (3 min ago)");
        assert_eq!(ago(at, at.plus(Duration::from_secs(4))), "in 4 s");
    }
}
