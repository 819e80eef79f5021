//! What is measured, and for how long.

/// Which measurements are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    All,
    Ingest,
    Pipeline,
    Memory,
}

/// The command line.
#[derive(Clone, Debug)]
pub struct Options {
    pub what: What,
    /// A look whether it still works: little load, and no aims.
    pub quick: bool,
    /// Counted rounds.
    pub rounds: usize,
    /// Events for each subject in a round of `ingest`, and for a round of `pipeline`.
    pub events: u64,
    /// Connections of the pretend Stripe.
    pub connections: usize,
    /// Requests in flight to the app.
    pub concurrency: u32,
    /// Events waiting in `memory`.
    pub rows: u64,
    /// How long memory is watched in each of its phases.
    pub seconds: u64,
}

impl Options {
    /// Reads the words of the command line.
    pub fn parse(words: &[String]) -> Self {
        let quick = words.iter().any(|word| word == "--quick");
        let mut options = Self {
            what: What::All,
            quick,
            rounds: if quick { 2 } else { 7 },
            events: if quick { 1500 } else { 20_000 },
            connections: 256,
            concurrency: 64,
            rows: if quick { 20_000 } else { 1_000_000 },
            seconds: if quick { 2 } else { 30 },
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number =
                || words.next().and_then(|word| word.parse::<u32>().ok()).expect("an option needs a number");
            match word.as_str() {
                "ingest" => options.what = What::Ingest,
                "pipeline" => options.what = What::Pipeline,
                "memory" => options.what = What::Memory,
                "all" => options.what = What::All,
                "--quick" => {}
                "--rounds" => options.rounds = number() as usize,
                "--events" => options.events = number().into(),
                "--connections" => options.connections = number() as usize,
                "--concurrency" => options.concurrency = number(),
                "--rows" => options.rows = number().into(),
                "--seconds" => options.seconds = number().into(),
                other => panic!("unknown word {other}; see docs/benchmarks.md"),
            }
        }
        options
    }
}
