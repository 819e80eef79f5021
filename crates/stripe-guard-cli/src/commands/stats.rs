//! `stripe-guard stats`.

use clap::Args;
use serde_json::{Value, json};
use stripe_guard::store::{DestinationStats, RefusalRecord, Stats};
use stripe_guard_core::Timestamp;

use super::{human, inbox, page, shown};
use crate::cli::Global;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::{Output, table};

/// Shows counts and ages: what waits, what was given up, what was refused at the door.
#[derive(Args, Debug)]
pub(crate) struct StatsCommand {}

/// A destination; whether it is configured, where that can be told.
type Row = (DestinationStats, Option<bool>);

impl StatsCommand {
    /// Runs the command.
    #[expect(clippy::unused_self, reason = "a command like the others")]
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let (stats, refusals, names, now) = inbox::with(global, environment, async |inbox| {
            let destinations = inbox.around.destinations.as_ref();
            let names = destinations.map(|all| all.iter().map(|one| one.name.clone()).collect::<Vec<_>>());
            Ok((inbox.store.stats().await?, inbox.store.refusals().await?, names, inbox.now))
        })?;
        let rows = rows(&stats, names.as_deref());
        output.answer(&as_json(&stats, &rows, &refusals, now), || as_text(&stats, &rows, &refusals, now));
        Ok(())
    }
}

/// The destinations of the store and of the configuration, in the order of names.
fn rows(stats: &Stats, names: Option<&[String]>) -> Vec<Row> {
    let configured = |name: &String| names.map(|names| names.contains(name));
    let mut rows: Vec<Row> = stats.destinations.iter().map(|one| (one.clone(), configured(&one.destination))).collect();
    for name in names.unwrap_or_default() {
        if !stats.destinations.iter().any(|one| one.destination == *name) {
            rows.push((DestinationStats { destination: name.clone(), ..DestinationStats::default() }, Some(true)));
        }
    }
    rows.sort_by(|(one, _), (other, _)| one.destination.cmp(&other.destination));
    rows
}

fn as_json(stats: &Stats, rows: &[Row], refusals: &[RefusalRecord], now: Timestamp) -> Value {
    let destinations = rows.iter().map(|(one, configured)| {
        json!({
            "destination": one.destination,
            "configured": configured,
            "received": one.received,
            "processing": one.processing,
            "retryable": one.retryable,
            "dead_letter": one.dead_letter,
            "oldest_open": shown::time(one.oldest_open),
            "oldest_open_seconds": one.oldest_open.map(|at| now.since(at).as_secs()),
            "next_due": shown::time(one.next_due),
        })
    });
    let refusals = refusals.iter().map(|one| {
        json!({
            "source": one.source,
            "reason": one.reason,
            "count": one.count,
            "last_at": shown::time(Some(one.last_at)),
            "skew_seconds": one.skew_seconds,
        })
    });
    json!({
        "last_seq": stats.last_seq,
        "last_received_at": shown::time(stats.last_received_at),
        "destinations": destinations.collect::<Vec<_>>(),
        "refusals": refusals.collect::<Vec<_>>(),
    })
}

fn as_text(stats: &Stats, rows: &[Row], refusals: &[RefusalRecord], now: Timestamp) -> String {
    let last = stats.last_received_at.map_or_else(|| "never".to_owned(), |at| human::when(now, at));
    let mut text = format!("last event received  {last}\nhighest number       {}\n\n", stats.last_seq);
    let mut lines = vec![page::heads(&[
        "DESTINATION",
        "RECEIVED",
        "PROCESSING",
        "RETRYABLE",
        "DEAD",
        "OLDEST OPEN",
        "NEXT DUE",
        "",
    ])];
    lines.extend(rows.iter().map(|(one, configured)| {
        let open = one.received + one.processing + one.retryable;
        let mark = match configured {
            Some(false) if open > 0 => "not configured: put it back, or discard what waits",
            Some(false) => "not configured",
            _ => "",
        };
        vec![
            one.destination.clone(),
            one.received.to_string(),
            one.processing.to_string(),
            one.retryable.to_string(),
            one.dead_letter.to_string(),
            human::or_dash(one.oldest_open.map(|at| human::ago(now, at))),
            human::or_dash(one.next_due.map(|at| human::ago(now, at))),
            mark.to_owned(),
        ]
    }));
    text.push_str(&if rows.is_empty() { "No deliveries wait.\n".to_owned() } else { table(&lines) });
    if refusals.is_empty() {
        text.push_str("\nNothing was refused.\n");
        return text;
    }
    let mut lines = vec![page::heads(&["REFUSED FOR", "SOURCE", "COUNT", "LAST", ""])];
    lines.extend(refusals.iter().map(|one| {
        vec![
            one.reason.clone(),
            if one.source.is_empty() { "-".to_owned() } else { one.source.clone() },
            one.count.to_string(),
            human::when(now, one.last_at),
            one.skew_seconds.map_or_else(String::new, skew),
        ]
    }));
    text + "\n" + &table(&lines)
}

/// What a refused time says of our clock; ours minus theirs.
fn skew(seconds: i64) -> String {
    let about = seconds.unsigned_abs();
    match seconds {
        0.. => format!("this machine's clock is ahead by about {about} s, or the request was that old"),
        _ => format!("this machine's clock is behind by about {about} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skew_is_said_in_words() {
        assert!(skew(360).contains("clock is ahead by about 360 s"));
        assert!(skew(-360).contains("clock is behind by about 360 s"));
    }
}
