//! Empty databases for tests that need nothing special of the server, on one cluster for all of them.
//!
//! The runner gives each test a process of its own, so the cluster is found by a file. Who uses it holds a lock on
//! another, shared, to the end of its process; the cluster's keeper waits for the time when nobody does.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::cluster::Cluster;
use crate::folder::{base, lock, open, unique};
use crate::psql;

/// Durable as the product asks, room for many tests at once, and no checkpoint while they run.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("max_connections", "300"),
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "30min"),
];

/// An empty database of one test's own, on a server that others use as well. It goes with the server.
#[derive(Debug)]
pub struct Database {
    port: u16,
    name: String,
}

impl Database {
    /// The address, as any client takes it.
    pub fn url(&self) -> String {
        psql::url(self.port, &self.name)
    }

    /// The server's address; loopback always.
    pub fn host(&self) -> &'static str {
        "127.0.0.1"
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The database's name, which needs no quotes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the statements one by one and returns their rows, with `|` between columns. Panics when one fails.
    #[track_caller]
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// As [`psql`](Self::psql), with what `psql` says of a failure.
    pub fn try_psql(&self, sql: &str) -> Result<String, String> {
        psql::run(&self.url(), sql)
    }
}

/// An empty new database on the cluster that all tests of this user share; the first one starts it.
pub fn database() -> Database {
    static USED: Mutex<Option<File>> = Mutex::new(None);
    USED.lock().expect("no panic while it was held").get_or_insert_with(|| {
        let users = open(&users());
        users.lock_shared().expect("a lock can be waited for");
        users
    });
    let name = format!("test_{}", unique());
    let found = Shared::find();
    if let Some(port) = found.as_ref().and_then(|shared| shared.create(&name).ok()) {
        return Database { port, name };
    }
    let shared = {
        let _guard = lock("shared");
        // Somebody else may have been quicker; one that was found and did not answer is replaced.
        Shared::find().filter(|now| Some(now) != found.as_ref()).unwrap_or_else(Shared::start)
    };
    let port = shared.create(&name).unwrap_or_else(|error| panic!("the shared PostgreSQL: {error}"));
    Database { port, name }
}

/// The shared cluster as its file tells of it.
#[derive(PartialEq, Eq)]
struct Shared {
    port: u16,
    data: PathBuf,
}

impl Shared {
    fn find() -> Option<Self> {
        let text = std::fs::read_to_string(file()).ok()?;
        let (port, data) = text.trim_end().split_once(' ')?;
        let found = Self { port: port.parse().ok()?, data: data.into() };
        found.data.exists().then_some(found)
    }

    fn start() -> Self {
        crate::binary("flock");
        let cluster = Cluster::start(SETTINGS);
        let shared = Self { port: cluster.port(), data: cluster.data_folder() };
        let unfinished = cluster.folder().join("shared");
        let text = format!("{} {}\n", shared.port, shared.data.display());
        // Whole or not at all: others read it without the lock.
        std::fs::write(&unfinished, text)
            .and_then(|()| std::fs::rename(&unfinished, file()))
            .expect("the temporary folder can be written to");
        cluster.linger(&users());
        shared
    }

    /// Fails when there is no such server, or another on its port.
    fn create(&self, name: &str) -> Result<u16, String> {
        let is_it = format!("select 1 / (current_setting('data_directory') = {})::int", quoted(&self.data));
        // Nobody is ever connected to template0, so nobody stands in the way of the copy.
        psql::run(&psql::url(self.port, "postgres"), &format!("{is_it};\ncreate database {name} template template0;"))?;
        Ok(self.port)
    }
}

fn quoted(path: &Path) -> String {
    psql::quoted(&path.display().to_string())
}

fn file() -> PathBuf {
    base().join("shared")
}

fn users() -> PathBuf {
    base().join("users.lock")
}
