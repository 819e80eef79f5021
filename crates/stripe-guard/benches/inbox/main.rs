//! What the inbox costs: ingest beside its ceilings, the whole way through, and memory.
//!
//! `cargo bench -p stripe-guard --bench inbox -- [ingest|pipeline|memory] [options]`; see
//! `docs/benchmarks.md`. Servers are child processes: this program started again.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a measurement, not the product"
)]

mod ceiling;
mod child;
mod ingest;
mod machine;
mod memory;
mod options;
mod pipeline;
mod servers;

use options::{Options, What};

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.first().is_some_and(|word| word == "child") {
        return child::run(&words[1..]).await;
    }
    let options = Options::parse(&words);
    if matches!(options.what, What::Ingest | What::All) {
        ingest::run(&options).await;
    }
    if matches!(options.what, What::Pipeline | What::All) {
        pipeline::run(&options).await;
    }
    if matches!(options.what, What::Memory | What::All) {
        memory::run(&options).await;
    }
}
