//! Wake-ups inside the process: a fresh event waits for no poll.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// One bell for each destination. A lost ring costs one poll interval and nothing else.
#[derive(Clone, Default)]
pub struct Wakers {
    bells: Arc<HashMap<String, Arc<Notify>>>,
}

impl Wakers {
    /// Bells for these destinations.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        Self { bells: Arc::new(names.into_iter().map(|name| (name.to_owned(), Arc::default())).collect()) }
    }

    /// Rings for a destination, if it has a worker here.
    pub fn wake(&self, destination: &str) {
        if let Some(bell) = self.bells.get(destination) {
            bell.notify_one();
        }
    }

    /// The bell of a destination.
    pub fn bell(&self, destination: &str) -> Arc<Notify> {
        self.bells.get(destination).cloned().unwrap_or_default()
    }
}
