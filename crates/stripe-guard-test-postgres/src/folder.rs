//! Folders and ports for servers, in one well-known place for each user of the machine.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::programs::{own_user, server_user};

/// Below the range from which systems pick ports for outgoing connections and for whoever asks for any port: what a
/// stopped server leaves is not taken before it starts again.
const PORTS: std::ops::Range<u16> = 21_000..23_000;

/// A server's folder. The keeper removes it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    log: File,
}

impl Folder {
    pub(crate) fn new() -> Self {
        // Nobody may take for forsaken what is not claimed yet.
        let _guard = lock("folders");
        sweep();
        let path = base().join(format!("server-{}", unique()));
        make(&path, 0o700);
        let log = open(&path.join("log"));
        give(&path.join("log"));
        log.lock().expect("a new file can be locked");
        Self { path, log }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The locked log, for the keeper to hold: as long as it does, the folder is somebody's.
    pub(crate) fn claim(&self) -> File {
        self.log.try_clone().expect("a file can be opened twice")
    }

    /// Keeps the path alone: the claim is the keeper's now.
    pub(crate) fn into_path(self) -> PathBuf {
        self.path
    }
}

/// A port on loopback that no server here has, for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    pub(crate) fn free() -> Self {
        let folder = base().join("ports");
        if !folder.exists() {
            let _guard = lock("folders");
            if !folder.exists() {
                make(&folder, 0o755);
            }
        }
        let count = PORTS.end - PORTS.start;
        let first = u16::try_from(random() % u64::from(count)).expect("less than a port");
        let mut numbers = (0..count).map(|step| PORTS.start + (first + step) % count);
        let found = numbers.find_map(|number| {
            let lock = open(&folder.join(number.to_string()));
            let free = lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok();
            free.then_some(Self { number, _lock: lock })
        });
        found.expect("a free port")
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Where everything of this user is.
pub(crate) fn base() -> &'static Path {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("stripe-guard-postgres-{}", own_user()));
        let owner = server_user().map_or(own_user(), |(user, _)| user);
        if !path.exists() {
            make(&path, 0o755);
        }
        // Another user could have made it first. One who started at the same time as us may not have handed it over.
        let is_ours = || (std::fs::symlink_metadata(&path).ok()?.uid() == owner).then_some(());
        crate::await_some(&format!("{} belongs to user {owner}", path.display()), is_ours);
        path
    })
}

/// Holds the named lock until dropped.
pub(crate) fn lock(name: &str) -> File {
    let file = open(&base().join(format!("{name}.lock")));
    file.lock().expect("a lock can be waited for");
    file
}

pub(crate) fn open(path: &Path) -> File {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A name that no other call returns, in any process.
pub(crate) fn unique() -> String {
    format!("{:016x}", random())
}

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Removes the folders whose keepers are gone with the machine's last run, or were killed.
fn sweep() {
    let entries = std::fs::read_dir(base()).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let is_server = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"server-"));
        let is_forsaken = || File::open(path.join("log")).is_ok_and(|log| log.try_lock().is_ok());
        if is_server && is_forsaken() {
            // Its keeper may be doing the same just now.
            drop(std::fs::remove_dir_all(&path));
        }
    }
}

/// Makes a folder that belongs to the user of servers; another's of that name stays as it is.
fn make(path: &Path, mode: u32) {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => (),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return,
        Err(error) => panic!("{}: {error}", path.display()),
    }
    give(path);
}

/// Hands a new file or folder to the user of servers.
fn give(path: &Path) {
    if let Some((user, group)) = server_user() {
        chown(path, Some(user), Some(group)).expect("root may give a file away");
    }
}
