//! `stripe-guard events deliver`.

use clap::Args;
use serde_json::json;
use stripe_guard::settings::Destination;
use stripe_guard::store::EventRecord;

use crate::cli::Global;
use crate::commands::human;
use crate::commands::inbox::{self, Inbox};
use crate::config::{Environment, is_name};
use crate::failure::Failure;
use crate::output::{Output, escape};

/// Delivers an event that was kept back as unwanted or quarantined, or that a destination does not
/// have yet. It is noted in the audit log.
#[derive(Args, Debug)]
pub(super) struct Deliver {
    /// The event's id, its key, or the number of its arrival
    #[arg(value_name = "ID")]
    id: String,
    /// To this destination; may be given several times [default: those that take its type, else all that its source feeds]
    #[arg(long, value_name = "DESTINATION")]
    to: Vec<String>,
    /// The source it came through, where there are several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Deliver {
    pub(super) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let (event, destinations, made) = inbox::with(global, environment, async |inbox| {
            let event = self.event(inbox).await?;
            let destinations = self.destinations(inbox.around.destinations.as_deref(), &event)?;
            let operator = inbox.operator(&self.reason);
            let made = inbox.store.deliver(event.seq, destinations.clone(), operator, inbox.now).await?;
            Ok((event, destinations, made))
        })?;
        let value = json!({ "seq": event.seq, "key": event.key, "destinations": destinations, "deliveries": made });
        output.answer(&value, || {
            let (key, to) = (escape(&event.key), destinations.join(", "));
            match made {
                0 => format!("Nothing was done: {to} has {key} already. To send it again: stripe-guard replay {key}"),
                _ => format!("{} of {key} to {to}", human::count(made, "new delivery", "new deliveries")),
            }
        });
        if made == 0 { Err(Failure::Answered) } else { Ok(()) }
    }

    async fn event(&self, inbox: &Inbox) -> Result<EventRecord, Failure> {
        let mut events = inbox.events(&self.id, self.source.as_deref()).await?;
        if events.len() > 1 {
            let sources: Vec<_> = events.iter().map(|event| event.source.as_str()).collect();
            let problem = format!("it came through several sources; choose one with --source: {}", sources.join(", "));
            return Err(Failure::Usage(problem));
        }
        Ok(events.remove(0))
    }

    /// Where to, by name.
    fn destinations(&self, known: Option<&[Destination]>, event: &EventRecord) -> Result<Vec<String>, Failure> {
        let names = |list: &[&Destination]| list.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        if let Some(bad) = self.to.iter().find(|name| !is_name(name)) {
            return Err(Failure::Usage(format!("--to: {bad} is not the name of a destination")));
        }
        let Some(known) = known else {
            let unknown = "the configuration here does not say which destinations there are; name one with --to";
            return if self.to.is_empty() { Err(Failure::Usage(unknown.to_owned())) } else { Ok(self.to.clone()) };
        };
        if let Some(unknown) = self.to.iter().find(|name| !known.iter().any(|one| one.name == **name)) {
            let all = names(&known.iter().collect::<Vec<_>>()).join(", ");
            return Err(Failure::Usage(format!("--to: {unknown} is not configured; there is: {all}")));
        }
        if !self.to.is_empty() {
            return Ok(self.to.clone());
        }
        let fed: Vec<_> = known.iter().filter(|one| one.takes_source(&event.source)).collect();
        let event_type = event.event_type.as_deref().unwrap_or_default();
        let taking: Vec<_> = fed.iter().copied().filter(|one| one.takes(&event.source, event_type)).collect();
        match (taking.is_empty(), fed.is_empty()) {
            (false, _) => Ok(names(&taking)),
            (true, false) => Ok(names(&fed)),
            (true, true) => {
                let problem = format!("the source {} feeds no destination; name one with --to", event.source);
                Err(Failure::Usage(problem))
            }
        }
    }
}
