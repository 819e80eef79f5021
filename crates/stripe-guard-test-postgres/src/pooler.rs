//! PgBouncer in front of a server.

use std::path::PathBuf;

use crate::folder::{Folder, Port};
use crate::keeper::{Keeper, is_dead};
use crate::programs::binary;
use crate::psql;

/// A running PgBouncer with the defaults that a user would have. Dropped, it is gone.
#[derive(Debug)]
#[must_use = "a pooler that is dropped is gone"]
pub struct Pooler {
    // First, so that the process is gone before the port is anybody's.
    _keeper: Keeper,
    port: Port,
    folder: PathBuf,
}

impl Pooler {
    /// Pools connections to the server on this port of 127.0.0.1. The mode is `transaction` or `session`.
    pub fn start(server_port: u16, mode: &str) -> Self {
        let (folder, port) = (Folder::new(), Port::free());
        let file = |name: &str| folder.path().join(name);
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\nadmin_users = {}\npool_mode = {mode}\n",
            port.number(),
            file("users").display(),
            crate::USER,
        );
        for (name, text) in [("pgbouncer.ini", settings), ("users", format!("\"{}\" \"\"\n", crate::USER))] {
            std::fs::write(file(name), text).expect("the folder can be written to");
        }
        let keeper = Keeper::new(&folder, "TERM", &[binary("pgbouncer").into(), file("pgbouncer.ini").into()]);
        let pid = keeper.start();
        let pooler = Self { _keeper: keeper, port, folder: folder.into_path() };
        crate::await_some("PgBouncer starts", || {
            assert!(!is_dead(pid), "PgBouncer did not start:\n{}", pooler.log());
            std::net::TcpStream::connect(("127.0.0.1", pooler.port())).ok()
        });
        pooler
    }

    /// The address of the server's database, through the pooler.
    pub fn url(&self, database: &str) -> String {
        psql::url(self.port(), database)
    }

    /// The pooler's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Everything that the pooler wrote to its log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.join("log")).unwrap_or_default()).into_owned()
    }
}
