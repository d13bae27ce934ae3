//! The rules for Rust files.

use std::path::Path;

use anyhow::Result;

use crate::workspace::Workspace;

/// What only `sync-shim` may name: the rest of the workspace could not be modelled otherwise.
const DOOR: &[&str] = &[
    "std::sync::atomic",
    "core::sync::atomic",
    "std::thread",
    "Instant::now",
    "parking_lot",
    "parking_lot_core",
    "loom",
];
/// The door itself, and the crate that watches tests from outside of any model.
const DOORKEEPERS: [&str; 2] = ["crates/sync-shim/", "crates/testkit/"];
/// A file beside the door, and what it alone may name: a counter of a crate that is built without
/// `std`, which `sync-shim` needs. Nothing is published through it, so no model misses it.
const BESIDE_THE_DOOR: (&str, &str) = (
    "crates/delay-queue/src/heap/unique.rs",
    "core::sync::atomic",
);
/// Crates that have no need of unsafe code and say so.
const SAFE: [&str; 6] = [
    "worker-queue",
    "delay-queue",
    "dedup-queue",
    "multi-pool",
    "scheduled-pool",
    "anthill",
];
/// A longer file holds more than one idea.
const MOST_LINES: usize = 900;

/// Names the offences in all Rust files.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for path in workspace.files("")? {
        if path.extension().is_some_and(|extension| extension == "rs") {
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

fn check_file(path: &Path, text: &str) -> Vec<String> {
    let mut offences = Vec::new();
    let mut offend = |line: usize, what: &str| {
        offences.push(format!("{}:{line}: {what}", path.display()));
    };
    let is_crate = path.starts_with("crates");
    let folder = path
        .components()
        .nth(2)
        .map(|part| part.as_os_str().to_owned());
    let in_src = is_crate && folder.as_ref().is_some_and(|folder| folder == "src");
    let in_tests = is_crate && folder.as_ref().is_some_and(|folder| folder == "tests");

    let behind_the_door = !DOORKEEPERS.iter().any(|keeper| path.starts_with(keeper));
    for (line, statement) in statements(text) {
        if in_src && behind_the_door {
            for name in DOOR.iter().filter(|name| names(&statement, name)) {
                if path == Path::new(BESIDE_THE_DOOR.0) && *name == BESIDE_THE_DOOR.1 {
                    continue;
                }
                offend(line, &format!("only sync-shim may name {name}"));
            }
        }
        if statement.starts_with("#[ignore]") {
            offend(line, "a test is ignored without a reason");
        }
        if in_tests && names(&statement, "thread::sleep") {
            offend(line, "a test sleeps; move a clock by hand instead");
        }
    }
    let lines = text.lines().count();
    if in_src && lines > MOST_LINES {
        offend(lines, &format!("more than {MOST_LINES} lines"));
    }
    offences
}

/// The code, without comments and texts, each line with its number. Imports are written out as
/// one path each, so that `use std::{thread, sync::Arc}` names `std::thread`.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut statements = Vec::new();
    let mut import: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let code = without_texts(line);
        let code = code
            .split_once("//")
            .map_or(&*code, |(code, _)| code)
            .trim();
        let begins = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
        match &mut import {
            Some((_, tree)) => tree.push_str(code),
            None if begins.iter().any(|begin| code.starts_with(begin)) => {
                import = Some((index + 1, code.to_owned()));
            }
            None => statements.push((index + 1, code.to_owned())),
        }
        if import.as_ref().is_some_and(|(_, tree)| tree.contains(';')) {
            let (line, tree) = import.take().unwrap_or_default();
            let tree = tree.split_once("use ").map_or("", |(_, tree)| tree);
            let tree = tree.split(';').next().unwrap_or_default();
            statements.extend(paths("", tree).into_iter().map(|path| (line, path)));
        }
    }
    statements
}

/// The line without what stands between double quotes.
fn without_texts(line: &str) -> String {
    let line = line.replace("\\\"", "").replace("'\"'", "");
    line.split('"').step_by(2).collect()
}

/// Every path that the import `tree` names, below `prefix`.
fn paths(prefix: &str, tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((head, group)) = tree.split_once('{') else {
        return vec![format!("{prefix}{tree}")];
    };
    let prefix = format!("{prefix}{}", head.trim());
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let mut parts = vec![String::new()];
    let mut depth = 0_usize;
    for character in group.chars() {
        match character {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| paths(&prefix, &part)).collect()
}

/// Whether `name` stands in `code` as a whole path or the beginning of one: followed by nothing
/// that continues its last word, and preceded by nothing that continues its first.
fn names(code: &str, name: &str) -> bool {
    let word = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(name).any(|(index, _)| {
        let before = code[..index].chars().next_back();
        let after = code[index + name.len()..].chars().next();
        !before.is_some_and(word) && !after.is_some_and(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(path: &str, text: &str) -> usize {
        check_file(Path::new(path), text).len()
    }

    const SRC: &str = "crates/pool-core/src/pool.rs";
    const TEST: &str = "crates/pool-core/tests/it/pool.rs";

    #[test]
    fn the_door_is_found_in_paths_imports_and_groups() {
        for text in [
            "let now = std::time::Instant::now();",
            "use std::sync::atomic::AtomicUsize;",
            "use std::sync::{Arc, atomic::AtomicUsize};",
            "use std::{\n    sync::Arc,\n    thread,\n};",
            "pub use core::{sync::atomic::{self, Ordering}};",
            "use parking_lot::Mutex;",
            "std::thread::yield_now();",
            "fn f() { loom::thread::yield_now() }",
        ] {
            assert_ne!(offences(SRC, text), 0, "{text}");
        }
    }

    #[test]
    fn the_door_may_be_named_in_comments_in_the_shim_and_in_tests() {
        let text = "use std::sync::{Arc, atomic::AtomicUsize};";
        assert_eq!(offences("crates/sync-shim/src/lib.rs", text), 0);
        assert_eq!(offences(TEST, text), 0);
        assert_eq!(
            offences(
                SRC,
                "//! use std::thread;\n/// std::thread\nf(); // std::thread"
            ),
            0
        );
    }

    #[test]
    fn one_file_beside_the_door_may_name_atomics_and_nothing_else() {
        let (path, name) = BESIDE_THE_DOOR;
        assert_eq!(offences(path, &format!("use {name}::AtomicUsize;")), 0);
        assert_eq!(offences(path, "use std::thread;"), 1);
        assert_ne!(offences(SRC, &format!("use {name}::AtomicUsize;")), 0);
    }

    #[test]
    fn names_that_only_look_like_the_door_pass() {
        for text in [
            "use sync_shim::atomic::AtomicUsize;",
            "use sync_shim::{atomic::AtomicUsize, thread};",
            "#[cfg(anthill_loom)]",
            "fn bloom() {}",
            "#[expect(dead_code, reason = \"loom has no \\\" const\")]",
            "fn f() -> char { '\"' } // std::thread",
            "use std::sync::Arc;\nuse sync_shim::thread;",
        ] {
            assert_eq!(offences(SRC, text), 0, "{text}");
        }
    }

    #[test]
    fn ignored_and_sleeping_tests_are_offences() {
        assert_eq!(offences(TEST, "    #[ignore]"), 1);
        assert_eq!(offences(TEST, "    #[ignore = \"needs a day\"]"), 0);
        assert_eq!(offences(TEST, "std::thread::sleep(TICK);"), 1);
        assert_eq!(offences(TEST, "use std::thread::{sleep, spawn};"), 1);
        assert_eq!(
            offences("crates/pool-core/examples/a.rs", "thread::sleep(TICK);"),
            0
        );
    }

    #[test]
    fn a_long_file_is_an_offence() {
        let text = "\n".repeat(MOST_LINES);
        assert_eq!(offences(SRC, &text), 0);
        assert_eq!(offences(SRC, &(text + "\n")), 1);
    }
}
