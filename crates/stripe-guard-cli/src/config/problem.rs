//! What is wrong with a configuration, said so that a person can mend it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use crate::output::redact;

/// One bad value: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Problem {
    /// The key, such as `sources.stripe.secrets[0]`.
    pub(crate) key: String,
    /// What is wrong with it.
    #[expect(clippy::struct_field_names, reason = "it is the name in the JSON output")]
    pub(crate) problem: String,
    /// What to do about it.
    pub(crate) remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.key, self.problem, self.remedy)
    }
}

/// The configuration cannot be used. Holds every problem that was found, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The problems, in the order of the keys.
    pub(crate) problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Why a value cannot be taken, before it is known which key held it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    problem: String,
    remedy: String,
}

impl Wrong {
    /// What is wrong, and what to do.
    pub(crate) fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { problem: problem.into(), remedy: remedy.into() }
    }

    /// At this key.
    pub(crate) fn at(self, key: impl Into<String>) -> Problem {
        Problem { key: redact(&key.into()), problem: redact(&self.problem), remedy: redact(&self.remedy) }
    }
}

/// Collects problems and warnings while a configuration is read, so that all are shown at once.
#[derive(Default)]
pub(super) struct Report {
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<String>>,
    origins: BTreeMap<&'static str, &'static str>,
}

impl Report {
    /// From now on, a problem at this key names the flag or variable its value came from.
    pub(super) fn came_from(&mut self, key: &'static str, origin: &'static str) {
        self.origins.insert(key, origin);
    }

    /// Takes a problem down.
    pub(super) fn wrong(&self, key: &str, wrong: Wrong) {
        let key = match self.origins.get(key) {
            Some(origin) => format!("{key} (from {origin})"),
            None => key.to_owned(),
        };
        self.problems.borrow_mut().push(wrong.at(key));
    }

    /// Takes a warning down, once.
    pub(super) fn warn(&self, warning: impl Into<String>) {
        let warning = redact(&warning.into());
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// The warnings if nothing was wrong, else the problems.
    pub(super) fn close(self) -> Result<Vec<String>, ConfigError> {
        let problems = self.problems.into_inner();
        if problems.is_empty() { Ok(self.warnings.into_inner()) } else { Err(ConfigError { problems }) }
    }

    /// The problems, where it is known that there are some.
    pub(super) fn into_error(self) -> ConfigError {
        ConfigError { problems: self.problems.into_inner() }
    }
}
