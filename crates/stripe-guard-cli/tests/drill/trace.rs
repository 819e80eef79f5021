//! Reads what strace saw, and judges whether an answer left before its flush.
//!
//! strace writes a system call down when it has ended, or in two halves when another thread's call
//! came between. What one thread does because of another comes later in its file: a thread goes on
//! after its call only when strace has seen the call's end.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

/// What is traced, and how: descriptors with what they stand for, and a whole page of bytes.
pub(crate) const TRACER: &[&str] = &[
    "strace",
    "-D",
    "-f",
    "-q",
    "--seccomp-bpf",
    "-yy",
    "-ttt",
    "-s",
    "9000",
    "-e",
    "trace=execve,fdatasync,fsync,pwrite64,read,recvfrom,write,writev,sendto,sendmsg",
];

/// The header of one frame of the write-ahead log, in bytes (sqlite.org, "WAL File Format").
const FRAME_HEADER: usize = 24;

/// A system call.
struct Call {
    /// The line on which it began.
    begin: usize,
    /// The line on which it ended.
    end: usize,
    /// When it ended, in seconds.
    at: f64,
    name: String,
    /// From the bracket on.
    text: String,
    ok: bool,
}

/// A flush of one of the files.
struct Flush {
    begin: usize,
    end: usize,
    at: f64,
    ok: bool,
}

/// An answer `200` to the event of this id.
struct Answer {
    id: String,
    begin: usize,
    at: f64,
}

/// What was seen.
#[derive(Default)]
pub(crate) struct Seen {
    answers: Vec<Answer>,
    log_flushes: Vec<Flush>,
    file_flushes: Vec<Flush>,
    /// Where the transaction ended in the log that first held the event.
    committed: HashMap<String, usize>,
    /// Lines on which a program began.
    starts: Vec<usize>,
}

impl Seen {
    /// Reads a trace; `ids` are all that was sent, `port` is where to.
    pub(crate) fn read(path: &Path, port: u16, ids: &HashSet<String>) -> Self {
        let trace = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        let ingest = format!("<TCP:[127.0.0.1:{port}->");
        let (mut seen, mut asked, mut log) = (Self::default(), HashMap::new(), Log::default());
        for call in calls(&trace) {
            let descriptor = call.text.split_once(", ").map_or(call.text.as_str(), |(first, _)| first);
            let (is_log, is_file) = (descriptor.contains("/inbox.db-wal>"), descriptor.contains("/inbox.db>"));
            match call.name.as_str() {
                "execve" if call.ok => seen.starts.push(call.begin),
                "fdatasync" | "fsync" if is_log => seen.log_flushes.push(Flush::of(&call)),
                "fdatasync" | "fsync" if is_file => seen.file_flushes.push(Flush::of(&call)),
                "pwrite64" if is_log => log.written(&call, ids, &mut seen.committed),
                "read" | "recvfrom" if descriptor.contains(&ingest) => {
                    if let Some(id) = ids_in(&call.text, ids).next() {
                        asked.insert(descriptor.to_owned(), id.to_owned());
                    }
                }
                "write" | "writev" | "sendto" | "sendmsg"
                    if descriptor.contains(&ingest) && call.text.contains("\"HTTP/1.1 200 ") =>
                {
                    let id = asked.remove(descriptor).unwrap_or_else(|| panic!("an answer to nothing: {descriptor}"));
                    seen.answers.push(Answer { id, begin: call.begin, at: call.at });
                }
                _ => {}
            }
        }
        seen
    }

    /// How many answers `200` were seen.
    pub(crate) fn answers(&self) -> usize {
        self.answers.len()
    }

    /// How many flushes of the log succeeded.
    pub(crate) fn flushes(&self) -> usize {
        self.log_flushes.iter().filter(|flush| flush.ok).count()
    }

    /// How many flushes failed.
    pub(crate) fn failures(&self) -> usize {
        self.failed().count()
    }

    /// How often the program began again.
    pub(crate) fn restarts(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The answers that left before the log was flushed whole with what they promise in it.
    pub(crate) fn early(&self) -> Vec<&str> {
        let early = self.answers.iter().filter(|answer| !self.was_flushed(answer, answer.begin));
        early.map(|answer| answer.id.as_str()).collect()
    }

    /// The answers that left after a failed flush and before the next start, and that no flush
    /// before the failed one covers.
    pub(crate) fn after_a_failure(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for failed in self.failed() {
            let restart = self.starts.iter().copied().find(|&start| start > failed.end).unwrap_or(usize::MAX);
            let between = self.answers.iter().filter(|answer| (failed.end..restart).contains(&answer.begin));
            found.extend(
                between.filter(|answer| !self.was_flushed(answer, failed.begin)).map(|answer| answer.id.as_str()),
            );
        }
        found
    }

    /// The answers after a failure and a restart that came before the file itself was flushed: what a failed flush
    /// left of the log may be in memory only, so all of it must have gone into the file first.
    pub(crate) fn before_the_file_was_flushed(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for failed in self.failed() {
            let Some(restart) = self.starts.iter().copied().find(|&start| start > failed.end) else { continue };
            let flushed = self.file_flushes.iter().find(|flush| flush.ok && flush.begin > failed.end);
            let flushed = flushed.map_or(usize::MAX, |flush| flush.end);
            let between = self.answers.iter().filter(|answer| (restart..flushed).contains(&answer.begin));
            found.extend(between.map(|answer| answer.id.as_str()));
        }
        found
    }

    /// From each failed flush to the next answer `200` of a new start, in seconds.
    pub(crate) fn outages(&self) -> Vec<f64> {
        let mut outages = Vec::new();
        for failed in self.failed() {
            let Some(restart) = self.starts.iter().copied().find(|&start| start > failed.end) else { continue };
            outages.extend(self.answers.iter().find(|one| one.begin > restart).map(|one| one.at - failed.at));
        }
        outages
    }

    fn failed(&self) -> impl Iterator<Item = &Flush> {
        self.log_flushes.iter().chain(&self.file_flushes).filter(|flush| !flush.ok)
    }

    fn was_flushed(&self, answer: &Answer, before: usize) -> bool {
        let Some(&committed) = self.committed.get(&answer.id) else { return false };
        self.log_flushes.iter().any(|flush| flush.ok && flush.begin > committed && flush.end < before)
    }
}

impl Flush {
    fn of(call: &Call) -> Self {
        Self { begin: call.begin, end: call.end, at: call.at, ok: call.ok }
    }
}

/// The write-ahead log as it grows: a frame is a header and a page, and the last frame of a
/// transaction says so in its header.
#[derive(Default)]
struct Log {
    is_last: bool,
    open: Vec<String>,
}

impl Log {
    fn written(&mut self, call: &Call, ids: &HashSet<String>, committed: &mut HashMap<String, usize>) {
        let length = call.text.rsplit(", ").nth(1).and_then(|length| length.parse().ok());
        if length == Some(FRAME_HEADER) {
            let header = unescaped(&call.text);
            self.is_last = header.len() == FRAME_HEADER && header[4..8] != [0; 4];
            return;
        }
        self.open.extend(ids_in(&call.text, ids).map(str::to_owned));
        if std::mem::take(&mut self.is_last) {
            for id in self.open.drain(..) {
                committed.entry(id).or_insert(call.end);
            }
        }
    }
}

/// The calls in the order of their ends.
fn calls(trace: &str) -> Vec<Call> {
    let (mut calls, mut halves) = (Vec::new(), HashMap::<&str, (usize, &str)>::new());
    for (number, line) in trace.lines().enumerate() {
        // The thread's number is padded to five places.
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((at, rest)) = rest.trim_start().split_once(' ') else { continue };
        if let Some(half) = rest.strip_suffix("<unfinished ...>") {
            halves.insert(thread, (number, half));
            continue;
        }
        let (begin, whole) = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, second)) => {
                let Some((begin, first)) = halves.remove(thread) else { continue };
                (begin, format!("{first}{second}"))
            }
            None => (number, rest.to_owned()),
        };
        let (Some((name, text)), Some(at)) = (whole.split_once('('), at.parse().ok()) else { continue };
        let Some((text, result)) = text.rsplit_once(" = ") else { continue };
        let ok = result.bytes().next().is_some_and(|first| first.is_ascii_digit());
        let text = text.trim_end().trim_end_matches(')').to_owned();
        calls.push(Call { begin, end: number, at, name: name.to_owned(), text, ok });
    }
    calls
}

/// The ids that occur in a text. In a row of the database no id has an end that one could see.
fn ids_in<'t>(text: &'t str, ids: &HashSet<String>) -> impl Iterator<Item = &'t str> {
    let lengths: BTreeSet<_> = ids.iter().map(String::len).collect();
    let starts = text.match_indices("evt_").map(|(at, _)| at);
    let pieces =
        starts.flat_map(move |at| lengths.clone().into_iter().filter_map(move |length| text.get(at..at + length)));
    pieces.filter(|piece| ids.contains(*piece))
}

/// The bytes of the first string of a call.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.split_once('"').map_or("", |(_, rest)| rest).bytes().peekable();
    while let Some(byte) = rest.next().filter(|&byte| byte != b'"') {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|next| (b'0'..=b'7').contains(next)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                bytes.push(u8::try_from(value).unwrap());
            }
            Some(b't') => bytes.push(b'\t'),
            Some(b'n') => bytes.push(b'\n'),
            Some(b'v') => bytes.push(0x0B),
            Some(b'f') => bytes.push(0x0C),
            Some(b'r') => bytes.push(b'\r'),
            Some(other) => bytes.push(other),
            None => break,
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], early: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, lines.join("\n")).unwrap();
        let ids = HashSet::from(["evt_1".to_owned(), "evt_2".to_owned()]);
        assert_eq!(Seen::read(&path, 47, &ids).early(), early);
    }

    const READ: &str =
        r#"7 1.0 recvfrom(5<TCP:[127.0.0.1:47->127.0.0.1:1]>, "POST / \"evt_1\"", 9, 0, NULL, NULL) = 9"#;
    const FIRST: &str = r#"8 1.1 pwrite64(6<REG:/x/inbox.db-wal>, "\0\0\0\1\0\0\0\0abcdefghabcdefgh", 24, 32) = 24"#;
    const LAST: &str = r#"8 1.1 pwrite64(6<REG:/x/inbox.db-wal>, "\0\0\0\1\0\0\0\201abcdefghabcdefgh", 24, 32) = 24"#;
    const PAGE: &str = r#"8 1.1 pwrite64(6<REG:/x/inbox.db-wal>, "\0evt_1evt_1in", 8192, 56) = 8192"#;
    const OTHER: &str = r#"8 1.1 pwrite64(6<REG:/x/inbox.db-wal>, "\0", 8192, 56) = 8192"#;
    const FLUSH: &str = "8     1.2 fdatasync(6<REG:/x/inbox.db-wal>) = 0";
    const FAILED: &str = "8 1.2 fdatasync(6<REG:/x/inbox.db-wal>) = -1 EIO (Input/output error) (INJECTED)";
    const ANSWER: &str =
        r#"7 1.3 writev(5<TCP:[127.0.0.1:47->127.0.0.1:1]>, [{iov_base="HTTP/1.1 200 OK\r\n", iov_len=17}], 1) = 17"#;

    #[test]
    fn an_answer_is_early_unless_a_flush_of_its_whole_transaction_has_ended() {
        check(&[READ, LAST, PAGE, FLUSH, ANSWER], &[]);
        check(&[READ, FIRST, PAGE, LAST, OTHER, FLUSH, ANSWER], &[]);
        check(&[READ, LAST, PAGE, ANSWER, FLUSH], &["evt_1"]);
        check(&[READ, FLUSH, LAST, PAGE, ANSWER], &["evt_1"]);
        check(&[READ, FIRST, PAGE, FLUSH, LAST, OTHER, ANSWER], &["evt_1"]);
        check(&[READ, LAST, PAGE, FAILED, ANSWER], &["evt_1"]);
        check(&[READ, LAST, PAGE, ANSWER], &["evt_1"]);
        let (half, other_half) =
            ("8 1.2 fdatasync(6<REG:/x/inbox.db-wal> <unfinished ...>", "8 1.4 <... fdatasync resumed>) = 0");
        check(&[READ, LAST, PAGE, half, other_half, ANSWER], &[]);
        check(&[READ, LAST, PAGE, half, ANSWER, other_half], &["evt_1"]);
    }
}
