//! The rules for Rust files that clippy does not know. What only `sync-shim` may name stands in
//! `xtask/primitives/clippy.toml`, that tests do not sleep in `crates/clippy.toml`.

use std::path::Path;

use anyhow::Result;

use crate::workspace::Workspace;

/// Crates that have no need of unsafe code and say so.
const SAFE: [&str; 10] = [
    "worker-queue",
    "delay-queue",
    "durable-queue",
    "durable-queue-postgres",
    "durable-queue-redis",
    "durable-queue-sqlite",
    "dedup-queue",
    "multi-pool",
    "scheduled-pool",
    "anthill",
];
/// A longer file holds more than one idea.
const MOST_LINES: usize = 900;

/// Names the offences in the sources of all crates.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for path in workspace.files("crates")? {
        if path
            .components()
            .nth(2)
            .is_some_and(|part| part.as_os_str() == "src")
        {
            offences.extend(check_file(&path, &workspace.read(&path)?));
        }
    }
    for name in SAFE {
        let path = format!("crates/{name}/src/lib.rs");
        if !workspace.read(&path)?.contains("\n#![forbid(unsafe_code)]") {
            offences.push(format!("{path}: lacks #![forbid(unsafe_code)]"));
        }
    }
    Ok(offences)
}

fn check_file(path: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MOST_LINES)
        .then(|| format!("{}:{lines}: more than {MOST_LINES} lines", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_an_offence() {
        let text = "\n".repeat(MOST_LINES);
        let path = Path::new("crates/a/src/lib.rs");
        assert_eq!(check_file(path, &text), None);
        assert!(check_file(path, &(text + "\n")).is_some());
    }
}
