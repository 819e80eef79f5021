//! The only place that prints. Text for people by default, JSON with stable fields on request;
//! nothing that came in with an event reaches a terminal unescaped.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;
use serde_json::{Value, json};

use crate::config::Problem;

/// What a terminal takes as: forget the rest of this line.
const CLEAR_TO_END: &str = "\u{1b}[K";

/// Where a command's answer goes, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    /// For people, or as JSON.
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints an answer: the text for people, or the value as one line of JSON.
    pub(crate) fn answer(self, value: &impl Serialize, text: impl FnOnce() -> String) {
        let mut line = if self.json {
            serde_json::to_string(value).unwrap_or_else(|error| json!({"error": error.to_string()}).to_string())
        } else {
            text()
        };
        if !line.ends_with('\n') {
            line.push('\n');
        }
        // A reader that went away (`| head`) is no failure of ours.
        let _ = io::stdout().lock().write_all(line.as_bytes());
    }

    /// Prints bytes as they are, for a file or another program, whatever the form of answers.
    pub(crate) fn raw(bytes: &[u8]) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }

    /// Shows how it goes: in place on a terminal, as a line elsewhere.
    pub(crate) fn progress(self, value: &impl Serialize, text: impl FnOnce() -> String) {
        if self.json || !io::stdout().is_terminal() {
            self.answer(value, text);
        } else {
            let mut out = io::stdout().lock();
            let _ = write!(out, "\r{}{CLEAR_TO_END}", text()).and_then(|()| out.flush());
        }
    }

    /// Ends what [`Output::progress`] showed in place.
    pub(crate) fn end_progress(self) {
        if !self.json && io::stdout().is_terminal() {
            let _ = writeln!(io::stdout().lock());
        }
    }

    /// Prints a warning beside the answer.
    pub(crate) fn warn(self, warning: &str) {
        if !self.json {
            let _ = writeln!(io::stderr().lock(), "warning: {}", escape(warning));
        }
    }

    /// Prints why a command failed. `class` is stable, the rest is for people.
    pub(crate) fn failed(self, class: &str, message: &str, problems: &[Problem]) {
        let mut text = String::new();
        if self.json {
            let mut error = json!({ "class": class, "message": redact(message) });
            if !problems.is_empty() {
                error["problems"] = serde_json::to_value(problems).unwrap_or(Value::Null);
            }
            text = json!({ "error": error }).to_string();
        } else if problems.is_empty() {
            let _ = write!(text, "error: {}", escape(&redact(message)));
        } else {
            let lines: Vec<String> =
                problems.iter().map(|one| format!("error: {}", escape(&one.to_string()))).collect();
            text = lines.join("\n");
        }
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Makes text from outside safe for a terminal: what could move the cursor, ring, colour, hide or
/// reorder is shown by its number.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            let _ = write!(safe, "{}", c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

fn is_unsafe(c: char) -> bool {
    // Line and paragraph separators, marks of direction and its overrides, invisible letters.
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

/// The beginnings of Stripe's secrets and keys.
const SECRET_PREFIXES: &[&str] = &["whsec_", "sk_live_", "sk_test_", "rk_live_", "rk_test_"];

/// Removes what looks like one of Stripe's secrets: the last line of defence for text that quotes
/// what an operator wrote, such as a secret in the place of a key.
pub(crate) fn redact(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, prefix)) = SECRET_PREFIXES.iter().filter_map(|p| Some((rest.find(p)?, *p))).min() {
        let (before, found) = rest.split_at(at + prefix.len());
        safe.push_str(before);
        let secret =
            found.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '-'));
        if secret.len() < found.len() {
            safe.push('…');
        }
        rest = secret;
    }
    safe.push_str(rest);
    safe
}

/// Lines of columns, each as wide as its widest cell. Cells are escaped.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let safe: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
    let columns = safe.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| safe.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &safe {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_redacted(text: &str, expected: &str) {
        assert_eq!(redact(text), expected);
    }

    #[test]
    fn a_secret_in_a_text_is_removed() {
        check_redacted("no secret", "no secret");
        check_redacted("the key whsec_abcDEF012+/= is odd", "the key whsec_… is odd");
        check_redacted("sk_live_abc, whsec_def", "sk_live_…, whsec_…");
        check_redacted("begins with whsec_", "begins with whsec_");
    }

    #[test]
    fn text_of_an_event_cannot_drive_the_terminal() {
        assert_eq!(escape("a\u{1b}[31mred\r\n"), "a\\u{1b}[31mred\\u{d}\\u{a}");
        assert_eq!(escape("\u{202e}evil\u{9b}"), "\\u{202e}evil\\u{9b}");
        assert_eq!(escape("東京 café ☕"), "東京 café ☕");
    }

    #[test]
    fn columns_line_up() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        assert_eq!(table(&[row("KEY", "STATE"), row("evt_1", "x")]), "KEY    STATE\nevt_1  x\n");
    }
}
