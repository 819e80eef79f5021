//! The closing account: what went in, what became of it, and whether that adds up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use stripe_guard::store::{DeliveryFilter, EventFilter, PAGE_MAX, Store};
use stripe_guard_core::{Outcome, State};
use stripe_guard_sandbox::Report;

use super::stage::Stage;
use crate::failure::Failure;

/// What the inbox holds at the end, counted row by row.
#[derive(Default)]
struct Held {
    stored: u64,
    copies: u64,
    processed: u64,
    dead: BTreeMap<&'static str, u64>,
    waiting: u64,
    recorded_twice: u64,
}

/// The closing account.
pub(super) struct Account {
    report: Report,
    acknowledged: u64,
    held: Held,
    confirmed: u64,
    confirmed_twice: u64,
    requests_to_app: u64,
    forged: u64,
    forged_refused: u64,
    interrupted: bool,
}

impl Account {
    /// Counts everything.
    pub(super) async fn draw(stage: &Stage, report: Report, interrupted: bool) -> Result<Self, Failure> {
        let held = Held::count(&**stage.engine.store()).await?;
        let successes = stage.app.ledger().successes();
        Ok(Self {
            acknowledged: report
                .statuses
                .iter()
                .filter(|(status, _)| (200..300).contains(*status))
                .map(|(_, n)| n)
                .sum(),
            report,
            held,
            confirmed: successes.len() as u64,
            confirmed_twice: successes.values().filter(|count| **count > 1).count() as u64,
            requests_to_app: stage.app.arrivals(),
            forged: stage.forged.load(Relaxed),
            forged_refused: stage.forged_refused.load(Relaxed),
            interrupted,
        })
    }

    /// Whether each arrival, each event and each success is accounted for, once.
    pub(super) fn adds_up(&self) -> bool {
        self.arrivals_add_up() && self.endings_add_up() && self.successes_add_up() && self.forged == self.forged_refused
    }

    /// A request whose answer was lost may be stored, so there may be as many more.
    fn arrivals_add_up(&self) -> bool {
        let unanswered = self.report.broken + self.report.timed_out;
        (self.acknowledged..=self.acknowledged + unanswered).contains(&(self.held.stored + self.held.copies))
    }

    fn endings_add_up(&self) -> bool {
        let ended = self.held.processed + self.dead();
        self.held.stored == ended + self.held.waiting && (self.interrupted || self.held.waiting == 0)
    }

    fn successes_add_up(&self) -> bool {
        let none_twice = self.confirmed_twice == 0 && self.held.recorded_twice == 0;
        // What was cut off by a stop may be confirmed and not yet recorded.
        none_twice && (self.interrupted || self.confirmed == self.held.processed)
    }

    fn dead(&self) -> u64 {
        self.held.dead.values().sum()
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "event": "account",
            "sent": self.report.sent,
            "acknowledged": self.acknowledged,
            "stored": self.held.stored,
            "copies": self.held.copies,
            "processed": self.held.processed,
            "dead": self.held.dead,
            "waiting": self.held.waiting,
            "requests_to_app": self.requests_to_app,
            "confirmed_by_app": self.confirmed,
            "confirmed_twice": self.confirmed_twice,
            "recorded_twice": self.held.recorded_twice,
            "forged": self.forged,
            "forged_refused": self.forged_refused,
            "interrupted": self.interrupted,
            "adds_up": self.adds_up(),
        })
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |good: bool| if good { "✓" } else { "✗ does not add up" };
        let Held { stored, copies, processed, waiting, recorded_twice, .. } = &self.held;
        let classes: Vec<_> = self.held.dead.iter().map(|(class, count)| format!("{count} {class}")).collect();
        let classes = if classes.is_empty() { String::new() } else { format!(" ({})", classes.join(", ")) };
        let Self { acknowledged, confirmed, confirmed_twice, requests_to_app, forged, forged_refused, .. } = self;
        writeln!(f, "Stripe sent {} requests, of which {acknowledged} were acknowledged", self.report.sent)?;
        writeln!(f, "  = {stored} events stored + {copies} copies  {}", mark(self.arrivals_add_up()))?;
        writeln!(f, "{stored} events stored")?;
        let dead = self.dead();
        writeln!(
            f,
            "  = {processed} processed + {dead} dead letters{classes} + {waiting} waiting  {}",
            mark(self.endings_add_up())
        )?;
        writeln!(
            f,
            "The app was asked {requests_to_app} times and confirmed {confirmed} events, {confirmed_twice} of them twice"
        )?;
        writeln!(
            f,
            "  = {processed} successes recorded, {recorded_twice} of them twice  {}",
            mark(self.successes_add_up())
        )?;
        writeln!(f, "{forged} forgeries\n  = {forged_refused} refused  {}", mark(forged == forged_refused))?;
        match (self.adds_up(), self.interrupted) {
            (true, false) => write!(f, "It adds up."),
            (true, true) => write!(f, "Stopped early; it adds up."),
            (false, _) => write!(f, "It does not add up."),
        }
    }
}

impl Held {
    async fn count(store: &dyn Store) -> Result<Self, Failure> {
        let mut held = Self::default();
        held.count_events(store).await?;
        held.count_deliveries(store).await?;
        Ok(held)
    }

    async fn count_events(&mut self, store: &dyn Store) -> Result<(), Failure> {
        let mut filter = EventFilter { limit: PAGE_MAX, ..EventFilter::default() };
        loop {
            let page = store.events(&filter).await?;
            let Some(last) = page.last() else { return Ok(()) };
            filter.before = Some(last.seq);
            self.stored += page.len() as u64;
            self.copies += page.iter().map(|event| u64::try_from(event.copies).unwrap_or(0)).sum::<u64>();
        }
    }

    async fn count_deliveries(&mut self, store: &dyn Store) -> Result<(), Failure> {
        let mut filter = DeliveryFilter { limit: PAGE_MAX, ..DeliveryFilter::default() };
        loop {
            let page = store.deliveries(&filter).await?;
            let Some(last) = page.last() else { return Ok(()) };
            filter.before = Some(last.id.get());
            for delivery in &page {
                match delivery.state {
                    State::Processed => self.processed += 1,
                    State::DeadLetter { class } => *self.dead.entry(class.as_str()).or_default() += 1,
                    _ => self.waiting += 1,
                }
                let attempts = store.attempts(delivery.id).await?;
                let successes = attempts.iter().filter(|attempt| attempt.outcome == Outcome::Delivered).count();
                self.recorded_twice += u64::from(successes > 1);
            }
        }
    }
}
