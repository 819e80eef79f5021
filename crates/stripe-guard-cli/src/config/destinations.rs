//! `[destinations.NAME]`.

use std::time::Duration;

use stripe_guard::settings::Destination;
use stripe_guard_core::{RetryPolicy, TypeFilter};
use toml::{Table, Value};
use url::{Host, Url};

use super::environment::Environment;
use super::problem::{Report, Wrong};
use super::section::{self, Section, number, text};
use super::{retry, secret, units};

/// The one event type that an inbox cannot serve.
const ANSWERED_BY_THE_APP: &str = "issuing_authorization.request";

/// More at once is a load test, not a delivery.
const CONCURRENCY_MAX: u32 = 1024;

/// Longer than this, a lease would hold an event back for hours after a crash.
const TIMEOUT_MAX: Duration = Duration::from_hours(1);

/// Reads every destination; those with a problem are reported and left out.
pub(super) fn read_all(
    destinations: Table,
    retry: &Table,
    environment: &Environment,
    report: &Report,
) -> Vec<Destination> {
    if destinations.is_empty() {
        let remedy = "give --forward-to URL, or add [destinations.app] with the url of your app's webhook endpoint";
        report.wrong("destinations", Wrong::new("there is none", remedy));
    }
    destinations.into_iter().filter_map(|(name, value)| read(&name, value, retry, environment, report)).collect()
}

fn read(name: &str, value: Value, retry: &Table, environment: &Environment, report: &Report) -> Option<Destination> {
    let mut section = section::named("destinations", name, value, report)?;
    let remedy = "write the address of the app's webhook endpoint, such as \"http://127.0.0.1:3000/webhook\"";
    let url = section.must_have("url", remedy).then(|| section.take("url", url)).flatten();
    let sources = section.list("sources", |item| text(item).map(str::to_owned));
    let types = section.list("types", type_filter);
    if types.as_ref().is_some_and(Vec::is_empty) {
        report.wrong(&section.key_of("types"), Wrong::new("is empty", "write [\"*\"] for all types"));
    }
    let secrets = secret::take_list(&mut section, "secrets", environment);
    let concurrency = section.take("concurrency", |value| number(value, 1, CONCURRENCY_MAX));
    let time_bounds = Duration::from_millis(100)..=TIMEOUT_MAX;
    let timeout = section.take("timeout", |value| units::duration(value, time_bounds.clone()));
    let connect_timeout = section.take("connect_timeout", |value| units::duration(value, time_bounds.clone()));
    // Not said means that the whole time-out is the bound.
    let first_byte_timeout = if section.has("first_byte_timeout") {
        section.take("first_byte_timeout", |value| units::duration(value, time_bounds))
    } else {
        timeout
    };
    for (key, bound) in [("connect_timeout", connect_timeout), ("first_byte_timeout", first_byte_timeout)] {
        if bound > timeout && timeout.is_some() {
            let wrong = Wrong::new("is longer than timeout, which ends first", "make it shorter than timeout");
            report.wrong(&section.key_of(key), wrong);
        }
    }
    let final_statuses = section.list("final_statuses", final_status);
    let policy = own_policy(&mut section, retry);
    section.finish();
    Some(Destination {
        name: name.to_owned(),
        url: url?,
        sources: sources?,
        types: types?,
        secrets: secrets?.into_iter().map(|secret| secret.signing).collect(),
        concurrency: concurrency?,
        timeout: timeout?,
        first_byte_timeout: first_byte_timeout?,
        connect_timeout: connect_timeout?,
        final_statuses: final_statuses?,
        retry: policy?,
    })
}

/// The schedule of `retry`, with what the destination says of its own laid over it.
fn own_policy(section: &mut Section<'_>, retry: &Table) -> Option<RetryPolicy> {
    if section.has("retry") {
        let own = section.table("retry")?;
        return retry::read(own.map(|own| retry::layered(retry, own)));
    }
    // Its problems are reported where it stands, once.
    retry::read(Section::new("retry", retry.clone(), &Report::default()))
}

fn url(value: &Value) -> Result<Url, Wrong> {
    let remedy = "write a whole address, such as \"http://127.0.0.1:3000/webhook\"";
    let raw = text(value)?;
    let url = Url::parse(raw.trim()).map_err(|error| Wrong::new(format!("is not a URL ({error})"), remedy))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Wrong::new("is neither http nor https", remedy));
    }
    if url.host().is_none() {
        return Err(Wrong::new("has no host", remedy));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let remedy = "leave it out: the app knows us by the signature";
        return Err(Wrong::new("has a user name or password in it", remedy));
    }
    if url.fragment().is_some() {
        return Err(Wrong::new("has a fragment (#…), which is never sent", "leave it out"));
    }
    if url.port() == Some(0) {
        return Err(Wrong::new("has port 0, which nothing listens on", remedy));
    }
    Ok(url)
}

fn type_filter(value: &Value) -> Result<TypeFilter, Wrong> {
    let filter = TypeFilter::parse(text(value)?).map_err(|_| {
        Wrong::new(
            "is not a type filter",
            "write an exact type (invoice.paid), a wildcard at the end (invoice.*), or *",
        )
    })?;
    if filter != TypeFilter::All && filter.matches(ANSWERED_BY_THE_APP) {
        let problem = format!(
            "takes {ANSWERED_BY_THE_APP}, for which Stripe waits for the app's own answer, while an inbox acknowledges first"
        );
        return Err(Wrong::new(problem, "register an endpoint at Stripe for that type that leads to the app directly"));
    }
    Ok(filter)
}

fn final_status(value: &Value) -> Result<u16, Wrong> {
    number(value, 300, 599)
}

/// Whether a URL's host is this machine, in any of its spellings.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => {
            let mapped = address.to_ipv4_mapped().is_some_and(|inner| inner.is_loopback() || inner.is_unspecified());
            address.is_loopback() || address.is_unspecified() || mapped
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_in_every_spelling() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "app.localhost",
            "127.0.0.1",
            "127.1",
            "0x7f000001",
            "0.0.0.0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_loopback(&Url::parse(&format!("http://{host}:1/x")).unwrap()), "{host}");
        }
        for host in ["localhost.example.com", "10.0.0.1", "[fe80::1]", "app"] {
            assert!(!is_loopback(&Url::parse(&format!("http://{host}:1/x")).unwrap()), "{host}");
        }
    }
}
