//! Where the pretend Stripe sends to: this machine and nowhere else.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use hyper::Uri;

/// An address on the loopback interface: `http://127.0.0.1:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) address: SocketAddr,
    pub(super) uri: Uri,
}

/// The text is no address that the sandbox sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be of the form http://127.0.0.1:PORT/PATH: the sandbox sends to this machine only")]
pub struct NotATarget;

impl FromStr for Target {
    type Err = NotATarget;

    fn from_str(url: &str) -> Result<Self, NotATarget> {
        let rest = url.strip_prefix("http://127.0.0.1:").ok_or(NotATarget)?;
        let (port, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let port = port.parse().map_err(|_| NotATarget)?;
        let uri = path.parse().map_err(|_| NotATarget)?;
        Ok(Self { address: (Ipv4Addr::LOCALHOST, port).into(), uri })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_on_this_machine() {
        let target: Target = "http://127.0.0.1:4747/webhooks/stripe?a=b".parse().unwrap();
        assert_eq!((target.address.port(), target.uri.to_string()), (4747, "/webhooks/stripe?a=b".to_owned()));
        assert_eq!("http://127.0.0.1:80".parse::<Target>().unwrap().uri, "/");
        for url in [
            "https://127.0.0.1:4747/",
            "http://127.0.0.1/",
            "http://127.0.0.1:4747@evil.test/",
            "http://10.0.0.1:80/",
            "http://127.0.0.1:80/a b",
        ] {
            assert_eq!(url.parse::<Target>(), Err(NotATarget), "{url}");
        }
    }
}
