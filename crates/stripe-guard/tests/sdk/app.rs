//! The apps behind the guard: small servers that verify with Stripe's official SDKs.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use stripe_guard_core::Form;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use url::Url;

use crate::guard::Secret;

/// Long enough for anything that is going to happen, on any machine.
pub const LIMIT: Duration = Duration::from_mins(1);

/// An SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    Python,
    Node,
}

impl Sdk {
    pub const BOTH: [Self; 2] = [Self::Python, Self::Node];

    /// The name of its app as a destination.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
        }
    }

    /// What it parses a form of event with.
    pub fn parser(self, form: Form) -> &'static str {
        match (form, self) {
            (Form::Snapshot, Self::Python) => "construct_event",
            (Form::Snapshot, Self::Node) => "constructEvent",
            (Form::Thin, Self::Python) => "parse_event_notification",
            (Form::Thin, Self::Node) => "parseEventNotification",
            (Form::Envelope, _) => "unwrap",
        }
    }

    fn command(self) -> Command {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk");
        match self {
            Self::Python => {
                let mut command = Command::new(tool("python/bin/python"));
                command.arg(here.join("app.py"));
                command
            }
            Self::Node => {
                let installed = tool("node/node_modules/stripe");
                let mut command = Command::new("node");
                command.arg(here.join("app.mjs")).arg(installed.ancestors().nth(2).unwrap());
                command
            }
        }
    }
}

/// A thing that `scripts/install-test-tools` installs.
fn tool(path: &str) -> PathBuf {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools").join(path);
    assert!(tool.exists(), "target/test-tools/{path} is missing: run scripts/test, which installs what the tests need");
    tool
}

/// One request as the app saw it, and what its SDK said.
#[derive(Clone, Debug, Deserialize)]
pub struct Request {
    /// The header that names the event; none when it did not come from the guard.
    pub event: Option<String>,
    /// The header that counts attempts.
    pub attempt: Option<String>,
    /// The header that says when Stripe's request came.
    pub received_at: Option<String>,
    /// Of the body.
    pub sha256: String,
    /// What it was parsed with.
    pub parser: String,
    /// `accepted` or `refused`.
    pub verdict: String,
    /// The SDK's words for a refusal.
    pub error: Option<String>,
    /// The event's id, as the SDK read it.
    pub id: Option<String>,
    /// The event's type, as the SDK read it.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// What the SDK read of a few fields.
    #[serde(default)]
    pub read: std::collections::BTreeMap<String, String>,
}

/// A running app. It ends when this does, or when its standard input is closed because we died.
pub struct App {
    pub sdk: Sdk,
    pub url: Url,
    requests: UnboundedReceiver<String>,
    child: Child,
    _stdin: ChildStdin,
}

impl App {
    /// Starts an app that verifies with one secret.
    pub async fn start(sdk: Sdk, secret: Secret) -> Self {
        let mut child = sdk
            .command()
            .env("STRIPE_WEBHOOK_SECRET", secret.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start the {} app, run scripts/test: {error}", sdk.name()));
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (lines, mut requests) = unbounded_channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
        });
        let Listening { port } = next(sdk, &mut requests).await;
        let url = format!("http://127.0.0.1:{port}/webhooks").parse().unwrap();
        Self { sdk, url, requests, child, _stdin: stdin }
    }

    /// The next requests, in the order in which they were answered.
    pub async fn take(&mut self, count: usize) -> Vec<Request> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            taken.push(next(self.sdk, &mut self.requests).await);
        }
        taken
    }

    /// Whether every request has been taken.
    pub fn is_quiet(&self) -> bool {
        self.requests.is_empty()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

#[derive(Deserialize)]
struct Listening {
    port: u16,
}

async fn next<T: DeserializeOwned>(sdk: Sdk, lines: &mut UnboundedReceiver<String>) -> T {
    let line = match tokio::time::timeout(LIMIT, lines.recv()).await {
        Ok(Some(line)) => line,
        Ok(None) => panic!("the {} app ended; what it said is above", sdk.name()),
        Err(late) => panic!("the {} app said nothing for {LIMIT:?}: {late}", sdk.name()),
    };
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("the {} app said {line}: {error}", sdk.name()))
}
