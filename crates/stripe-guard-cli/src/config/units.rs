//! Values with units: "30s" and "2MiB".

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;

use super::problem::Wrong;
use super::section::{kind, text};

const DURATION_UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZE_UNITS: &[(&str, u64)] = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads a duration such as "30s" within bounds.
pub(crate) fn duration(value: &Value, bounds: RangeInclusive<Duration>) -> Result<Duration, Wrong> {
    let remedy = "write a whole number with ms, s, m, h or d, such as \"30s\"";
    let raw = match value {
        Value::String(raw) => raw,
        Value::Integer(_) | Value::Float(_) => return Err(Wrong::new("is a duration without a unit", remedy)),
        other => return Err(Wrong::new(format!("is {}, not a duration", kind(other)), remedy)),
    };
    let millis = with_unit(raw, DURATION_UNITS).ok_or_else(|| Wrong::new("is not a duration", remedy))?;
    let found = Duration::from_millis(millis);
    if bounds.contains(&found) {
        return Ok(found);
    }
    let remedy = format!("choose one from {} to {}", show_duration(*bounds.start()), show_duration(*bounds.end()));
    Err(Wrong::new("is out of range", remedy))
}

/// Reads a size such as "2MiB", or a number of bytes, within bounds.
pub(super) fn size(value: &Value, bounds: RangeInclusive<usize>) -> Result<usize, Wrong> {
    let remedy = "write a whole number with B, KiB, MiB or GiB, such as \"2MiB\"";
    let bytes = match value {
        Value::Integer(bytes) => u64::try_from(*bytes).ok(),
        other => with_unit(text(other)?, SIZE_UNITS),
    };
    let found =
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| Wrong::new("is not a size", remedy))?;
    if bounds.contains(&found) {
        return Ok(found);
    }
    let remedy = format!("choose one from {} to {}", show_size(*bounds.start()), show_size(*bounds.end()));
    Err(Wrong::new("is out of range", remedy))
}

fn with_unit(raw: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = raw.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = raw.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// A duration in its largest whole unit.
pub(crate) fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), DURATION_UNITS)
}

fn show_size(bytes: usize) -> String {
    show(u64::try_from(bytes).unwrap_or(u64::MAX), SIZE_UNITS)
}

fn show(amount: u64, units: &[(&str, u64)]) -> String {
    let whole = units.iter().rev().find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor));
    let (unit, factor) = whole.unwrap_or(&units[0]);
    format!("{}{unit}", amount / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_duration(raw: &str, millis: Option<u64>) {
        let found = duration(&Value::from(raw), Duration::ZERO..=Duration::MAX);
        assert_eq!(found.ok(), millis.map(Duration::from_millis), "{raw:?}");
    }

    #[track_caller]
    fn check_size(raw: impl Into<Value>, bytes: Option<usize>) {
        let raw = raw.into();
        assert_eq!(size(&raw, 0..=usize::MAX).ok(), bytes, "{raw:?}");
    }

    #[test]
    fn a_duration_is_a_whole_number_with_a_unit() {
        check_duration("500ms", Some(500));
        check_duration("30s", Some(30_000));
        check_duration("5m", Some(300_000));
        check_duration("72h", Some(259_200_000));
        check_duration("90 d", Some(7_776_000_000));
        for raw in ["", "30", "s", "1.5h", "-1s", "5 minutes", "99999999999999999999d", "5M"] {
            check_duration(raw, None);
        }
    }

    #[test]
    fn a_size_is_a_number_of_bytes_or_has_a_unit() {
        check_size("2MiB", Some(2 * 1024 * 1024));
        check_size("64 KiB", Some(65_536));
        check_size("7B", Some(7));
        check_size(4096, Some(4096));
        check_size(-1, None);
        for raw in ["", "2MB", "2", "1.5MiB", "MiB"] {
            check_size(raw, None);
        }
    }

    #[test]
    fn bounds_are_shown_in_the_largest_whole_unit() {
        assert_eq!(show_duration(Duration::from_hours(35 * 24)), "35d");
        assert_eq!(show_duration(Duration::from_millis(1500)), "1500ms");
        assert_eq!(show_duration(Duration::from_secs(0)), "0ms");
        assert_eq!(show_size(64 << 20), "64MiB");
    }
}
