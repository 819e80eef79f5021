//! The pretend app: receives what is delivered, verifies it as Stripe's libraries do, and answers
//! as it is told to.

mod answer;
mod arrival;
mod behaviour;
mod connection;
mod gauge;
mod options;
mod records;
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::arrival::{Arrival, BODY_BYTES_MAX};
pub use self::behaviour::{Behaviour, Reply, Script};
pub use self::options::{ARRIVALS_KEPT, AppOptions};
use self::records::Records;
use crate::ledger::Ledger;

/// A pretend app, listening on 127.0.0.1 until it is stopped or dropped.
#[derive(Debug)]
pub struct App {
    records: Arc<Records>,
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl App {
    /// Starts an app. It needs a tokio runtime to live in.
    pub async fn start(options: AppOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let records = Arc::new(Records::new(options)?);
        let (stop, tasks) = listen(listener, &records);
        Ok(Self { records, address, stop, tasks })
    }

    /// Stops as a killed app does: connections are closed at once, requests in flight get no
    /// answer, and the port is free when this returns. What it has recorded can still be read.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Comes back after a stop, on the same port and with its records.
    pub async fn start_again(&mut self) -> io::Result<()> {
        self.stop().await;
        let listener = TcpListener::bind(self.address).await?;
        (self.stop, self.tasks) = listen(listener, &self.records);
        Ok(())
    }

    /// Where to deliver to. Every path of the app does the same.
    pub fn url(&self) -> String {
        format!("http://{}/webhooks", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From the next request on it behaves like this.
    pub fn set_behaviour(&self, script: impl Into<Script>) {
        self.records.set_script(script.into());
    }

    /// The requests that it has read and kept, in the order of reading.
    pub fn requests(&self) -> Vec<Arc<Arrival>> {
        self.records.seen().arrivals.iter().cloned().collect()
    }

    /// How many requests it has read.
    pub fn arrivals(&self) -> u64 {
        self.records.seen().all
    }

    /// How many requests with this event it has read, refused ones left out.
    pub fn arrivals_of(&self, event_id: &str) -> u32 {
        self.records.seen().by_event.get(event_id).copied().unwrap_or(0)
    }

    /// How many times it answered 2xx to this event: how often the effect took place.
    pub fn successes_of(&self, event_id: &str) -> u32 {
        self.records.ledger.successes_of(event_id)
    }

    /// What it answered. An answer is noted just before it is sent.
    pub fn ledger(&self) -> &Ledger {
        &self.records.ledger
    }

    /// The most requests that were in flight at once: from their head until their answer was out.
    pub fn max_in_flight(&self) -> usize {
        self.records.in_flight.most()
    }

    /// How many requests are in flight now.
    pub fn in_flight(&self) -> usize {
        self.records.in_flight.now()
    }

    /// How many TCP connections it has accepted.
    pub fn connections(&self) -> u64 {
        self.records.accepted.load(SeqCst)
    }

    /// How many TCP connections are open now.
    pub fn open_connections(&self) -> usize {
        self.records.open.now()
    }

    /// Waits until `condition` holds, looking whenever a number here has changed; false if it does not hold within `limit`.
    pub async fn wait_until(&self, limit: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let wait = async {
            loop {
                let changed = self.records.changed.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok() || condition(self)
    }

    /// Waits until it has read so many requests; false if they do not come within `limit`.
    pub async fn wait_for_requests(&self, count: u64, limit: Duration) -> bool {
        self.wait_until(limit, |app| app.arrivals() >= count).await
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn listen(listener: TcpListener, records: &Arc<Records>) -> (CancellationToken, TaskTracker) {
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    tasks.spawn(server::accept(listener, Arc::clone(records), stop.clone(), tasks.clone()));
    (stop, tasks)
}
