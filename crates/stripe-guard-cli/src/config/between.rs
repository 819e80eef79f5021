//! What must hold between values of different tables.

use std::net::{IpAddr, SocketAddr};

use stripe_guard::settings::{Destination, LEASE_MARGIN, Limits, Source};
use url::{Host, Url};

use super::destinations::is_loopback;
use super::problem::{Report, Wrong};
use super::units::show_duration;

/// The lease must outlast the longest time-out.
pub(super) fn lease(limits: &Limits, destinations: &[Destination], report: &Report) {
    let Some(slowest) = destinations.iter().max_by_key(|destination| destination.timeout) else { return };
    let least = slowest.timeout.saturating_add(LEASE_MARGIN);
    if limits.lease < least {
        let problem = format!(
            "is not {} longer than destinations.{}.timeout: an event would be taken up again while its request is running",
            show_duration(LEASE_MARGIN),
            slowest.name
        );
        let remedy = format!("make it at least \"{}\", or the time-out shorter", show_duration(least));
        report.wrong("limits.lease", Wrong::new(problem, remedy));
    }
}

/// Every source that a destination names exists, and every source feeds a destination.
pub(super) fn feeding(names: &[String], sources: &[Source], destinations: &[Destination], report: &Report) {
    for destination in destinations {
        for (index, source) in destination.sources.iter().enumerate() {
            if !names.contains(source) {
                let key = format!("destinations.{}.sources[{index}]", destination.name);
                let remedy = format!("name one of: {}", names.join(", "));
                report.wrong(&key, Wrong::new("is not a source", remedy));
            }
        }
    }
    for source in sources {
        if !destinations.iter().any(|destination| destination.takes_source(&source.name)) {
            report
                .warn(format!("sources.{}: feeds no destination; its events are kept and not delivered", source.name));
        }
    }
}

/// The two listeners need an address each.
pub(super) fn listeners(listen: SocketAddr, admin: SocketAddr, report: &Report) {
    let same_address = listen.ip() == admin.ip() || listen.ip().is_unspecified() || admin.ip().is_unspecified();
    if listen.port() == admin.port() && listen.port() != 0 && same_address {
        let wrong = Wrong::new("is the address of listen, too", "choose another port");
        report.wrong("admin.listen", wrong);
    }
    if !admin.ip().is_loopback() {
        report.warn("admin.listen: is open to the network, and asks nobody for a password");
    }
}

/// A destination that is our own webhook address would take in its own deliveries.
pub(super) fn own_address(listen: SocketAddr, sources: &[Source], destinations: &[Destination], report: &Report) {
    for destination in destinations.iter().filter(|destination| is_ours(&destination.url, listen)) {
        let path = destination.url.path().trim_end_matches('/');
        let key = format!("destinations.{}.url", destination.name);
        if let Some(source) = sources.iter().find(|source| source.path == path) {
            let problem = format!("is our own address of the source {}: events would go round", source.name);
            report.wrong(&key, Wrong::new(problem, "write the address of the app's own webhook endpoint"));
        } else {
            report.warn(format!("{key}: has the port that we listen on ourselves ({})", listen.port()));
        }
    }
}

fn is_ours(url: &Url, listen: SocketAddr) -> bool {
    if listen.port() == 0 || url.port_or_known_default() != Some(listen.port()) {
        return false;
    }
    let by_name = is_loopback(url) && (listen.ip().is_loopback() || listen.ip().is_unspecified());
    let by_address = match url.host() {
        Some(Host::Ipv4(address)) => listen.ip() == IpAddr::V4(address),
        Some(Host::Ipv6(address)) => listen.ip() == IpAddr::V6(address),
        _ => false,
    };
    by_name || by_address
}
