//! The inbox as the commands find it: opened beside a running server, or without one.

use std::sync::Arc;

use anyhow::Context as _;
use stripe_guard::store::{DeliveryRecord, EventRecord, Operator, Store};
use stripe_guard_core::{DeliveryId, Timestamp};

use crate::cli::Global;
use crate::clock;
use crate::config::{self, Environment, Inputs, Surroundings};
use crate::failure::Failure;

/// An open inbox, and what a command needs beside it.
pub(crate) struct Inbox {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// What is configured round it.
    pub(crate) around: Surroundings,
    /// When the command began.
    pub(crate) now: Timestamp,
    actor: String,
}

/// Opens the inbox, does the work, and closes it.
pub(crate) fn with<T>(
    global: &Global,
    environment: Environment,
    work: impl AsyncFnOnce(&Inbox) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let actor = format!("cli:{}", user(&environment));
    let around = config::surroundings(&Inputs { flags: global.flags(), environment })?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        let opened = stripe_guard::open(&around.database, false, false).await?;
        let inbox = Inbox { store: Arc::clone(&opened.store), around, now: clock::now(), actor };
        let answer = work(&inbox).await;
        inbox.store.close().await;
        answer
    })
}

fn user(environment: &Environment) -> String {
    let named = |name| environment.setting(name).ok().flatten().map(str::to_owned);
    named("USER").or_else(|| named("LOGNAME")).unwrap_or_else(|| "unknown".to_owned())
}

impl Inbox {
    /// Who does what is done now, and why.
    pub(crate) fn operator(&self, reason: &str) -> Operator {
        Operator { actor: self.actor.clone(), reason: reason.to_owned() }
    }

    /// The events that a person names by id, key or arrival number: one for each source that it
    /// came through. An id goes over a number.
    pub(crate) async fn events(&self, name: &str, source: Option<&str>) -> Result<Vec<EventRecord>, Failure> {
        let mut found = self.store.events_by_key(name).await?;
        if found.is_empty()
            && let Ok(seq) = name.parse::<i64>()
        {
            found.extend(self.store.event(seq).await?);
        }
        found.retain(|event| source.is_none_or(|source| event.source == source));
        if found.is_empty() { Err(Failure::NotFound(no_such_event(name, source))) } else { Ok(found) }
    }

    /// The deliveries that a person names by their own number, or by their event's id.
    pub(crate) async fn deliveries(
        &self,
        name: &str,
        destination: Option<&str>,
    ) -> Result<Vec<DeliveryRecord>, Failure> {
        let mut found = self.store.deliveries_of(name).await?;
        let is_known = !found.is_empty() || !self.store.events_by_key(name).await?.is_empty();
        if !is_known && let Ok(number) = name.parse() {
            found.extend(self.store.delivery(DeliveryId::new(number)).await?);
        }
        found.retain(|delivery| destination.is_none_or(|wanted| delivery.destination == wanted));
        if !found.is_empty() {
            return Ok(found);
        }
        let place = destination.map_or_else(String::new, |name| format!(" to {name}"));
        Err(Failure::NotFound(if is_known {
            format!("the event {name} has no delivery{place}; stripe-guard events deliver {name} makes one")
        } else {
            format!("no delivery{place} has the number or event id {name}")
        }))
    }
}

fn no_such_event(name: &str, source: Option<&str>) -> String {
    match source {
        Some(source) => format!("no event that came through {source} has the id, key or number {name}"),
        None => format!("no event has the id, key or number {name}"),
    }
}
