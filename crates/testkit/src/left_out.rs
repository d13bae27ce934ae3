//! Reports of tests that the machine cannot run.

use std::collections::BTreeSet;
use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The environment variable with the path of a file that gets a line for each report. `cargo xtask
/// test` sets it.
const FILE: &str = "TESTKIT_LEFT_OUT";

/// Reports that a test passes without having run: the part that was left out, and the reason. Each pair
/// is reported once per process, on stderr or in the file that the environment variable
/// `TESTKIT_LEFT_OUT` names.
///
/// # Panics
/// If the line cannot be written.
pub fn left_out(what: &str, why: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = format!("{what} ({why})");
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.insert(line.clone()) {
        return;
    }
    let written = match env::var_os(FILE) {
        Some(file) => append(Path::new(&file), &line),
        // Writes past the harness, which prints the output of a test only if it fails.
        None => io::stderr().write_all(format!("\nleft out: {line}\n").as_bytes()),
    };
    written.expect("the line can be written");
}

/// One write call, so that lines of several processes do not mix.
fn append(file: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(format!("{line}\n").as_bytes())
}
