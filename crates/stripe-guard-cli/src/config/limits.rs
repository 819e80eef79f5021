//! `[limits]` and `[retention]`.

use std::time::Duration;

use stripe_guard::settings::{Limits, RETENTION_MIN, Retention};

use super::problem::Wrong;
use super::section::{Section, number};
use super::units;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Reads `[limits]`; `None` when something in it is wrong, which is then reported.
pub(super) fn read(mut section: Section<'_>) -> Option<Limits> {
    let body_bytes = section.take("body", |value| units::size(value, KIB..=64 * MIB));
    let queue_events = section.take("queue_events", |value| number(value, 1_u32, 1_000_000));
    let queue_bytes = section.take("queue_bytes", |value| units::size(value, KIB..=4096 * MIB));
    let header_timeout = section.take("header_timeout", |value| units::duration(value, 100 * MILLISECOND..=HOUR));
    let body_timeout = section.take("body_timeout", |value| units::duration(value, 100 * MILLISECOND..=HOUR));
    let connections = section.take("connections", |value| number(value, 1_u32, 1_000_000));
    let lease = section.take("lease", |value| units::duration(value, SECOND..=DAY));
    let poll = section.take("poll", |value| units::duration(value, 10 * MILLISECOND..=60 * SECOND));
    let grace = section.take("grace", |value| units::duration(value, Duration::ZERO..=HOUR));
    let excerpt_bytes = section.take("excerpt", |value| units::size(value, 0..=64 * KIB));
    if queue_bytes < body_bytes && queue_bytes.is_some() {
        let wrong = Wrong::new("is less than body: the largest event would never fit", "make it at least body");
        section.report().wrong(&section.key_of("queue_bytes"), wrong);
    }
    section.finish();
    Some(Limits {
        body_bytes: body_bytes?,
        queue_events: as_usize(queue_events?),
        queue_bytes: queue_bytes?,
        header_timeout: header_timeout?,
        body_timeout: body_timeout?,
        connections: as_usize(connections?),
        lease: lease?,
        poll: poll?,
        grace: grace?,
        excerpt_bytes: excerpt_bytes?,
    })
}

/// Reads `[retention]`.
pub(super) fn read_retention(mut section: Section<'_>) -> Option<Retention> {
    let bodies = section.take("bodies", |value| {
        let found = units::duration(value, Duration::ZERO..=36_500 * DAY)?;
        if found < RETENTION_MIN {
            let problem = "is too short: Stripe may send an event again for 30 days, and its body must still be here";
            return Err(Wrong::new(problem, format!("write at least \"{}\"", units::show_duration(RETENTION_MIN))));
        }
        Ok(found)
    });
    section.finish();
    Some(Retention { bodies: bodies? })
}

fn as_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
