//! What the tests that stand on these clusters rely on.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stripe_guard_test_postgres::{Cluster, Pooler, Stop, TlsFiles, as_server_user, binary, database};

/// Says which part another process of this file plays.
const PART: &str = "STRIPE_GUARD_TEST_PART";

/// This file's program once more, as one that has servers and can be killed.
struct Other {
    process: Child,
    said: String,
}

impl Other {
    fn spawn(part: &str, folder: &Path) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["another_process", "--exact", "--ignored", "--nocapture"]).env(PART, part).env("TMPDIR", folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn listen(mut process: Child) -> Self {
        let output = process.stdout.take().unwrap();
        let mut lines = BufReader::new(output).lines().map(Result::unwrap);
        let said = lines.find_map(|line| line.split_once("here: ").map(|(_, said)| said.to_owned())).unwrap();
        Self { process, said }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
#[ignore = "a part of other tests"]
fn another_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let (cluster, shared, pooler);
    if part == "shared" {
        shared = database();
        shared.psql("create table mine (number int)");
        println!("here: {} {}", shared.port(), shared.name());
    } else {
        cluster = Cluster::start(&[]);
        pooler = Pooler::start(cluster.port(), "session");
        println!("here: {} {}", cluster.port(), pooler.port());
    }
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// A place where nobody else's servers are.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn listens(port: &str) -> bool {
    TcpStream::connect(("127.0.0.1", port.parse().unwrap())).is_ok()
}

/// Neither a port is served nor a server's folder left, some seconds from now.
#[track_caller]
fn ends(folder: &Path, ports: &[&str]) {
    let is_gone = || {
        let mut inner =
            std::fs::read_dir(folder).unwrap().flat_map(|base| std::fs::read_dir(base.unwrap().path()).unwrap());
        let left = inner.any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with("server-"));
        !left && !ports.iter().any(|port| listens(port))
    };
    assert!(
        (0..150).any(|_| is_gone() || {
            std::thread::sleep(Duration::from_millis(100));
            false
        }),
        "it goes on"
    );
}

#[test]
fn processes_share_one_server_with_a_database_for_each_and_it_ends_after_the_last() {
    let folder = folder();
    let others = [(); 2].map(|()| Other::spawn("shared", folder.path())).map(Other::listen);
    let [(port, name), (other_port, other_name)] = [0, 1].map(|n: usize| others[n].said.split_once(' ').unwrap());
    assert_eq!(port, other_port);
    assert_ne!(name, other_name);
    let port = port.to_owned();
    for other in others {
        assert!(listens(&port));
        other.kill();
    }
    ends(folder.path(), &[&port]);
}

#[test]
fn a_database_is_empty_and_durable() {
    let database = database();
    assert_eq!(database.psql("select count(*) from pg_class where relnamespace = 'public'::regnamespace"), "0");
    assert_eq!(database.psql("show fsync; show full_page_writes; show synchronous_commit"), "on\non\non");
    assert_eq!(database.psql("select current_database()"), database.name());
    assert!(database.try_psql("select nothing").unwrap_err().contains("nothing"));
}

#[test]
fn a_killed_process_leaves_no_server_of_its_own() {
    let folder = folder();
    let other = Other::listen(Other::spawn("own", folder.path()));
    let said = other.said.clone();
    let ports: Vec<&str> = said.split(' ').collect();
    assert!(ports.iter().all(|port| listens(port)));
    other.kill();
    ends(folder.path(), &ports);
}

#[test]
fn an_immediate_stop_keeps_what_was_committed_and_the_address() {
    let cluster = Cluster::start(&[("work_mem", "5MB")]);
    let (url, pid) = (cluster.create_database("app"), cluster.pid());
    cluster.psql("app", "create table kept (number int); insert into kept values (7)");
    cluster.stop(Stop::Immediate);
    assert!(cluster.try_psql("app", "select 1").is_err());
    cluster.start_again();
    assert_eq!(cluster.psql("app", "select number from kept; show work_mem"), "7\n5MB");
    assert_eq!(cluster.url("app"), url);
    assert_ne!(cluster.pid(), pid);
    assert!(cluster.log().contains("was not properly shut down"));
}

#[test]
fn a_server_that_was_killed_or_suspended_starts_again() {
    let cluster = Cluster::start(&[]);
    cluster.psql("postgres", "create table kept (number int); insert into kept values (7)");
    for signal in ["KILL", "STOP"] {
        let kill = format!("kill -s {signal} {}", cluster.pid());
        assert!(as_server_user(&binary("sh")).args(["-c", &kill]).status().unwrap().success());
        cluster.restart();
        assert_eq!(cluster.psql("postgres", "select number from kept"), "7");
    }
}

#[test]
fn settings_hold_for_the_next_session_and_over_a_restart() {
    let cluster = Cluster::start(&[]);
    for value in ["7s", "8s"] {
        cluster.set(&[("statement_timeout", value)]);
        assert_eq!(cluster.psql("postgres", "show statement_timeout"), value);
    }
    cluster.restart();
    assert_eq!(cluster.psql("postgres", "show statement_timeout"), "8s");
}

#[test]
fn a_standby_streams_and_is_promoted() {
    let primary = Cluster::start(&[]);
    let standby = primary.standby("second");
    primary.set(&[("synchronous_standby_names", "second"), ("synchronous_commit", "remote_apply")]);
    primary.psql("postgres", "create table kept (number int); insert into kept values (7)");
    assert_eq!(standby.psql("postgres", "select number from kept"), "7");
    assert!(standby.try_psql("postgres", "insert into kept values (8)").is_err());
    primary.stop(Stop::Immediate);
    standby.promote();
    assert_eq!(standby.psql("postgres", "insert into kept values (8); select number from kept"), "7\n8");
}

/// Whether a client that is connected all the time gets another's server connection in between.
fn shares_connections(mode: &str) -> bool {
    let cluster = Cluster::start(&[]);
    let pooler = Pooler::start(cluster.port(), mode);
    let url = pooler.url("postgres");
    let client = |database: &str| {
        let mut psql = Command::new(binary("psql"));
        psql.args(["-XqAt", "-d", database]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = psql.spawn().unwrap();
        let mut ask = psql.stdin.take().unwrap();
        let mut answers = BufReader::new(psql.stdout.take().unwrap()).lines();
        ask.write_all(b"select pg_backend_pid();\n").unwrap();
        let backend = answers.next().unwrap().unwrap();
        (psql, ask, backend)
    };
    let ((mut first, asks, backend), (mut second, asks_too, backend_too)) = (client(&url), client(&url));
    drop((asks, asks_too));
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    assert!(pooler.log().contains("login attempt"), "{}", pooler.log());
    backend == backend_too
}

#[test]
fn a_pooler_shares_connections_between_transactions_in_its_mode_alone() {
    assert!(shares_connections("transaction"));
    assert!(!shares_connections("session"));
}

#[test]
fn tls_is_proven_by_the_authority_that_issued_it_alone() {
    let (cluster, TlsFiles { ca, other_ca }) = Cluster::start_with_tls();
    let connect = |host: &str, authority: &Path| {
        let url = format!("{}?sslmode=verify-full&sslrootcert={}", cluster.url("postgres"), authority.display());
        let mut psql = Command::new(binary("psql"));
        psql.args(["-XqAt", "-c", "select ssl from pg_stat_ssl where pid = pg_backend_pid()", "-d"]);
        psql.arg(url.replace("127.0.0.1", host)).output().unwrap()
    };
    for host in ["127.0.0.1", "localhost"] {
        assert_eq!(connect(host, &ca).stdout, b"t\n");
        let refused = connect(host, &other_ca);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains("certificate verify failed"), "{said}");
    }
}
