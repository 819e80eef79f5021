//! What is configured, as the running parts look it up. Secrets can be replaced while they run.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use stripe_guard_core::{Envelope, Intake, SigningSecret, intake_of};

use crate::settings::{Destination, Source};

/// Sources and destinations. Lookups are cheap; [`Registry::replace`] swaps the whole.
#[derive(Clone)]
pub struct Registry {
    table: Arc<RwLock<Arc<Table>>>,
}

/// One state of the configuration. A request keeps the one it began with.
pub struct Table {
    by_path: HashMap<String, Arc<SourceEntry>>,
    by_name: HashMap<String, Arc<SourceEntry>>,
    destinations: HashMap<String, Arc<Destination>>,
}

/// A source with the destinations it feeds.
pub struct SourceEntry {
    /// The source.
    pub source: Source,
    fed: Vec<Arc<Destination>>,
    everywhere: Arc<[String]>,
    nowhere: Arc<[String]>,
}

impl SourceEntry {
    /// What becomes of an event at this source's door, and where it goes.
    pub fn route(&self, envelope: Option<&Envelope>) -> (Intake, Arc<[String]>) {
        let destinations =
            envelope.map_or_else(|| self.nowhere.clone(), |envelope| self.wanting(envelope.event_type.as_str()));
        let intake = intake_of(envelope, self.source.mode, &self.source.accounts, !destinations.is_empty());
        (intake, if intake == Intake::Accepted { destinations } else { self.nowhere.clone() })
    }

    fn wanting(&self, event_type: &str) -> Arc<[String]> {
        let wants = |destination: &&Arc<Destination>| destination.types.iter().any(|filter| filter.matches(event_type));
        let count = self.fed.iter().filter(wants).count();
        if count == self.fed.len() {
            return self.everywhere.clone();
        }
        self.fed.iter().filter(wants).map(|destination| destination.name.clone()).collect()
    }
}

impl Registry {
    /// Of a configuration.
    pub fn new(sources: &[Source], destinations: &[Destination]) -> Self {
        Self { table: Arc::new(RwLock::new(Arc::new(Table::new(sources, destinations)))) }
    }

    /// Takes a new configuration from the next lookup on; requests under way keep theirs.
    pub fn replace(&self, sources: &[Source], destinations: &[Destination]) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Table::new(sources, destinations));
    }

    /// The present state.
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Table {
    fn new(sources: &[Source], destinations: &[Destination]) -> Self {
        let destinations: Vec<_> = destinations.iter().cloned().map(Arc::new).collect();
        let entries: Vec<_> = sources
            .iter()
            .map(|source| {
                let fed: Vec<_> = destinations.iter().filter(|one| one.takes_source(&source.name)).cloned().collect();
                let everywhere = fed.iter().map(|destination| destination.name.clone()).collect();
                Arc::new(SourceEntry { source: source.clone(), fed, everywhere, nowhere: Arc::new([]) })
            })
            .collect();
        Self {
            by_path: entries.iter().map(|entry| (entry.source.path.clone(), Arc::clone(entry))).collect(),
            by_name: entries.iter().map(|entry| (entry.source.name.clone(), Arc::clone(entry))).collect(),
            destinations: destinations.iter().map(|one| (one.name.clone(), Arc::clone(one))).collect(),
        }
    }

    /// The source that listens on a path; slashes at its end do not count.
    pub fn source_at(&self, path: &str) -> Option<&Arc<SourceEntry>> {
        self.by_path.get(path.trim_end_matches('/'))
    }

    /// The source of a name.
    pub fn source(&self, name: &str) -> Option<&Arc<SourceEntry>> {
        self.by_name.get(name)
    }

    /// The names of all destinations.
    pub fn destination_names(&self) -> impl Iterator<Item = &str> {
        self.destinations.keys().map(String::as_str)
    }

    /// The destination of a name.
    pub fn destination(&self, name: &str) -> Option<&Arc<Destination>> {
        self.destinations.get(name)
    }

    /// What a delivery is signed with: the destination's own secrets, else those of the event's source.
    pub fn signing_secrets(&self, destination: &str, source: &str) -> Vec<&SigningSecret> {
        let own = self.destination(destination).map_or(&[][..], |destination| &destination.secrets);
        let theirs = self.source(source).map_or(&[][..], |entry| &entry.source.secrets);
        if own.is_empty() { theirs.iter().collect() } else { own.iter().collect() }
    }
}
