//! The environment, taken once, so that tests need none and a reload sees the same.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::problem::Wrong;

/// The variables of the process. Has no `Debug`: they hold secrets.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value of a variable; `None` when it is not set.
    pub(crate) fn get(&self, name: &str) -> Result<Option<&str>, Wrong> {
        let Some(value) = self.0.get(OsString::from(name).as_os_str()) else { return Ok(None) };
        let not_text = || Wrong::new(format!("the variable {name} is not UTF-8 text"), "set it to plain text");
        value.to_str().map(Some).ok_or_else(not_text)
    }

    /// As [`Environment::get`], where an empty variable counts as not set: compose files and
    /// service units set variables to nothing when they mean to leave them out.
    pub(crate) fn setting(&self, name: &str) -> Result<Option<&str>, Wrong> {
        Ok(self.get(name)?.filter(|value| !value.trim().is_empty()))
    }
}

#[cfg(test)]
impl Environment {
    /// Those given, for a test.
    pub(super) fn from_pairs<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
