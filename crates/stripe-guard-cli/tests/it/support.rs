//! Runs the binary as a user would: in a folder of its own, with an environment of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

/// A secret that no output may hold.
pub(crate) const CANARY: &str = "whsec_canary7kQm3VxB9nRt2LpYc5HdWf8Zg";

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    fn has_no_secret(self) -> Self {
        assert!(!format!("{}{}", self.stdout, self.stderr).contains(&CANARY[6..]), "a secret was printed: {self:?}");
        self
    }

    /// The answer as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A folder, and the environment for the runs in it.
pub(crate) struct Folder {
    dir: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn with_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.path().join(name), content).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.run_with_input(arguments, b"")
    }

    /// Runs the command; in whatever it prints, the canary secret is a failure.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Run {
        let mut child = self.spawn(arguments);
        // A command that needs no input may be gone before it is written.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let run =
            Run { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
        run.has_no_secret()
    }

    /// Runs the command and gives its bytes.
    pub(crate) fn run_for_bytes(&self, arguments: &[&str]) -> Vec<u8> {
        self.spawn(arguments).wait_with_output().unwrap().stdout
    }

    /// Starts a command, with everything piped.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_stripe-guard"))
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Starts a server on free ports and waits until it takes events.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        let ports = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--json"];
        let mut child = Owned(self.spawn(&[&ports[..], arguments].concat()));
        let log = Arc::new(Mutex::new(String::new()));
        let mut errors = BufReader::new(child.0.stderr.take().unwrap());
        let logging = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while errors.read_line(&mut line).unwrap() > 0 {
                logging.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        let mut out = BufReader::new(child.0.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        let started: Value =
            serde_json::from_str(&first).unwrap_or_else(|error| panic!("{error}: {first} {:?}", log.lock().unwrap()));
        Server { child, started, first, out, log, reader }
    }
}

/// A process that ends with the test, also with one that fails.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Both fail for one that has ended, which is as good.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A running `stripe-guard serve`.
pub(crate) struct Server {
    child: Owned,
    started: Value,
    first: String,
    out: BufReader<std::process::ChildStdout>,
    log: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Server {
    /// Where its first source takes events.
    pub(crate) fn url(&self) -> String {
        self.started["sources"][0].as_str().unwrap().to_owned()
    }

    /// Its admin address.
    pub(crate) fn admin(&self) -> String {
        self.started["admin"].as_str().unwrap().to_owned()
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until it has logged this.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, words: &str) {
        for _ in 0..500 {
            if self.log().contains(words) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{words:?} was not logged: {}", self.log());
    }

    /// Sends it a signal, such as `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Stops it and gives all that it printed.
    pub(crate) fn stop(mut self) -> Run {
        self.signal("TERM");
        let code = self.child.0.wait().unwrap().code().unwrap();
        let mut stdout = self.first;
        self.out.read_to_string(&mut stdout).unwrap();
        self.reader.join().unwrap();
        let stderr = self.log.lock().unwrap().clone();
        Run { code, stdout, stderr }.has_no_secret()
    }
}

/// One GET by hand: the status line, the headers and the body.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// This run ends with this code and says these words.
#[track_caller]
pub(crate) fn check(run: &Run, code: i32, words: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    let said = format!("{}{}", run.stdout, run.stderr);
    for word in words {
        assert!(said.contains(word), "{word:?} is missing: {run:?}");
    }
}
