//! The rule for calls that wait: each has a row in the table "Calls that wait" of its crate's
//! front page, with its plain, `try_`, `_timeout` and `_async` form, or with the alternative to a
//! form that does not exist.
//!
//! The calls are those of `docs/api` that have a `_timeout` or an `_async` form. Such a call, and each other call in the
//! first column of the table, also has a row in `docs/decisions/deadlocks.md`, which says what happens on an own worker.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Deserialize;

use super::forks::calls;
use super::spans;
use crate::packages;
use crate::workspace::Workspace;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Waits {
    /// Types whose calls need no row, and calls that do not wait.
    except: Vec<String>,
    /// Crates whose calls need a row in the page about deadlocks.
    deadlocks: Vec<String>,
}

const DEADLOCKS: &str = "docs/decisions/deadlocks.md";

/// Returns the offences.
pub(super) fn check(workspace: &Workspace, waits: &Waits) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    let deadlocks = workspace.read(DEADLOCKS)?;
    for name in packages::libraries(workspace)? {
        let Ok(list) = workspace.read(format!("docs/api/{name}.txt")) else {
            continue; // `names` reports it.
        };
        let calls = calls(&name, &list)?.into_keys().collect();
        let page = workspace.read(format!("crates/{name}/src/lib.rs"))?;
        if waits.deadlocks.contains(&name) {
            let found = waits.compare_deadlocks(&name, &calls, &page, &deadlocks);
            offences.extend(found.map(|offence| format!("{DEADLOCKS}: {offence}")));
        }
        let found = waits.compare(&calls, &page);
        offences.extend(found.map(|offence| format!("crates/{name}/src/lib.rs: {offence}")));
    }
    Ok(offences)
}

impl Waits {
    fn compare(&self, calls: &BTreeSet<String>, page: &str) -> impl Iterator<Item = String> {
        let rows = page.lines().filter_map(|line| {
            let row = line.strip_prefix("//! | ")?.strip_suffix(" |")?;
            Some(row.split(" | ").collect())
        });
        let rows: Vec<Vec<&str>> = rows.collect();
        let mut offences = Vec::new();
        for (of, name) in self.waiting(calls) {
            let forms = ["N", "try_N", "N_timeout", "N_async"].map(|it| it.replace('N', &name));
            // By any of its forms: an async call may have no plain one.
            let row = rows.iter().find(|row| {
                let mut pairs = row.iter().zip(&forms);
                row.len() == 4 && pairs.any(|(cell, form)| mentions(cell, &of, form))
            });
            let Some(row) = row else {
                offences.push(format!("lacks `{of}::{name}`"));
                continue;
            };
            for (cell, form) in row.iter().zip(&forms) {
                let exists = calls.contains(&format!("{of}::{form}"));
                let is_linked = mentions(cell, &of, form);
                if exists && !is_linked {
                    offences.push(format!("lacks `{of}::{form}`"));
                } else if is_linked && !exists && *form != name {
                    offences.push(format!("has `{of}::{form}`, which does not exist"));
                }
                if cell.trim().is_empty() {
                    offences.push(format!("lacks the alternative to `{of}::{form}`"));
                }
            }
        }
        let say = |offence| format!("the table of calls that wait {offence}");
        offences.into_iter().map(say)
    }

    /// Compares the calls of a crate that wait with the first column of its section in the page about deadlocks.
    fn compare_deadlocks(
        &self,
        name: &str,
        calls: &BTreeSet<String>,
        page: &str,
        deadlocks: &str,
    ) -> impl Iterator<Item = String> {
        let title = format!("`{name}`\n");
        let mut sections = deadlocks.split("\n## ");
        let section = sections.find_map(|section| section.strip_prefix(&title));
        let firsts = section.unwrap_or_default().lines().filter_map(|line| {
            let row = line.strip_prefix("| ")?;
            row.split(" | ").next()
        });
        let rows: BTreeSet<String> = firsts.flat_map(spans).map(str::to_owned).collect();
        let mut needed: BTreeSet<String> = (self.waiting(calls).into_iter())
            .map(|(of, name)| format!("{of}::{name}"))
            .collect();
        for row in page.lines().filter_map(|line| line.strip_prefix("//! | ")) {
            let columns: Vec<&str> = row.split(" | ").collect();
            if let [waits, _, _, _] = columns[..] {
                needed.extend(linked(waits).filter(|call| calls.contains(call)));
            }
        }
        let lacks: Vec<String> = (needed.difference(&rows))
            .map(|call| format!("{name}: lacks a row of `{call}`, which waits"))
            .collect();
        let is_gone = |row: &&String| row.contains("::") && !is_call(calls, row);
        let gone: Vec<String> = (rows.iter().filter(is_gone))
            .map(|row| format!("{name}: has a row of `{row}`, which docs/api does not list"))
            .collect();
        lacks.into_iter().chain(gone)
    }

    /// Types, and the names of their calls that wait.
    fn waiting(&self, calls: &BTreeSet<String>) -> BTreeSet<(String, String)> {
        let waiting = calls.iter().filter_map(|call| {
            let (of, name) = call.rsplit_once("::")?;
            let limited = name.strip_suffix("_async");
            let name = limited.unwrap_or(name);
            let name = name.strip_suffix("_timeout").or(limited)?;
            // A task builder's part of a call is hidden, too.
            let is_hidden = of.starts_with("internals::");
            let plain = format!("{of}::{name}");
            let is_meant = !is_hidden && !self.except.iter().any(|it| *it == of || *it == plain);
            is_meant.then(|| (of.to_owned(), name.to_owned()))
        });
        waiting.collect()
    }
}

/// The calls that a cell links to.
fn linked(cell: &str) -> impl Iterator<Item = String> {
    let targets = cell
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    targets
        .chain(spans(cell))
        .filter(|call| call.contains("::"))
        .map(str::to_owned)
}

/// Whether the list has a call in one of its forms: an async call may have no plain one.
fn is_call(calls: &BTreeSet<String>, call: &str) -> bool {
    ["", "_timeout", "_async"]
        .iter()
        .any(|form| calls.contains(&format!("{call}{form}")))
}

/// Whether a cell links to a call.
fn mentions(cell: &str, of: &str, name: &str) -> bool {
    cell.contains(&format!("{of}::{name})")) || cell.contains(&format!("[`{of}::{name}`]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(row: &str) -> Vec<String> {
        let waits = Waits {
            except: vec!["Options".to_owned()],
            deadlocks: Vec::new(),
        };
        let calls = "Q::take Q::take_async Q::wait_timeout_async Options::busy_timeout";
        let calls = calls.split(' ').map(str::to_owned).collect();
        let page = format!("//! | {row} |\n//! | [`Q::wait`] | a | b | c |\n");
        waits.compare(&calls, &page).collect()
    }

    #[test]
    fn the_page_about_deadlocks_has_a_row_of_each_call_that_waits() {
        let waits = Waits {
            except: Vec::new(),
            deadlocks: Vec::new(),
        };
        let calls = "Q::take_async Q::wait Q::len"
            .split(' ')
            .map(str::to_owned)
            .collect();
        let page = "//! | [`wait`](Q::wait) | a | b | c |\n//! | [`len`](Q::len) | no |\n";
        let offences = |rows: &str| -> Vec<String> {
            let text = format!("# T\n\n## `other`\n| `Q::x` |\n\n## `q`\n\n{rows}\n## End\n");
            waits.compare_deadlocks("q", &calls, page, &text).collect()
        };
        assert_eq!(
            offences("| `Q::take` | x |\n| `Q::wait` | `Q::y` |"),
            [""; 0]
        );
        assert_eq!(offences("| `Q::take` | x |\n").len(), 1);
        assert_eq!(offences("| `Q::wait` | x |\n").len(), 1);
        assert_eq!(offences("| `Q::take`, `Q::wait`, `Q::gone` | x |").len(), 1);
        assert_eq!(offences("").len(), 2);
    }

    #[test]
    fn a_row_links_to_each_form_or_says_what_to_use_instead() {
        let right = "[`Q::take`] | `len` | no | [`take_async`](Q::take_async)";
        assert_eq!(offences(right), [""; 0]);
        for (from, to) in [
            ("[`Q::take`]", "other"),
            ("`len`", "[`try_take`](Q::try_take)"),
            ("no", ""),
            ("(Q::take_async)", "(Q::take)"),
        ] {
            assert_eq!(offences(&right.replace(from, to)).len(), 1, "{to}");
        }
    }
}
