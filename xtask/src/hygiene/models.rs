//! Rules for models: code that they do not cover is listed, and their results are checked.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Contains the table of code that differs in a model, between these markers.
const PAGE: &str = "docs/testing.md";
const BEGIN: &str = "<!-- cfg:begin -->\n";
const END: &str = "<!-- cfg:end -->";

/// Returns the offences.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    let mut different = BTreeSet::new();
    for path in workspace.files("crates")? {
        let name = path.to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = workspace.read(&path)?;
        match name.split('/').nth(2) {
            Some("src") if differs(&text) => _ = different.insert(name),
            Some("tests") if is_model(&path) => offences.extend(discards(&name, &text)),
            _ => {}
        }
    }
    let listed = listed(&workspace.read(PAGE)?)?;
    let missing = different.difference(&listed);
    offences.extend(missing.map(|file| {
        format!("{file}: differs in a model, and has no row in {PAGE} that names the tests of the hidden code")
    }));
    let stale = listed.difference(&different);
    offences.extend(stale.map(|file| format!("{PAGE}: {file} does not differ in a model")));
    Ok(offences)
}

/// Whether code depends on the models' cfg, except tests and documentation.
fn differs(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let of_tests = line.contains("all(test,") || line.contains("all(doctest,");
        line.contains("anthill_loom") && !line.starts_with("//") && !of_tests
    })
}

/// The files in the table's first column.
fn listed(page: &str) -> Result<BTreeSet<String>> {
    let table = page
        .split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END))
        .with_context(|| format!("{PAGE} lacks the table between {} and {END}", BEGIN.trim()))?;
    let rows = table.0.lines().filter_map(|row| row.strip_prefix("| `"));
    Ok(rows
        .filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
        .collect())
}

fn is_model(path: &Path) -> bool {
    let mut parts = path.components().skip(3);
    let name = parts.next().map(std::path::Component::as_os_str);
    name.is_some_and(|name| name == "loom" || name == "loom.rs")
}

/// A model that discards a result cannot detect that it is wrong, so it must give a reason.
fn discards(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_explained = |line: &str| line.contains("// Ignored: ");
    lines
        .iter()
        .enumerate()
        .filter(|(index, line)| {
            let line = line.trim_start();
            // A discarded reference only makes a closure capture something.
            let discards = line.starts_with("let _ = ") && !line.starts_with("let _ = &");
            let before = index.checked_sub(1).map_or("", |before| lines[before]);
            discards && !is_explained(line) && !is_explained(before)
        })
        .map(|(index, _)| {
            let line = index + 1;
            format!("{name}:{line}: a model discards a result without `// Ignored: why`")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_depends_on_the_cfg_differs_and_tests_and_comments_do_not() {
        for text in [
            "#[cfg(anthill_loom)]\nmod twin;",
            "    if cfg!(anthill_loom) {",
            "#[cfg(all(unix, not(anthill_loom)))]",
        ] {
            assert!(differs(text), "{text}");
        }
        for text in [
            "fn f() {}",
            "//! under `--cfg anthill_loom`",
            "#[cfg(all(test, not(anthill_loom)))]\nmod tests {}",
            "#[cfg(all(doctest, not(anthill_loom)))]",
        ] {
            assert!(!differs(text), "{text}");
        }
    }

    #[test]
    fn the_table_names_files_in_its_first_column() {
        let page = format!("x\n{BEGIN}| file | `b.rs` |\n|---|---|\n| `a.rs` | `c.rs` |\n{END}\n");
        let files: Vec<_> = listed(&page).expect("it is there").into_iter().collect();
        assert_eq!(files, ["a.rs"]);
        assert!(listed("no table").is_err());
    }

    #[test]
    fn a_discarded_result_needs_a_reason() {
        for (text, expected) in [
            ("    let _ = wait();", 1),
            ("    let _ = wait(); // Ignored: either is right.", 0),
            ("    // Ignored: either is right.\n    let _ = wait();", 0),
            ("    let _ = &captured;\n    let answer = wait();", 0),
        ] {
            assert_eq!(discards("m.rs", text).len(), expected, "{text}");
        }
    }

    #[test]
    fn models_are_the_tests_in_loom_files() {
        for (path, expected) in [
            ("crates/a/tests/loom.rs", true),
            ("crates/a/tests/loom/life.rs", true),
            ("crates/a/tests/it/loom.rs", false),
            ("crates/a/src/lib.rs", false),
        ] {
            assert_eq!(is_model(Path::new(path)), expected, "{path}");
        }
    }
}
