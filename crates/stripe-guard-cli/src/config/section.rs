//! One table of the configuration while it is read: takes keys out, reports what is wrong with
//! each, and at the end reports the keys that nobody asked for.
//!
//! Not by serde, which stops at the first problem and quotes values in its messages: a secret at
//! the wrong place would be printed.

use toml::{Table, Value};

use super::problem::{Report, Wrong};

/// A table, its key, and the report that its problems go to.
pub(super) struct Section<'r> {
    key: String,
    table: Table,
    known: Vec<&'static str>,
    report: &'r Report,
}

impl<'r> Section<'r> {
    /// Starts to read `table`, which stands at `key`; the root's key is empty.
    pub(super) fn new(key: impl Into<String>, table: Table, report: &'r Report) -> Self {
        Self { key: key.into(), table, known: Vec::new(), report }
    }

    /// The full key of a name in this table.
    pub(super) fn key_of(&self, name: &str) -> String {
        if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) }
    }

    /// What is left of the table.
    pub(super) fn as_table(&self) -> &Table {
        &self.table
    }

    /// The same section over another table.
    #[must_use]
    pub(super) fn map(self, change: impl FnOnce(Table) -> Table) -> Self {
        Self { table: change(self.table), ..self }
    }

    /// The report that problems go to.
    pub(super) fn report(&self) -> &'r Report {
        self.report
    }

    /// Takes a value out unread; `None` when it is absent.
    pub(super) fn raw(&mut self, name: &'static str) -> Option<Value> {
        self.has(name).then(|| self.table.remove(name)).flatten()
    }

    /// Takes a value out and reads it; `None` when it is absent or wrong, and then reported.
    pub(super) fn take<T>(&mut self, name: &'static str, read: impl FnOnce(&Value) -> Result<T, Wrong>) -> Option<T> {
        let value = self.raw(name)?;
        read(&value).map_err(|wrong| self.report.wrong(&self.key_of(name), wrong)).ok()
    }

    /// Whether a value is there.
    pub(super) fn has(&mut self, name: &'static str) -> bool {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.table.contains_key(name)
    }

    /// Whether a value that has no default is there; its absence is reported.
    pub(super) fn must_have(&mut self, name: &'static str, remedy: &str) -> bool {
        let found = self.has(name);
        if !found {
            self.report.wrong(&self.key_of(name), Wrong::new("is missing", remedy));
        }
        found
    }

    /// Takes a list out and reads its items, each reported under its own number.
    pub(super) fn list<T>(&mut self, name: &'static str, read: impl Fn(&Value) -> Result<T, Wrong>) -> Option<Vec<T>> {
        let items = self.take(name, array)?;
        let key = self.key_of(name);
        let read_one =
            |(index, item)| read(item).map_err(|wrong| self.report.wrong(&format!("{key}[{index}]"), wrong)).ok();
        let found: Vec<Option<T>> = items.iter().enumerate().map(read_one).collect();
        found.into_iter().collect()
    }

    /// Takes a table inside this one out; an absent one is empty.
    pub(super) fn table(&mut self, name: &'static str) -> Option<Section<'r>> {
        let inner = match self.raw(name) {
            None => Table::new(),
            Some(Value::Table(inner)) => inner,
            Some(other) => {
                let wrong = Wrong::new(format!("is {}, not a table", kind(&other)), format!("write [{name}]"));
                self.report.wrong(&self.key_of(name), wrong);
                return None;
            }
        };
        Some(Section::new(self.key_of(name), inner, self.report))
    }

    /// Reports what is left: keys that do not exist.
    pub(super) fn finish(self) {
        for name in self.table.keys() {
            let remedy = match nearest(name, &self.known) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("the keys here are: {}", self.known.join(", ")),
            };
            self.report.wrong(&self.key_of(name), Wrong::new("is not a known key", remedy));
        }
    }
}

/// The table of a named thing, such as `sources.stripe`; `None` when name or value is wrong, which
/// is then reported.
pub(super) fn named<'r>(group: &str, name: &str, value: Value, report: &'r Report) -> Option<Section<'r>> {
    let key = format!("{group}.{name}");
    if !is_name(name) {
        let remedy = "use 1 to 63 of a-z, 0-9, - and _, with a letter or digit first";
        report.wrong(&key, Wrong::new("is not a name that the store takes", remedy));
        return None;
    }
    match value {
        Value::Table(table) => Some(Section::new(key, table, report)),
        other => {
            report.wrong(&key, Wrong::new(format!("is {}, not a table", kind(&other)), format!("write [{key}]")));
            None
        }
    }
}

/// Names are keys in the store, parts of paths and labels of metrics.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 63
        && name.as_bytes().first().is_some_and(plain)
        && name.as_bytes().iter().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'))
}

/// What kind of value it is, with its article, never the value itself.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// Reads a text.
pub(super) fn text(value: &Value) -> Result<&str, Wrong> {
    value.as_str().ok_or_else(|| Wrong::new(format!("is {}, not a text", kind(value)), "put it in quotes"))
}

/// Reads a whole number within bounds.
pub(super) fn number<T: TryFrom<i64> + PartialOrd + std::fmt::Display + Copy>(
    value: &Value,
    least: T,
    most: T,
) -> Result<T, Wrong> {
    let remedy = format!("write a whole number from {least} to {most}, without quotes");
    let Value::Integer(found) = value else {
        return Err(Wrong::new(format!("is {}, not a whole number", kind(value)), remedy));
    };
    match T::try_from(*found) {
        Ok(found) if found >= least && found <= most => Ok(found),
        _ => Err(Wrong::new("is out of range", remedy)),
    }
}

fn array(value: &Value) -> Result<Vec<Value>, Wrong> {
    match value {
        Value::Array(items) => Ok(items.clone()),
        other => Err(Wrong::new(format!("is {}, not a list", kind(other)), "put it in brackets: [\"…\"]")),
    }
}

/// The known name that was probably meant, if one is at most two letters away.
fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    known.iter().map(|one| (distance(name, one), *one)).filter(|(far, _)| *far <= 2).min().map(|(_, one)| one)
}

/// The fewest insertions, removals and changes of letters between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_plain_and_begins_with_a_letter_or_digit() {
        for good in ["a", "0", "stripe-live_2", &"x".repeat(63)] {
            assert!(is_name(good), "{good:?}");
        }
        for bad in ["", "-a", "_a", "Stripe", "a b", "a.b", "é", &"x".repeat(64)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_misspelt_key_finds_its_neighbour() {
        let known = ["timeout", "connect_timeout", "types"];
        assert_eq!(nearest("time_out", &known), Some("timeout"));
        assert_eq!(nearest("type", &known), Some("types"));
        assert_eq!(nearest("lane", &known), None);
    }
}
