//! Lists in pages: each begins before the last row of the one before.

use clap::Args;
use stripe_guard::store::PAGE_MAX;

/// Which page of a list.
#[derive(Args, Debug)]
pub(crate) struct Page {
    /// At most this many rows
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_MAX)))]
    pub(crate) limit: u32,
    /// Only rows before this number: the last one of the page before
    #[arg(long, value_name = "NUMBER")]
    pub(crate) before: Option<i64>,
}

impl Page {
    /// Where the next page begins, if this one is full.
    pub(crate) fn next(&self, rows: usize, last: Option<i64>) -> Option<i64> {
        last.filter(|_| rows as u64 >= u64::from(self.limit))
    }
}

/// The first row of a table.
pub(crate) fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The line below a table that has a next page.
pub(crate) fn more(next: Option<i64>) -> String {
    next.map_or_else(String::new, |next| format!("There may be more: --before {next}\n"))
}
