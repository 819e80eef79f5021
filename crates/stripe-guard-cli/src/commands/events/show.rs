//! `stripe-guard events show`.

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use stripe_guard::store::{CopyRecord, DeliveryRecord, EventRecord};
use stripe_guard_core::Timestamp;

use crate::cli::Global;
use crate::commands::inbox::{self, Inbox};
use crate::commands::{human, page, shown};
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::{Output, table};

/// Shows an event with its deliveries and copies.
#[derive(Args, Debug)]
pub(super) struct Show {
    /// The event's id, its key, or the number of its arrival
    #[arg(value_name = "ID")]
    id: String,
    /// Only as it came through this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Print the body instead, byte for byte as it was received
    #[arg(long)]
    body: bool,
}

/// An event with all that belongs to it.
struct Shown {
    event: EventRecord,
    deliveries: Vec<(DeliveryRecord, usize)>,
    copies: Vec<CopyRecord>,
    expected_version: Option<String>,
}

impl Show {
    pub(super) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        if self.body {
            let body = inbox::with(global, environment, async |inbox| self.body(inbox).await)?;
            Output::raw(&body);
            return Ok(());
        }
        let (shown, now) = inbox::with(global, environment, async |inbox| Ok((self.gather(inbox).await?, inbox.now)))?;
        let list: Vec<_> = shown.iter().map(as_json).collect();
        output.answer(&json!({ "events": list }), || {
            shown.iter().map(|one| as_text(one, now)).collect::<Vec<_>>().join("\n")
        });
        Ok(())
    }

    async fn body(&self, inbox: &Inbox) -> Result<Vec<u8>, Failure> {
        let events = inbox.events(&self.id, self.source.as_deref()).await?;
        if events.iter().any(|event| event.digest != events[0].digest) {
            let sources: Vec<_> = events.iter().map(|event| event.source.as_str()).collect();
            let problem = format!("its bytes differ by source; choose one with --source: {}", sources.join(", "));
            return Err(Failure::Usage(problem));
        }
        for event in &events {
            if let Some(body) = inbox.store.body(event.seq).await? {
                return Ok(body);
            }
        }
        Err(anyhow!("the body was removed when its retention was over").into())
    }

    async fn gather(&self, inbox: &Inbox) -> Result<Vec<Shown>, Failure> {
        let mut all = Vec::new();
        for event in inbox.events(&self.id, self.source.as_deref()).await? {
            let mut deliveries = Vec::new();
            for delivery in inbox.store.deliveries_of(&event.key).await? {
                let attempts = inbox.store.attempts(delivery.id).await?.len();
                deliveries.push((delivery, attempts));
            }
            let copies = inbox.store.copies(event.seq).await?;
            let expected = inbox.around.api_versions.get(&event.source);
            let expected_version = expected.filter(|version| event.api_version.as_ref() != Some(version)).cloned();
            all.push(Shown { event, deliveries, copies, expected_version });
        }
        Ok(all)
    }
}

fn as_json(shown: &Shown) -> Value {
    let mut value = shown::event(&shown.event);
    let deliveries = shown.deliveries.iter().map(|(delivery, attempts)| {
        let mut value = shown::delivery(delivery);
        value["attempts_recorded"] = json!(attempts);
        value
    });
    value["deliveries"] = deliveries.collect();
    value["copy_records"] = shown.copies.iter().map(|copy| shown::copy(&shown.event, copy)).collect();
    value["expected_api_version"] = json!(shown.expected_version);
    value
}

fn as_text(shown: &Shown, now: Timestamp) -> String {
    let event = &shown.event;
    let mode = event.livemode.map(|live| if live { "live" } else { "test" });
    let mut facts = vec![
        ("event", event.key.clone()),
        ("seq", event.seq.to_string()),
        ("type", human::or_dash(event.event_type.as_deref())),
        ("source", event.source.clone()),
        ("received", human::when(now, event.received_at)),
        ("created", human::or_dash(event.created.map(|at| human::when(now, at)))),
        ("intake", event.intake.to_string()),
        ("origin", event.origin.to_string()),
        ("form", human::or_dash(event.form)),
        ("mode", human::or_dash(mode)),
        ("API version", version(shown)),
        ("secret", human::or_dash(event.secret_label.as_deref())),
        ("SHA-256", event.digest.to_string()),
    ];
    let optional = [
        ("account", &event.account),
        ("context", &event.context),
        ("customer", &event.customer),
        ("object", &event.object_id),
    ];
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    let rows: Vec<_> = facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    table(&rows) + &deliveries(shown, now) + &copies(shown, now)
}

fn version(shown: &Shown) -> String {
    let version = human::or_dash(shown.event.api_version.as_deref());
    match &shown.expected_version {
        Some(expected) => format!("{version} (the source expects {expected})"),
        None => version,
    }
}

fn deliveries(shown: &Shown, now: Timestamp) -> String {
    if shown.deliveries.is_empty() {
        return "\nNo deliveries.\n".to_owned();
    }
    let mut rows = vec![page::heads(&["DELIVERY", "DESTINATION", "STATE", "NEXT", "ROUND", "ATTEMPTS", "LAST ERROR"])];
    rows.extend(shown.deliveries.iter().map(|(delivery, attempts)| {
        let class = delivery.state.class().map_or_else(String::new, |class| format!(" ({class})"));
        // Through two sources a destination gets the first arrival, once.
        let other = delivery.event_seq != shown.event.seq;
        let of = if other { format!(" (as seq {})", delivery.event_seq) } else { String::new() };
        vec![
            delivery.id.to_string(),
            format!("{}{of}", delivery.destination),
            format!("{}{class}", delivery.state.name()),
            human::or_dash(delivery.state.due_at().map(|at| human::ago(now, at))),
            delivery.round.to_string(),
            attempts.to_string(),
            human::shortened(&human::or_dash(delivery.last_error.as_deref()), 80),
        ]
    }));
    format!("\n{}", table(&rows))
}

fn copies(shown: &Shown, now: Timestamp) -> String {
    let event = &shown.event;
    if event.copies == 0 {
        return String::new();
    }
    let mut text =
        format!("\n{}, {} with other bytes\n", human::count(event.copies, "copy", "copies"), event.differing_copies);
    let rows: Vec<_> = shown
        .copies
        .iter()
        .map(|copy| {
            let mark = if copy.digest == event.digest { "same bytes" } else { "BYTES DIFFER" };
            let secret = human::or_dash(copy.secret_label.as_deref());
            vec![
                human::when(now, copy.received_at),
                format!("secret {secret}"),
                mark.to_owned(),
                copy.digest.to_string(),
            ]
        })
        .collect();
    text.push_str(&table(&rows));
    text
}
