//! A server that speaks TLS, with certificates made on the spot.

use std::path::{Path, PathBuf};

use crate::cluster::{Cluster, copy_template};
use crate::programs::{as_server_user, binary, run};

/// Certificate authorities for clients. The files are there as long as their cluster.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Issued the server's certificate, for `localhost` and 127.0.0.1.
    pub ca: PathBuf,
    /// Has the same name and another key.
    pub other_ca: PathBuf,
}

impl Cluster {
    /// Starts a new cluster that takes connections with TLS, and without.
    pub fn start_with_tls() -> (Self, TlsFiles) {
        let settings = [("ssl", "on"), ("ssl_cert_file", "../tls/server.crt"), ("ssl_key_file", "../tls/server.key")];
        let cluster = Self::prepare(copy_template, &settings, make_certificates);
        let file = |name: &str| cluster.folder().join("tls").join(name);
        let files = TlsFiles { ca: file("ca.crt"), other_ca: file("other.crt") };
        (cluster, files)
    }
}

fn make_certificates(folder: &Path) {
    let tls = folder.join("tls");
    run(as_server_user(&binary("mkdir")).arg(&tls));
    let openssl = |arguments: &str| {
        let mut command = as_server_user(&binary("openssl"));
        run(command.current_dir(&tls).args(arguments.split(' ')));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "other"] {
        openssl(&format!("req -x509 {key} -keyout {name}.key -out {name}.crt -days 30 -subj /CN=test-ca"));
    }
    // A certificate that may issue others is not taken for a server's by every client.
    let extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n";
    std::fs::write(tls.join("extensions"), extensions).expect("the folder can be written to");
    openssl(&format!("req -new {key} -keyout server.key -out server.csr -subj /CN=localhost"));
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile extensions -out server.crt -days 30",
    );
}
