//! Rules for models: code that they do not cover is listed, and their results are checked.

use std::collections::BTreeSet;

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
    for (name, text) in workspace.texts("crates", ".rs")? {
        let is_source = name.split('/').nth(2) == Some("src");
        if is_model(&name) {
            offences.extend(discards(&name, &text));
        } else if is_source && differs(&text) {
            different.insert(name);
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
    let files = rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned()));
    Ok(files.collect())
}

fn is_model(path: &str) -> bool {
    let mut parts = path.split('/').skip(2);
    parts.next() == Some("tests")
        && parts
            .next()
            .is_some_and(|it| it.trim_end_matches(".rs") == "loom")
}

/// A model that discards a result cannot detect that it is wrong, so it must give a reason.
fn discards(name: &str, text: &str) -> Vec<String> {
    let mut offences = Vec::new();
    let mut before = "";
    for (index, line) in text.lines().map(str::trim_start).enumerate() {
        // A discarded reference only makes a closure capture something.
        let discards = line.starts_with("let _ = ") && !line.starts_with("let _ = &");
        if discards && ![before, line].iter().any(|it| it.contains("// Ignored: ")) {
            let line = index + 1;
            offences.push(format!(
                "{name}:{line}: a model discards a result without `// Ignored: why`"
            ));
        }
        before = line;
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_depends_on_the_cfg_differs_and_tests_and_comments_do_not() {
        for (text, expected) in [
            ("#[cfg(anthill_loom)]\nmod twin;", true),
            ("    if cfg!(anthill_loom) {", true),
            ("#[cfg(all(unix, not(anthill_loom)))]", true),
            ("fn f() {}", false),
            ("//! under `--cfg anthill_loom`", false),
            ("#[cfg(all(test, not(anthill_loom)))]\nmod tests {}", false),
            ("#[cfg(all(doctest, not(anthill_loom)))]", false),
        ] {
            assert_eq!(differs(text), expected, "{text}");
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
            assert_eq!(is_model(path), expected, "{path}");
        }
    }
}
