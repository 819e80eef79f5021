//! A cluster of a test's own: stopped, restarted, followed and promoted at will.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::folder::{Folder, Port, base, lock, open, unique};
use crate::keeper::{Keeper, is_dead};
use crate::programs::{as_server_user, binary, installation, run};
use crate::psql;

/// Nothing but loopback, and little memory. What durability rests on stays as PostgreSQL has it: on.
const SETTINGS: &[(&str, &str)] =
    &[("listen_addresses", "127.0.0.1"), ("unix_socket_directories", ""), ("shared_buffers", "32MB")];

/// How often a start is tried while a killed server's processes are still on their way out.
const STARTS_MAX: u32 = 100;

/// How to stop a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ends sessions, writes a checkpoint, leaves.
    Fast,
    /// Leaves at once; the next start recovers from the log, as after a crash.
    Immediate,
}

/// A running server with a folder and a port of its own. Dropped, it is gone, and so is the folder.
#[derive(Debug)]
#[must_use = "a cluster that is dropped is gone"]
pub struct Cluster {
    // First, so that the server is gone before the port is anybody's.
    keeper: Keeper,
    port: Port,
    folder: PathBuf,
    pid: Mutex<u32>,
}

impl Cluster {
    /// Starts a new cluster with these settings on top of PostgreSQL's defaults.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        Self::prepare(copy_template, settings, |_| ())
    }

    /// `fill` makes the data folder, and `add` what the server needs beside it, with the server's folder as argument.
    pub(crate) fn prepare(fill: impl FnOnce(&Path), settings: &[(&str, &str)], add: impl FnOnce(&Path)) -> Self {
        let (folder, port) = (Folder::new(), Port::free());
        let data = folder.path().join("data");
        let server = [binary("postgres").into(), "-D".into(), data.clone().into()];
        let keeper = Keeper::new(&folder, "QUIT", &server);
        fill(&data);
        add(folder.path());
        let cluster = Self { keeper, port, folder: folder.into_path(), pid: Mutex::new(0) };
        cluster.append(SETTINGS);
        cluster.append(&[("port", &cluster.port().to_string())]);
        cluster.append(settings);
        cluster.start_again();
        cluster
    }

    /// The address of a database in it; the same over restarts.
    pub fn url(&self, database: &str) -> String {
        psql::url(self.port(), database)
    }

    /// The port on 127.0.0.1; the same over restarts.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The server's first process, as it was started last.
    pub fn pid(&self) -> u32 {
        *self.pid.lock().expect("no panic while it was held")
    }

    /// The data folder. Its files belong to the user that servers run as.
    pub fn data_folder(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Everything that the server wrote to its log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.join("log")).unwrap_or_default()).into_owned()
    }

    /// Makes an empty database and returns its address.
    pub fn create_database(&self, name: &str) -> String {
        self.psql("postgres", &format!("create database \"{name}\" template template0"));
        self.url(name)
    }

    /// Runs the statements one by one and returns their rows, with `|` between columns. Panics when one fails.
    #[track_caller]
    pub fn psql(&self, database: &str, sql: &str) -> String {
        self.try_psql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// As [`psql`](Self::psql), with what `psql` says of a failure.
    pub fn try_psql(&self, database: &str, sql: &str) -> Result<String, String> {
        psql::run(&self.url(database), sql)
    }

    /// Returns when no process of the server is left. Fine with a server that is stopped or was killed.
    pub fn stop(&self, how: Stop) {
        self.keeper.stop(match how {
            Stop::Fast => "INT",
            Stop::Immediate => "QUIT",
        });
    }

    /// Starts the stopped server on its old port and folder; returns when it takes connections.
    pub fn start_again(&self) {
        for _ in 0..STARTS_MAX {
            let logged = self.log().len();
            let pid = self.keeper.start();
            *self.pid.lock().expect("no panic while it was held") = pid;
            let started = crate::await_some(&format!("PostgreSQL starts, {}", self.folder.display()), || {
                if self.takes_connections(pid) { Some(true) } else { is_dead(pid).then_some(false) }
            });
            if started {
                return;
            }
            self.stop(Stop::Immediate);
            let log = self.log().split_off(logged);
            // Processes of a killed server notice by themselves that they have to go.
            assert!(log.contains("is still in use"), "PostgreSQL did not start:\n{log}");
            std::thread::sleep(crate::PAUSE * 10);
        }
        panic!("PostgreSQL did not start: the old server's processes stay\n{}", self.log());
    }

    /// Stops fast and starts again, which takes up settings that a reload does not.
    pub fn restart(&self) {
        self.stop(Stop::Fast);
        self.start_again();
    }

    /// Changes settings, and reloads a server that runs: sessions that begin from now on have them. Some settings take
    /// a [`restart`](Self::restart); `synchronous_standby_names` comes after [`standby`](Self::standby), since it
    /// holds up every commit until there is one.
    pub fn set(&self, settings: &[(&str, &str)]) {
        self.append(settings);
        let loaded = "select pg_conf_load_time()";
        let Ok(before) = self.try_psql("postgres", loaded) else { return };
        self.psql("postgres", "select pg_reload_conf()");
        // A session has what the server had read when the session began.
        crate::await_some("the settings are read", || (self.psql("postgres", loaded) != before).then_some(()));
    }

    /// A standby of this cluster, under this name in `synchronous_standby_names`; returns when it streams.
    pub fn standby(&self, name: &str) -> Self {
        let source = format!("host=127.0.0.1 port={} user={} application_name={name}", self.port(), crate::USER);
        let copy = |data: &Path| {
            let mut copy = as_server_user(&binary("pg_basebackup"));
            run(copy.args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", &source, "-D"]).arg(data));
        };
        // The copied settings would have it wait for standbys of its own once it is promoted.
        let standby = Self::prepare(copy, &[("synchronous_standby_names", "")], |_| ());
        let state = format!("select state from pg_stat_replication where application_name = {}", psql::quoted(name));
        crate::await_some(&format!("{name} streams"), || (self.psql("postgres", &state) == "streaming").then_some(()));
        standby
    }

    /// Makes a standby the primary of a cluster of its own; returns when it takes writes.
    pub fn promote(&self) {
        assert_eq!(self.psql("postgres", "select pg_promote()"), "t", "the standby was promoted");
    }

    /// Lets the server outlive this process, for as long as the file has users.
    pub(crate) fn linger(self, users: &Path) {
        self.keeper.linger(users);
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The server's own word, as `pg_ctl` reads it: the file's first line is the process and its eighth the state.
    fn takes_connections(&self, pid: u32) -> bool {
        let text = std::fs::read_to_string(self.data_folder().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        lines.next() == Some(&pid.to_string()) && matches!(lines.nth(6), Some("ready" | "standby"))
    }

    fn append(&self, settings: &[(&str, &str)]) {
        use std::io::Write as _;
        let mut text = String::new();
        for (name, value) in settings {
            writeln!(text, "{name} = {}", psql::quoted(value)).expect("a string takes every line");
        }
        let mut file = open(&self.data_folder().join("postgresql.conf"));
        file.write_all(text.as_bytes()).expect("the settings can be written");
    }
}

/// Copies a cluster that was made once and never ran: a tenth of what making one takes.
pub(crate) fn copy_template(data: &Path) {
    let template = base().join(format!("template-{}", installation()));
    if !template.exists() {
        let _guard = lock("template");
        if !template.exists() {
            make_template(&template);
        }
    }
    run(as_server_user(&binary("cp")).arg("-a").arg(&template).arg(data));
}

/// Written without a flush: the tests kill servers, not the machine.
fn make_template(template: &Path) {
    let unfinished = base().join(format!("unfinished-{}", unique()));
    let mut initdb = as_server_user(&binary("initdb"));
    initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", crate::USER, "-D"]);
    run(initdb.arg(&unfinished));
    std::fs::rename(&unfinished, template).expect("a folder can be renamed");
}
