//! How long things took, in buckets that are never more than 7 % wide.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const STEPS: u64 = 16;
const BUCKETS: usize = 16 * 40;

/// A histogram of durations from 1 µs up to days; adding one is a single atomic addition.
#[derive(Debug)]
pub struct Latency(Box<[AtomicU64]>);

impl Default for Latency {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Latency {
    /// Counts one duration.
    pub fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0[bucket(micros)].fetch_add(1, Relaxed);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// The duration that this share of all did not exceed, such as the 99th of 100; zero if there
    /// are none. Rounded up to the end of its bucket.
    pub fn percentile(&self, percent: u8) -> Duration {
        let rank = (self.count() * u64::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        for (index, bucket) in self.0.iter().enumerate() {
            seen += bucket.load(Relaxed);
            if seen >= rank {
                return Duration::from_micros(end(index));
            }
        }
        Duration::ZERO
    }
}

/// Sixteen buckets for each doubling.
fn bucket(micros: u64) -> usize {
    let doublings = (micros | STEPS).ilog2() - STEPS.ilog2();
    let index = u64::from(doublings) * STEPS + (micros >> doublings);
    usize::try_from(index).unwrap_or(usize::MAX).min(BUCKETS - 1)
}

/// The largest number of microseconds in a bucket.
fn end(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let doublings = index / STEPS - 1;
    ((index % STEPS + STEPS + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_most_seven_percent_above_what_it_holds() {
        for micros in (0..100_000).chain([1_000_000, 30_000_000, 86_400_000_000]) {
            let end = end(bucket(micros));
            assert!(micros <= end && end <= micros + micros / 14, "{micros} {end}");
        }
    }

    #[test]
    fn a_percentile_is_what_its_share_did_not_exceed() {
        let latency = Latency::default();
        assert_eq!(latency.percentile(99), Duration::ZERO);
        (1..=100).for_each(|n| latency.add(Duration::from_micros(n)));
        assert_eq!(latency.count(), 100);
        assert_eq!(latency.percentile(10), Duration::from_micros(10));
        assert!((99..=107).contains(&latency.percentile(99).as_micros()));
    }
}
