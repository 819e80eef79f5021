//! What was answered to which event: the witness in a drill.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts answers by event id and by status; on request writes each of them to a file as well.
///
/// A line of the file is `id status` and reaches the kernel before [`Ledger::record`] returns, so
/// it survives the death of this process (not of the machine).
#[derive(Debug, Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    file: Option<File>,
    line: Vec<u8>,
    successes: HashMap<String, u32>,
    statuses: BTreeMap<u16, u64>,
    failed_writes: u64,
}

impl Ledger {
    /// A ledger in memory only.
    pub fn new() -> Self {
        Self::default()
    }

    /// A ledger that also appends to the file at `path`.
    pub fn appending_to(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { inner: Mutex::new(Inner { file: Some(file), ..Inner::default() }) })
    }

    /// Notes that the event `id` was answered with `status`.
    pub fn record(&self, id: &str, status: u16) {
        let mut inner = self.lock();
        *inner.statuses.entry(status).or_default() += 1;
        if (200..300).contains(&status) {
            if let Some(count) = inner.successes.get_mut(id) {
                *count += 1;
            } else {
                inner.successes.insert(id.to_owned(), 1);
            }
        }
        inner.append(id, status);
    }

    /// How many times the event `id` was answered 2xx.
    pub fn successes_of(&self, id: &str) -> u32 {
        self.lock().successes.get(id).copied().unwrap_or(0)
    }

    /// Every event that was answered 2xx, and how many times.
    pub fn successes(&self) -> HashMap<String, u32> {
        self.lock().successes.clone()
    }

    /// How many events were answered 2xx.
    pub fn events(&self) -> usize {
        self.lock().successes.len()
    }

    /// How many answers there were of each status.
    pub fn statuses(&self) -> BTreeMap<u16, u64> {
        self.lock().statuses.clone()
    }

    /// How many lines could not be written; a drill that finds any has no witness.
    pub fn failed_writes(&self) -> u64 {
        self.lock().failed_writes
    }

    /// Reads the file of a ledger: each event's statuses in the order of writing.
    ///
    /// A last line without its end was cut off by a kill, and is left out.
    pub fn read(path: &Path) -> io::Result<BTreeMap<String, Vec<u16>>> {
        let text = std::fs::read_to_string(path)?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut answers: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for line in whole.lines() {
            let (id, status) = line
                .rsplit_once(' ')
                .and_then(|(id, status)| Some((id, status.parse().ok()?)))
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("no ledger line: {line:?}")))?;
            answers.entry(id.to_owned()).or_default().push(status);
        }
        Ok(answers)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// One line in one write, unbuffered.
    fn append(&mut self, id: &str, status: u16) {
        let Some(file) = &mut self.file else { return };
        self.line.clear();
        let written = writeln!(self.line, "{id} {status}").and_then(|()| file.write_all(&self.line));
        self.failed_writes += u64::from(written.is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_counts_and_its_file_can_be_read_even_when_cut_off() {
        let path = std::env::temp_dir().join(format!("stripe-guard-ledger-{}.txt", std::process::id()));
        let ledger = Ledger::appending_to(&path).unwrap();
        for (id, status) in [("evt_1", 500), ("evt_1", 200), ("evt_2", 204), ("evt_1", 200)] {
            ledger.record(id, status);
        }
        assert_eq!((ledger.successes_of("evt_1"), ledger.events(), ledger.failed_writes()), (2, 2, 0));
        assert_eq!(ledger.statuses(), BTreeMap::from([(200, 2), (204, 1), (500, 1)]));

        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"evt_3 2").unwrap();
        let read = Ledger::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, BTreeMap::from([("evt_1".into(), vec![500, 200, 200]), ("evt_2".into(), vec![204])]));
    }
}
