//! Where the programs are, and which user runs them.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The oldest release that the tests are for.
const RELEASE_MIN: u32 = 15;

/// The path of a program: of PostgreSQL's own, all from one installation, or of any other.
///
/// Panics with what to install when there is none.
pub fn binary(name: &str) -> PathBuf {
    let servers = servers_folder().map(|folder| folder.join(name));
    servers.filter(|path| path.is_file()).or_else(|| in_path(name)).unwrap_or_else(|| {
        panic!(
            "`{name}` is missing: these tests need PostgreSQL {RELEASE_MIN} or later, PgBouncer, OpenSSL and util-linux; \
             run scripts/install-test-tools, or install postgresql, pgbouncer, openssl and util-linux (Debian's names)"
        )
    })
}

/// A command for the program, as the user that servers run as: PostgreSQL refuses to run as root.
///
/// None of the caller's `PG…` variables reach it, and it starts in the root folder, which every user may enter.
pub fn as_server_user(program: &Path) -> Command {
    let mut command = clean(program);
    if let Some((user, group)) = server_user() {
        // The standard library drops root's other groups along with its id.
        command.uid(user).gid(group);
    }
    command.current_dir("/");
    command
}

/// A command that none of the caller's `PG…` variables, nor its standard input, reach.
pub(crate) fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Runs to the end, and panics with the output when that is not a good one.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// The user and group that servers run as where that is another than ours: only root has to and can.
pub(crate) fn server_user() -> Option<(u32, u32)> {
    static USER: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *USER.get_or_init(|| {
        if own_user() != 0 {
            return None;
        }
        let users = std::fs::read_to_string("/etc/passwd").expect("root can read the list of users");
        let ids = |name: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut ids = line.split(':').skip(2).map_while(|id| id.parse().ok());
            Some((ids.next()?, ids.next()?))
        };
        Some(ids("postgres").or_else(|| ids("nobody")).expect("a user `postgres` or `nobody` to run servers as"))
    })
}

/// The user that this process runs as. The standard library does not tell.
pub(crate) fn own_user() -> u32 {
    static USER: OnceLock<u32> = OnceLock::new();
    *USER.get_or_init(|| run(Command::new("id").arg("-u")).trim().parse().expect("a user's number"))
}

/// The folder of one installation: the newest of Debian's, or what `pg_config` or `PATH` leads to.
pub(crate) fn servers_folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut debian: Vec<(u32, PathBuf)> = debian
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
            .collect();
        debian.sort();
        let configured = Command::new("pg_config").arg("--bindir").output().ok();
        let configured = configured.and_then(|output| String::from_utf8(output.stdout).ok());
        let found = debian.into_iter().rev().map(|(_, folder)| folder);
        found
            .chain(configured.map(|line| PathBuf::from(line.trim())))
            .chain(in_path("postgres").and_then(|path| path.parent().map(Path::to_path_buf)))
            .find(|folder| folder.join("initdb").is_file() && is_new_enough(&folder.join("postgres")))
    };
    FOLDER.get_or_init(find).as_deref()
}

/// What names this installation in the file system: an upgrade needs another template of a cluster.
pub(crate) fn installation() -> String {
    let version = run(Command::new(binary("postgres")).arg("--version"));
    version.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn is_new_enough(server: &Path) -> bool {
    let Ok(output) = Command::new(server).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let release = text.split(") ").nth(1).and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next());
    release.and_then(|number| number.parse().ok()).is_some_and(|number: u32| number >= RELEASE_MIN)
}

/// Beside `PATH`, where Debian has servers such as PgBouncer, which is not in every user's.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into()]).map(|folder| folder.join(name)).find(|path| path.is_file())
}
