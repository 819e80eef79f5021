//! `stripe-guard dead-letters`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use stripe_guard::store::{DeliveryFilter, DeliveryRecord};
use stripe_guard_core::{DeadLetterClass, Timestamp};

use super::{human, inbox, page, shown};
use crate::cli::Global;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::{Output, table};

/// Which dead letters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Which {
    /// Only dead letters of this class
    #[arg(long, value_name = "CLASS", value_parser = PossibleValuesParser::new(DeadLetterClass::ALL.iter().map(|one| one.as_str())))]
    class: Option<String>,
    /// Only deliveries to this destination
    #[arg(long, value_name = "NAME")]
    pub(crate) destination: Option<String>,
}

impl Which {
    /// A page of them, newest first.
    pub(crate) fn filter(&self, before: Option<i64>, limit: u32) -> DeliveryFilter {
        DeliveryFilter {
            state: Some("dead_letter".to_owned()),
            destination: self.destination.clone(),
            class: self.class.clone(),
            before,
            limit,
        }
    }

    /// Whether a class is asked for.
    pub(crate) fn has_class(&self) -> bool {
        self.class.is_some()
    }
}

/// Lists the deliveries that were given up, newest first, with the reason.
#[derive(Args, Debug)]
pub(crate) struct DeadLetters {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    page: page::Page,
}

/// A dead letter, with what its attempts say.
struct Dead {
    delivery: DeliveryRecord,
    attempts: usize,
    last_attempt_at: Option<Timestamp>,
}

impl DeadLetters {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let filter = self.which.filter(self.page.before, self.page.limit);
        let (found, now) = inbox::with(global, environment, async |inbox| {
            let mut found: Vec<Dead> = Vec::new();
            for delivery in inbox.store.deliveries(&filter).await? {
                let attempts = inbox.store.attempts(delivery.id).await?;
                let last_attempt_at = attempts.last().map(|attempt| attempt.started_at);
                found.push(Dead { delivery, attempts: attempts.len(), last_attempt_at });
            }
            Ok((found, inbox.now))
        })?;
        let next = self.page.next(found.len(), found.last().map(|dead| dead.delivery.id.get()));
        let list: Vec<_> = found
            .iter()
            .map(|dead| {
                let mut value = shown::delivery(&dead.delivery);
                value["attempts_recorded"] = json!(dead.attempts);
                value["last_attempt_at"] = shown::time(dead.last_attempt_at);
                value
            })
            .collect();
        output.answer(&json!({ "dead_letters": list, "next_before": next }), || as_text(&found, next, now));
        Ok(())
    }
}

fn as_text(found: &[Dead], next: Option<i64>, now: Timestamp) -> String {
    if found.is_empty() {
        return "No dead letters.".to_owned();
    }
    let mut rows =
        vec![page::heads(&["DELIVERY", "DESTINATION", "TYPE", "KEY", "CLASS", "GIVEN UP", "ATTEMPTS", "LAST ERROR"])];
    rows.extend(found.iter().map(|Dead { delivery, attempts, last_attempt_at }| {
        vec![
            delivery.id.to_string(),
            delivery.destination.clone(),
            human::or_dash(delivery.event_type.as_deref()),
            delivery.key.clone(),
            human::or_dash(delivery.state.class()),
            human::ago(now, last_attempt_at.unwrap_or(delivery.round_started_at)),
            attempts.to_string(),
            human::shortened(&human::or_dash(delivery.last_error.as_deref()), 80),
        ]
    }));
    table(&rows) + &page::more(next)
}
