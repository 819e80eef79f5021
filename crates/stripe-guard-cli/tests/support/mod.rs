//! Runs the binary as a user would: in a folder of its own, with an environment of its own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

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
    /// The answer as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
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
        let mut child = Command::new(env!("CARGO_BIN_EXE_stripe-guard"))
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that needs no input may be gone before it is written.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let run =
            Run { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
        assert!(!format!("{}{}", run.stdout, run.stderr).contains(&CANARY[6..]), "a secret was printed: {arguments:?}");
        run
    }
}
