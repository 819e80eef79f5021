//! The real binary in a folder of its own, at addresses that stay over its restarts.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use stripe_guard_core::SigningSecret;
use stripe_guard_sandbox::{App, DEMO_SECRET, Rng, Sender};
use tokio::time::Instant;

/// Nothing that is waited for takes longer, or the drill fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How long a claim lasts in a drill: the least that the time-out of one second allows.
pub(crate) const LEASE: Duration = Duration::from_secs(6);

/// No wait for a retry is longer, spread included.
pub(crate) const RETRY_MAX: Duration = Duration::from_millis(600);

/// Connections come from higher ports; one from ours would keep a restart from listening.
const PORTS: std::ops::Range<u64> = 12_000..32_000;

pub(crate) fn secret() -> SigningSecret {
    SigningSecret::parse(DEMO_SECRET).unwrap()
}

/// A folder with a configuration.
pub(crate) struct Folder {
    dir: tempfile::TempDir,
    listen: u16,
    admin: u16,
}

impl Folder {
    /// One that delivers to `app`, with short time-outs so that a lost lease is soon over.
    pub(crate) fn for_app(app: &App) -> Self {
        Self::with_times(app, "1s", LEASE, "3s")
    }

    /// One whose app may take as long as it may by default.
    pub(crate) fn for_patient(app: &App) -> Self {
        Self::with_times(app, "30s", Duration::from_secs(45), "25s")
    }

    fn with_times(app: &App, timeout: &str, lease: Duration, grace: &str) -> Self {
        let folder = Self { dir: tempfile::tempdir().unwrap(), listen: free_port(), admin: free_port() };
        let Self { listen, admin, .. } = &folder;
        let (url, lease) = (app.url(), lease.as_secs());
        let config = format!(
            "listen = \"127.0.0.1:{listen}\"\nadmin.listen = \"127.0.0.1:{admin}\"\n\
             sources.stripe.secrets = [\"{DEMO_SECRET}\"]\n\
             [destinations.app]\nurl = \"{url}\"\ntimeout = \"{timeout}\"\nconnect_timeout = \"1s\"\n\
             [retry]\nfloor = \"50ms\"\ncap = \"500ms\"\n\
             [limits]\nlease = \"{lease}s\"\npoll = \"100ms\"\ngrace = \"{grace}\"\n"
        );
        std::fs::write(folder.path().join("stripe-guard.toml"), config).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn ingest_port(&self) -> u16 {
        self.listen
    }

    pub(crate) fn admin_port(&self) -> u16 {
        self.admin
    }

    /// The binary and what it is told, with the inbox in this folder.
    pub(crate) fn command_line(&self, inbox: &Path) -> Vec<String> {
        let (config, database) = (self.path().join("stripe-guard.toml"), inbox.join("inbox.db"));
        let (config, database) = (config.display().to_string(), format!("sqlite://{}", database.display()));
        [env!("CARGO_BIN_EXE_stripe-guard"), "serve", "--config", &config, "--database", &database]
            .map(str::to_owned)
            .into()
    }

    /// Runs the binary.
    pub(crate) fn serve(&self) -> Guard {
        self.spawn(program(&self.command_line(self.path())))
    }

    /// Runs a command that ends in running the binary, or that stands for it.
    pub(crate) fn spawn(&self, mut command: Command) -> Guard {
        let log = File::options().create(true).append(true).open(self.path().join("log.txt")).unwrap();
        command.current_dir(self.path());
        let began = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        let (starting, started) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok).filter(|line| line.starts_with("Taking events")) {
                starting.send(line).ok();
            }
        });
        Guard { child, started, began, log: self.path().join("log.txt") }
    }

    /// A pretend Stripe for it.
    pub(crate) fn stripe(&self, connections: usize) -> Sender {
        let url = format!("http://127.0.0.1:{}/webhooks/stripe", self.listen);
        Sender::new(&url, [secret()], connections).unwrap().timeout(Duration::from_secs(10))
    }

    /// Asks the admin listener and gives the status; 0 if it does not answer.
    pub(crate) fn admin(&self, path: &str) -> u16 {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.admin))?;
            write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().ok().and_then(|answer| answer.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
    }
}

/// A program with its arguments and no environment but the path.
pub(crate) fn program(command_line: &[impl AsRef<std::ffi::OsStr>]) -> Command {
    let mut command = Command::new(&command_line[0]);
    command.args(&command_line[1..]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn free_port() -> u16 {
    let mut rng = Rng::new(u64::from(std::process::id()) << 20 ^ another());
    let range = PORTS.end - PORTS.start;
    let mut ports = std::iter::repeat_with(|| u16::try_from(PORTS.start + rng.below(range)).unwrap());
    ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap()
}

/// Different at each call.
fn another() -> u64 {
    static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// A running binary, which is dead when this is gone.
pub(crate) struct Guard {
    child: Child,
    started: Receiver<String>,
    began: Instant,
    log: PathBuf,
}

impl Guard {
    /// Waits until it says that it takes events; gives the time since it was run.
    pub(crate) fn wait_until_started(&mut self) -> Duration {
        let line = self.started.recv_timeout(PATIENCE);
        assert!(line.is_ok(), "it has not started ({:?}): {}", self.child.try_wait(), self.log_tail());
        self.began.elapsed()
    }

    /// How often it has said so since it was last asked.
    pub(crate) fn starts(&self) -> usize {
        self.started.try_iter().count()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        // One that has ended is still ours to signal until it is waited for.
        kill_process(id, signal).unwrap();
    }

    /// kill -9, and nothing of it is left.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop and waits for the end.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            pause(20);
        }
        panic!("it does not end: {}", self.log_tail());
    }

    /// Whether it is still the same process.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The end of its log.
    pub(crate) fn log_tail(&self) -> String {
        let log = String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Waits so many milliseconds.
pub(crate) fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        pause(20);
    }
}
