//! A server in a process of its own: how it is started, and what it does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use crate::servers;

/// What a child serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Verifies, stores nothing.
    Verify,
    /// Verifies, and writes one bare table.
    Bare,
    /// Verifies, and writes the inbox's tables in fixed statements.
    Same,
    /// The inbox itself, without deliveries.
    Guard,
    /// The whole engine.
    Engine,
}

impl Kind {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Bare => "bare",
            Self::Same => "same",
            Self::Guard => "guard",
            Self::Engine => "engine",
        }
    }

    fn of(word: &str) -> Self {
        let all = [Self::Verify, Self::Bare, Self::Same, Self::Guard, Self::Engine];
        all.into_iter().find(|kind| kind.word() == word).unwrap()
    }
}

/// What a child is told.
#[derive(Clone, Debug)]
pub struct Order {
    pub kind: Kind,
    pub database: PathBuf,
    /// Where the engine delivers to.
    pub app: String,
    /// Requests in flight to it.
    pub concurrency: u32,
}

/// A running child. It ends when this is dropped.
pub struct Child {
    process: std::process::Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Child {
    pub fn start(order: &Order) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["child", order.kind.word()])
            .arg(&order.database)
            .args([&order.app, &order.concurrency.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().unwrap());
        let mut child = Self { process, to, from, address: ([127, 0, 0, 1], 0).into() };
        child.address = child.answer().parse().unwrap();
        child
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn url(&self) -> String {
        format!("http://{}/webhooks/stripe", self.address)
    }

    /// Returns once no delivery is open.
    pub fn wait_settled(&mut self) {
        self.to.as_mut().unwrap().write_all(b"settled\n").unwrap();
        self.answer();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.to.take());
        drop(self.process.wait());
    }
}

/// The child's side: serves until its input ends.
pub async fn run(words: &[String]) {
    let [kind, database, app, concurrency] = words else { panic!("a child gets four words") };
    let order = Order {
        kind: Kind::of(kind),
        database: database.into(),
        app: app.clone(),
        concurrency: concurrency.parse().unwrap(),
    };
    let server = servers::start(&order).await;
    say(&server.address.to_string());
    let (lines, mut asked) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            drop(lines.blocking_send(line));
        }
    });
    while asked.recv().await.is_some() {
        server.wait_settled().await;
        say("settled");
    }
    server.stop().await;
}

fn say(text: &str) {
    println!("{text}");
    std::io::stdout().flush().unwrap();
}
