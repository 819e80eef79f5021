//! Where a secret comes from, and the strict reading of it.

use std::io::Read as _;

use stripe_guard_core::{BadSecret, SigningSecret};
use toml::Value;

use super::environment::Environment;
use super::problem::Wrong;
use super::section::{Section, kind, text};

/// A secret's file holds one secret: whatever is longer is another file.
const SECRET_FILE_BYTES_MAX: u64 = 4096;

/// A secret with the text it was made of, for the commands that need both. Has no `Debug`.
#[derive(Clone)]
pub(crate) struct Secret {
    /// As it came, with the white space round it.
    pub(crate) raw: String,
    /// Ready for use.
    pub(crate) signing: SigningSecret,
}

/// Reads what `reference` names: `env:NAME` (several by comma), `file:PATH`, or the secret itself.
pub(crate) fn resolve(reference: &str, environment: &Environment) -> Result<Vec<Secret>, Wrong> {
    if let Some(name) = reference.strip_prefix("env:") {
        let name = name.trim();
        let Some(value) = environment.get(name)? else {
            let remedy = format!("set {name} to the signing secret (whsec_…) of the webhook endpoint");
            return Err(Wrong::new(format!("the environment variable {name} is not set"), remedy));
        };
        let parts = value.split(',').map(|part| parse(part).map_err(|wrong| wrong_in(&format!("in {name}"), wrong)));
        return parts.collect();
    }
    if let Some(path) = reference.strip_prefix("file:") {
        let whole = read_file(path.trim())?;
        return Ok(vec![parse(&whole).map_err(|wrong| wrong_in("in the file", wrong))?]);
    }
    Ok(vec![parse(reference)?])
}

/// A problem of the text a reference led to, which says where it led.
fn wrong_in(place: &str, wrong: Wrong) -> Wrong {
    let problem = wrong.at("");
    Wrong::new(format!("the secret {place} {}", problem.problem), problem.remedy)
}

fn read_file(path: &str) -> Result<String, Wrong> {
    let unreadable = |why: String| Wrong::new(format!("the file {path} {why}"), "correct the path or its permissions");
    let file = std::fs::File::open(path).map_err(|error| unreadable(format!("cannot be opened ({})", error.kind())))?;
    let mut whole = String::new();
    file.take(SECRET_FILE_BYTES_MAX + 1)
        .read_to_string(&mut whole)
        .map_err(|error| unreadable(format!("cannot be read ({})", error.kind())))?;
    if whole.len() as u64 > SECRET_FILE_BYTES_MAX {
        return Err(unreadable(format!("is longer than {SECRET_FILE_BYTES_MAX} bytes")));
    }
    Ok(whole)
}

fn parse(raw: &str) -> Result<Secret, Wrong> {
    refuse_lookalikes(raw.trim())?;
    let from_dashboard = "copy the signing secret (whsec_…) of the endpoint from Stripe's dashboard";
    let signing = SigningSecret::parse(raw).map_err(|bad| match bad {
        BadSecret::Empty => Wrong::new("is empty", from_dashboard),
        BadSecret::TooShort => Wrong::new(bad.to_string(), from_dashboard),
        BadSecret::Placeholder => Wrong::new("is a placeholder, not a secret", from_dashboard),
        BadSecret::ControlCharacters => {
            Wrong::new("has control characters inside", "put each secret into a variable or file of its own")
        }
    })?;
    Ok(Secret { raw: raw.to_owned(), signing })
}

/// What people paste into the place of a signing secret.
fn refuse_lookalikes(text: &str) -> Result<(), Wrong> {
    let signing = "use the endpoint's signing secret, which begins with whsec_";
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
    if starts(&["sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_"]) {
        return Err(Wrong::new("is an API key, not a signing secret", signing));
    }
    if starts(&["we_", "ed_"]) {
        return Err(Wrong::new("is the id of an endpoint, not its signing secret", signing));
    }
    let of_a_variable = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if text.contains('_') && text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(of_a_variable) {
        return Err(Wrong::new("is the name of a variable, not a secret", "write \"env:NAME\""));
    }
    Ok(())
}

/// Takes a list of secrets out of a table. `None` when it is absent or wrong, and then reported.
pub(super) fn take_list(
    section: &mut Section<'_>,
    name: &'static str,
    environment: &Environment,
) -> Option<Vec<Secret>> {
    let groups = section.list(name, |item| one(item, environment))?;
    let secrets: Vec<Secret> = groups.into_iter().flatten().collect();
    let key = section.key_of(name);
    for (index, secret) in secrets.iter().enumerate() {
        let label = secret.signing.label();
        let earlier = &secrets[..index];
        if earlier.iter().any(|other| other.raw.trim() == secret.raw.trim()) {
            section.report().warn(format!("{key}: the secret {label} is listed twice"));
        } else if earlier.iter().any(|other| other.signing.label() == label) {
            let wrong = Wrong::new(format!("the label {label} is used twice"), "give each secret a label of its own");
            section.report().wrong(&key, wrong);
            return None;
        }
        if secret.signing.was_trimmed() {
            section.report().warn(format!("{key}: white space round the secret {label} was dropped"));
        }
    }
    Some(secrets)
}

/// An item of a list of secrets: a reference, or a table with `secret` and `label`.
fn one(item: &Value, environment: &Environment) -> Result<Vec<Secret>, Wrong> {
    let table = match item {
        Value::String(reference) => return resolve(reference, environment),
        Value::Table(table) => table,
        other => {
            return Err(Wrong::new(format!("is {}, not a secret", kind(other)), "write \"env:NAME\" or \"file:PATH\""));
        }
    };
    let form = "write { label = \"old\", secret = \"env:NAME\" }";
    if table.keys().any(|key| key != "label" && key != "secret") {
        return Err(Wrong::new("has a key other than label and secret", form));
    }
    let Some(reference) = table.get("secret") else { return Err(Wrong::new("has no secret", form)) };
    let secrets = resolve(text(reference)?, environment)?;
    let Some(label) = table.get("label") else { return Ok(secrets) };
    let label = text(label)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !(1..=64).contains(&label.len()) || !label.chars().all(plain) {
        return Err(Wrong::new("has a label with other characters", "use 1 to 64 of A-Z a-z 0-9 . _ -"));
    }
    if secrets.iter().any(|secret| secret.raw.trim() == label) {
        return Err(Wrong::new("has the secret itself as its label", "a label is shown: choose another"));
    }
    let labelled = secrets.into_iter().enumerate().map(|(index, secret)| Secret {
        signing: secret.signing.labelled(if index == 0 { label.to_owned() } else { format!("{label}-{}", index + 1) }),
        raw: secret.raw,
    });
    Ok(labelled.collect())
}
