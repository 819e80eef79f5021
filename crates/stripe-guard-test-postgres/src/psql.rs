//! SQL through `psql`, so that no driver of the product's is tested with itself.

use std::io::Write as _;
use std::process::Stdio;

use crate::programs::{binary, clean};

/// The address of a database, as any client takes it.
pub(crate) fn url(port: u16, database: &str) -> String {
    format!("postgres://{}@127.0.0.1:{port}/{database}", crate::USER)
}

/// Runs the statements one by one, up to the first that fails. The answer is what they returned, a line for each row,
/// with `|` between columns; the error is what `psql` says of it.
pub(crate) fn run(url: &str, sql: &str) -> Result<String, String> {
    let mut command = clean(&binary("psql"));
    command.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d", url]);
    command.env("PGCONNECT_TIMEOUT", "10");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("psql starts");
    let mut input = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        // Beside the reading: either pipe may be full. What psql no longer reads, it says itself.
        scope.spawn(move || drop(input.write_all(sql.as_bytes())));
        child.wait_with_output().expect("psql ends")
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A value or a name as a string of SQL or of the configuration.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
