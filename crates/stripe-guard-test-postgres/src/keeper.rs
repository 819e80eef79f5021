//! A shell beside each server that outlives this process, and ends the server when this process has ended.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Mutex;

use crate::folder::Folder;
use crate::programs::{as_server_user, binary};

/// Lives as long as the server's folder. Dropped, it ends the server at once and removes the folder.
#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    pipes: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Keeper {
    /// `last_signal` ends the server once nobody is there any more.
    pub(crate) fn new(folder: &Folder, last_signal: &str, server: &[OsString]) -> Self {
        let mut shell = as_server_user(&binary("sh"));
        shell.args(["-c", include_str!("keeper.sh"), "keeper"]).arg(folder.path()).arg(last_signal).args(server);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(folder.claim());
        // What ends the test's process group, such as Ctrl-C or the runner's time limit, must not end its keeper.
        shell.process_group(0);
        let mut shell = shell.spawn().expect("a shell starts");
        let (input, output) = (shell.stdin.take().expect("piped"), shell.stdout.take().expect("piped"));
        Self { shell, pipes: Mutex::new(Some((input, BufReader::new(output)))) }
    }

    /// Starts the server and says which process it is.
    pub(crate) fn start(&self) -> u32 {
        self.ask("start").parse().expect("a process's number")
    }

    /// Returns when the server is gone and waited for.
    pub(crate) fn stop(&self, signal: &str) {
        self.ask(&format!("stop {signal}"));
    }

    /// Lets the server outlive this process, until nobody has held the file for some seconds.
    pub(crate) fn linger(self, users: &Path) {
        self.ask(&format!("linger {}", users.display()));
        *self.pipes.lock().expect("no panic while it was held") = None;
        std::mem::forget(self);
    }

    fn ask(&self, command: &str) -> String {
        let mut pipes = self.pipes.lock().expect("no panic while it was held");
        let (input, output) = pipes.as_mut().expect("a keeper that listens");
        let mut answer = String::new();
        writeln!(input, "{command}").and_then(|()| output.read_line(&mut answer)).expect("the keeper answers");
        answer.trim().to_owned()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The end of its input is the keeper's sign to clear up.
        if let Ok(mut pipes) = self.pipes.lock() {
            *pipes = None;
        }
        drop(self.shell.wait());
    }
}

/// Whether the process is dead, be it that nobody has waited for it yet.
pub(crate) fn is_dead(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|state| state.starts_with(['Z', 'X'])),
        // Where there is no /proc the wait for the server just takes longer to fail.
        Err(_) => Path::new("/proc/self").exists(),
    }
}
