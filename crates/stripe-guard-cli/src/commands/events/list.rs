//! `stripe-guard events list`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use stripe_guard::store::{EventFilter, EventRecord};
use stripe_guard_core::{Intake, Timestamp};

use crate::cli::Global;
use crate::commands::{human, inbox, page, shown};
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::{Output, table};

/// Lists events, newest first.
#[derive(Args, Debug)]
pub(super) struct List {
    /// Only events that came through this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Only events of exactly this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only events with this intake
    #[arg(long, value_name = "INTAKE", value_parser = PossibleValuesParser::new(Intake::ALL.iter().map(|one| one.as_str())))]
    intake: Option<String>,
    /// Only events of this connected account
    #[arg(long, value_name = "ACCOUNT")]
    account: Option<String>,
    #[command(flatten)]
    page: page::Page,
}

impl List {
    pub(super) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let intake = self.intake.as_deref().map(str::parse::<Intake>).transpose().map_err(Failure::Usage)?;
        let filter = EventFilter {
            source: self.source.clone(),
            event_type: self.event_type.clone(),
            intake,
            account: self.account.clone(),
            before: self.page.before,
            limit: self.page.limit,
        };
        let (events, now) =
            inbox::with(global, environment, async |inbox| Ok((inbox.store.events(&filter).await?, inbox.now)))?;
        let next = self.page.next(events.len(), events.last().map(|event| event.seq));
        let list: Vec<_> = events.iter().map(shown::event).collect();
        output.answer(&json!({ "events": list, "next_before": next }), || as_text(&events, next, now));
        Ok(())
    }
}

fn as_text(events: &[EventRecord], next: Option<i64>, now: Timestamp) -> String {
    if events.is_empty() {
        return "No events.".to_owned();
    }
    let mut rows = vec![page::heads(&["SEQ", "RECEIVED", "AGE", "SOURCE", "TYPE", "KEY", "INTAKE", "COPIES"])];
    rows.extend(events.iter().map(|event| {
        let mark = if event.differing_copies > 0 { " (bytes differ)" } else { "" };
        vec![
            event.seq.to_string(),
            human::time(event.received_at),
            human::ago(now, event.received_at),
            event.source.clone(),
            human::or_dash(event.event_type.as_deref()),
            event.key.clone(),
            event.intake.to_string(),
            format!("{}{mark}", event.copies),
        ]
    }));
    table(&rows) + &page::more(next)
}
