//! `stripe-guard attempts`.

use clap::Args;
use serde_json::json;
use stripe_guard::store::{AttemptRecord, DeliveryRecord};
use stripe_guard_core::Timestamp;

use super::{human, inbox, page, shown};
use crate::cli::Global;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::{Output, escape, table};

/// Shows every attempt at a delivery, or at all deliveries of an event.
#[derive(Args, Debug)]
pub(crate) struct Attempts {
    /// The number of a delivery, or the id of an event
    #[arg(value_name = "ID")]
    id: String,
    /// Only to this destination
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,
}

impl Attempts {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let (found, now) = inbox::with(global, environment, async |inbox| {
            let mut found = Vec::new();
            for delivery in inbox.deliveries(&self.id, self.destination.as_deref()).await? {
                let attempts = inbox.store.attempts(delivery.id).await?;
                found.push((delivery, attempts));
            }
            Ok((found, inbox.now))
        })?;
        let list: Vec<_> = found
            .iter()
            .map(|(delivery, attempts)| {
                let mut value = shown::delivery(delivery);
                value["attempt_records"] = attempts.iter().map(|one| shown::attempt(delivery.id, one)).collect();
                value
            })
            .collect();
        output.answer(&json!({ "deliveries": list }), || {
            found.iter().map(|(delivery, attempts)| as_text(delivery, attempts, now)).collect::<Vec<_>>().join("\n")
        });
        Ok(())
    }
}

fn as_text(delivery: &DeliveryRecord, attempts: &[AttemptRecord], now: Timestamp) -> String {
    let class = delivery.state.class().map_or_else(String::new, |class| format!(" ({class})"));
    let due = delivery.state.due_at().map_or_else(String::new, |at| format!(", next {}", human::ago(now, at)));
    let mut text = format!(
        "delivery {} of {} to {}: {}{class}{due}\n",
        delivery.id,
        escape(&delivery.key),
        escape(&delivery.destination),
        delivery.state.name(),
    );
    if attempts.is_empty() {
        text.push_str("No attempts yet.\n");
        return text;
    }
    let mut rows =
        vec![page::heads(&["ROUND", "ATTEMPT", "STARTED", "AGE", "TOOK", "OUTCOME", "STATUS", "ERROR OR ANSWER"])];
    rows.extend(attempts.iter().map(|attempt| {
        let said: Vec<_> = [&attempt.error, &attempt.excerpt].into_iter().flatten().map(String::as_str).collect();
        let said = (!said.is_empty()).then(|| said.join(": "));
        vec![
            attempt.round.to_string(),
            attempt.number.to_string(),
            human::time(attempt.started_at),
            human::ago(now, attempt.started_at),
            human::or_dash(attempt.duration.map(human::span)),
            attempt.outcome.to_string(),
            human::or_dash(attempt.status),
            human::shortened(&human::or_dash(said), 100),
        ]
    }));
    text + &table(&rows)
}
