//! `stripe-guard replay`, `discard` and `retry-now`.

use std::collections::{BTreeMap, HashSet};

use clap::Args;
use serde_json::json;
use stripe_guard::store::{DeliveryRecord, Operated};
use stripe_guard_core::DeliveryId;

use super::dead_letters::Which;
use super::inbox::{self, Inbox};
use super::{human, page};
use crate::cli::Global;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::{Output, table};

/// As many dead letters are moved in one transaction: the server's own wait no longer than for
/// one of these.
const PAGE: u32 = 200;

/// What is done to deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Replay,
    Discard,
    RetryNow,
}

/// What `replay` and `discard` take.
#[derive(Args, Debug)]
pub(crate) struct Many {
    /// The numbers of deliveries, or ids of events for all of theirs
    #[arg(value_name = "ID", required_unless_present = "dead_letters")]
    ids: Vec<String>,
    /// All dead letters instead
    #[arg(long, conflicts_with = "ids")]
    dead_letters: bool,
    #[command(flatten)]
    which: Which,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// With --dead-letters: do it
    #[arg(long, requires = "dead_letters", conflicts_with = "dry_run")]
    yes: bool,
    /// With --dead-letters: only count them
    #[arg(long, requires = "dead_letters")]
    dry_run: bool,
}

/// What `retry-now` takes.
#[derive(Args, Debug)]
pub(crate) struct RetryNow {
    /// The numbers of deliveries, or ids of events for all of theirs
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Only to this destination
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

impl RetryNow {
    /// Runs the command.
    pub(crate) fn run(&self, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let named = Named { ids: &self.ids, destination: self.destination.as_deref(), reason: &self.reason };
        named.run(Verb::RetryNow, global, environment, output)
    }
}

impl Many {
    /// Runs the command.
    pub(crate) fn run(
        &self,
        verb: Verb,
        global: &Global,
        environment: Environment,
        output: Output,
    ) -> Result<(), Failure> {
        if !self.dead_letters {
            if self.which.has_class() {
                return Err(Failure::Usage("--class needs --dead-letters".to_owned()));
            }
            let destination = self.which.destination.as_deref();
            return Named { ids: &self.ids, destination, reason: &self.reason }.run(verb, global, environment, output);
        }
        if !self.yes && !self.dry_run {
            return Err(Failure::Usage("say --dry-run to count the dead letters, or --yes to do it".to_owned()));
        }
        let sum = inbox::with(global, environment, async |inbox| self.dead_letters(verb, inbox).await)?;
        let value =
            json!({ "dry_run": self.dry_run, "matched": sum.matched, "done": sum.done, "by_class": sum.by_class });
        output.answer(&value, || self.as_text(verb, &sum));
        if sum.done == 0 && !self.dry_run { Err(Failure::Answered) } else { Ok(()) }
    }

    async fn dead_letters(&self, verb: Verb, inbox: &Inbox) -> Result<Sum, Failure> {
        let (mut sum, mut before) = (Sum::default(), None);
        loop {
            let found = inbox.store.deliveries(&self.which.filter(before, PAGE)).await?;
            let Some(last) = found.last() else { return Ok(sum) };
            // Each is met once, also when it is given up again meanwhile.
            before = Some(last.id.get());
            for class in found.iter().filter_map(|delivery| delivery.state.class()) {
                *sum.by_class.entry(class.as_str()).or_default() += 1;
            }
            sum.matched += found.len();
            if !self.dry_run {
                let answers = verb.apply(inbox, found.iter().map(|one| one.id).collect(), &self.reason).await?;
                sum.done += answers.iter().filter(|answer| **answer == Operated::Done).count();
            }
        }
    }

    fn as_text(&self, verb: Verb, sum: &Sum) -> String {
        let letters = |number: usize| human::count(number as u64, "dead letter", "dead letters");
        let classes: Vec<_> = sum.by_class.iter().map(|(class, number)| format!("{number} {class}")).collect();
        let classes = if classes.is_empty() { String::new() } else { format!(" ({})", classes.join(", ")) };
        if self.dry_run {
            return format!("{}{classes} would be {}", letters(sum.matched), verb.done());
        }
        let left = sum.matched - sum.done;
        let rest = if left == 0 { String::new() } else { format!("; {left} had moved on meanwhile") };
        format!("{} of {}{classes} {}{rest}", sum.done, letters(sum.matched), verb.done())
    }
}

#[derive(Default)]
struct Sum {
    matched: usize,
    done: usize,
    by_class: BTreeMap<&'static str, u64>,
}

/// Deliveries that a person names.
struct Named<'a> {
    ids: &'a [String],
    destination: Option<&'a str>,
    reason: &'a str,
}

impl Named<'_> {
    fn run(&self, verb: Verb, global: &Global, environment: Environment, output: Output) -> Result<(), Failure> {
        let done = inbox::with(global, environment, async |inbox| {
            // All are looked up first: with one unknown name, nothing is done.
            let mut deliveries: Vec<DeliveryRecord> = Vec::new();
            for id in self.ids {
                deliveries.extend(inbox.deliveries(id, self.destination).await?);
            }
            let mut seen = HashSet::new();
            deliveries.retain(|delivery| seen.insert(delivery.id));
            let answers = verb.apply(inbox, deliveries.iter().map(|one| one.id).collect(), self.reason).await?;
            Ok(deliveries.into_iter().zip(answers).collect::<Vec<_>>())
        })?;
        let list = done.iter().map(|(delivery, answer)| {
            json!({
                "delivery": delivery.id.get(),
                "key": delivery.key,
                "destination": delivery.destination,
                "was": delivery.state.name(),
                "answer": word(*answer),
            })
        });
        let count = done.iter().filter(|(_, answer)| *answer == Operated::Done).count();
        output.answer(&json!({ "deliveries": list.collect::<Vec<_>>(), "done": count }), || as_text(verb, &done));
        if count == 0 { Err(Failure::Answered) } else { Ok(()) }
    }
}

fn word(answer: Operated) -> &'static str {
    match answer {
        Operated::Done => "done",
        Operated::AlreadyOpen => "already_open",
        Operated::NotAllowed => "not_allowed",
        Operated::NotFound => "not_found",
        Operated::BodyGone => "body_gone",
    }
}

fn as_text(verb: Verb, done: &[(DeliveryRecord, Operated)]) -> String {
    let mut rows = vec![page::heads(&["DELIVERY", "KEY", "DESTINATION", "WAS", "ANSWER"])];
    rows.extend(done.iter().map(|(delivery, answer)| {
        let said = match answer {
            Operated::Done => verb.done().to_owned(),
            Operated::AlreadyOpen => {
                format!("still open; to try it at once: stripe-guard retry-now {}", delivery.id)
            }
            Operated::NotAllowed => verb.why_not(delivery).to_owned(),
            Operated::NotFound => "gone".to_owned(),
            Operated::BodyGone => "its body is past its retention and has been removed".to_owned(),
        };
        vec![
            delivery.id.to_string(),
            delivery.key.clone(),
            delivery.destination.clone(),
            delivery.state.name().to_owned(),
            said,
        ]
    }));
    table(&rows)
}

impl Verb {
    async fn apply(self, inbox: &Inbox, ids: Vec<DeliveryId>, reason: &str) -> Result<Vec<Operated>, Failure> {
        let (operator, now) = (inbox.operator(reason), inbox.now);
        Ok(match self {
            Self::Replay => inbox.store.replay(ids, operator, now).await,
            Self::Discard => inbox.store.discard(ids, operator, now).await,
            Self::RetryNow => inbox.store.retry_now(ids, operator, now).await,
        }?)
    }

    fn done(self) -> &'static str {
        match self {
            Self::Replay => "replayed",
            Self::Discard => "discarded",
            Self::RetryNow => "brought forward",
        }
    }

    fn why_not(self, delivery: &DeliveryRecord) -> &'static str {
        match self {
            Self::Replay => "not in this state",
            Self::Discard if delivery.state.name() == "processing" => "a worker holds it now; try again in a moment",
            Self::Discard => "it has ended already",
            Self::RetryNow if delivery.state.is_ended() => "it has ended; stripe-guard replay opens it again",
            Self::RetryNow => "a worker holds it now, or it waits behind another",
        }
    }
}
