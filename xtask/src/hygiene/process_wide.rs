//! The rule for state that exists once per process or per thread, and for threads: each static, each
//! thread-local and each file that starts threads has a row in a page, which tells what a fork, a refused
//! thread, an exit and a special starting thread do to it.
//!
//! A row's first cell has the file, from the folder `crates` on, and the names; `threads` stands for the
//! threads that the file starts.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::{is_word, spans};
use crate::packages;
use crate::workspace::Workspace;

const PAGE: &str = "docs/decisions/process-wide.md";
const THREADS: &str = "threads";
/// Calls that start a thread.
const STARTS: [&str; 4] = [
    "spawn_service(",
    "spawn_thread(",
    "thread::spawn(",
    "thread::Builder",
];
/// The file that defines them.
const DEFINES: &str = "sync-shim/src/thread.rs";

/// The names of each file.
type Names = BTreeMap<String, BTreeSet<String>>;

/// Returns the offences.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut found = Names::new();
    for name in packages::libraries(workspace)? {
        for (file, text) in workspace.texts(&format!("crates/{name}/src"), ".rs")? {
            let file = file.trim_start_matches("crates/").to_owned();
            let names = names_in(&text, file == DEFINES);
            if !names.is_empty() && !file.ends_with("/tests.rs") {
                found.insert(file, names);
            }
        }
    }
    Ok(compare(&found, &listed(&workspace.read(PAGE)?)))
}

/// The statics of a source file, and `threads` if it starts any.
fn names_in(text: &str, defines: bool) -> BTreeSet<String> {
    let code = text.split("\nmod tests {").next().unwrap_or(text);
    let code = code.lines().map(str::trim);
    let code = code.filter(|line| !line.starts_with("//"));
    let mut names = BTreeSet::new();
    for line in code {
        // In a `thread_local!` of one line, too.
        if let Some((before, rest)) = line.split_once("static ")
            && !before.ends_with(is_word)
            && !before.ends_with('\'')
        {
            let name: String = rest
                .trim_start_matches("mut ")
                .chars()
                .take_while(|it| is_word(*it))
                .collect();
            let is_constant = !name.is_empty() && name.chars().all(|it| !it.is_lowercase());
            names.extend(is_constant.then_some(name));
        }
        if !defines && !line.starts_with("use ") && STARTS.iter().any(|start| line.contains(start))
        {
            names.insert(THREADS.to_owned());
        }
    }
    names
}

/// The names of the page's rows: in a first cell, those before a file are in the file, and in the files
/// that follow it directly.
fn listed(page: &str) -> Names {
    let mut listed = Names::new();
    for line in page.lines() {
        let first = line
            .strip_prefix("| ")
            .and_then(|row| row.split(" | ").next());
        let (mut names, mut is_over) = (BTreeSet::new(), false);
        for span in spans(first.unwrap_or_default()) {
            if span.contains(".rs") {
                let names = names.iter().cloned();
                listed.entry(span.to_owned()).or_default().extend(names);
                is_over = true;
            } else {
                if std::mem::take(&mut is_over) {
                    names.clear();
                }
                names.insert(span.to_owned());
            }
        }
    }
    listed
}

fn compare(found: &Names, listed: &Names) -> Vec<String> {
    let each = |all: &Names| -> BTreeSet<(String, String)> {
        let pairs = all
            .iter()
            .map(|(file, names)| names.iter().map(|name| (file.clone(), name.clone())));
        pairs.flatten().collect()
    };
    let (found, listed) = (each(found), each(listed));
    let missing = found
        .difference(&listed)
        .map(|(file, name)| format!("lacks `{name}` of `{file}`"));
    let stale = listed
        .difference(&found)
        .map(|(file, name)| format!("has `{name}`, which is not in `{file}`"));
    missing
        .chain(stale)
        .map(|offence| format!("{PAGE}: {offence}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
        // static COMMENT: u8 = 0;\n\
        static COUNT: AtomicUsize = AtomicUsize::new(0);\n\
        fn of(name: &'static str) -> impl Fn() + 'static {\n\
            static INNER: PerProcess<u8> = PerProcess::new();\n\
            thread_local!(static OWN: Cell<u8> = const { Cell::new(0) });\n\
        }\n\
        mod tests {\n\
            static OF_A_TEST: u8 = 0;\n\
        }\n";

    #[test]
    fn statics_thread_locals_and_threads_are_found_in_code_only() {
        let names = |text: &str| names_in(text, false).into_iter().collect::<Vec<_>>();
        assert_eq!(names(SOURCE), ["COUNT", "INNER", "OWN"]);
        assert_eq!(names("use sync_shim::thread::{spawn_thread};"), [""; 0]);
        assert_eq!(
            names("let thread = spawn_service(options, body)?;"),
            ["threads"]
        );
        assert!(names_in("pub fn spawn_thread(", true).is_empty());
    }

    #[test]
    fn a_page_lists_each_name_and_no_other() {
        let mut found = Names::from([("a/src/b.rs".to_owned(), names_in(SOURCE, false))]);
        let all = "| `COUNT`, `INNER` in `a/src/b.rs` | `more` |\n| `OWN` of `a/src/b.rs`; `A`, `B` of `c.rs`, `d.rs` | |\n";
        for file in ["c.rs", "d.rs"] {
            found.insert(file.to_owned(), ["A", "B"].map(str::to_owned).into());
        }
        assert_eq!(compare(&found, &listed(all)), [""; 0]);
        found.retain(|file, _| file == "a/src/b.rs");
        let offences = |page: &str| compare(&found, &listed(page));
        assert_eq!(
            offences("| `COUNT`, `OWN`, `GONE` in `a/src/b.rs` | |"),
            [
                "docs/decisions/process-wide.md: lacks `INNER` of `a/src/b.rs`",
                "docs/decisions/process-wide.md: has `GONE`, which is not in `a/src/b.rs`",
            ]
        );
    }
}
