//! What is asked of the machine: flush time, CPU time, memory, and a place for files.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PROBES: usize = 100;

/// Ticks of `/proc/PID/stat` in a second: fixed in the interface of Linux.
const TICKS: f64 = 100.0;

/// A folder of its own under `TMPDIR`, or else under the build folder: the same disk for all.
pub fn folder() -> tempfile::TempDir {
    let place = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    tempfile::Builder::new().prefix("inbox").tempdir_in(place).unwrap()
}

/// The median time of writing 4 KiB and flushing them with `fdatasync`.
pub fn flush_time() -> Duration {
    let folder = folder();
    let mut file = File::create(folder.path().join("probe")).unwrap();
    file.write_all(&vec![1; 64 * 4096]).unwrap();
    file.sync_data().unwrap();
    let mut took: Vec<Duration> = (0..PROBES)
        .map(|n| {
            let began = Instant::now();
            file.seek(SeekFrom::Start(n as u64 % 64 * 4096)).unwrap();
            file.write_all(&[2; 4096]).unwrap();
            file.sync_data().unwrap();
            began.elapsed()
        })
        .collect();
    took.sort();
    took[PROBES / 2]
}

/// CPU time of a process, user and system, over all its threads.
pub fn cpu_seconds(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name may hold blanks; what follows its closing bracket does not.
    let fields: Vec<&str> = text[text.rfind(')').unwrap() + 1..].split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / TICKS
}

/// Resident memory of a process now and at its highest, in MiB.
pub fn resident_mib(pid: u32) -> (f64, f64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// Bytes that a process has sent to the disk.
pub fn written_bytes(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|count| count.parse().ok()).unwrap_or(f64::NAN)
}

/// The middle of some figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
