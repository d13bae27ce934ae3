//! The rule for calls that wait: each has a row in the table "Calls that wait" of its crate's
//! front page, with its plain, `try_`, `_timeout` and `_async` form, or with the alternative to a
//! form that does not exist.
//!
//! The calls are those of `docs/api` that have a `_timeout` or an `_async` form.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Deserialize;

use super::forks::calls;
use crate::packages;
use crate::workspace::Workspace;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Waits {
    /// Types whose calls need no row, and calls that do not wait.
    except: Vec<String>,
}

/// Returns the offences.
pub(super) fn check(workspace: &Workspace, waits: &Waits) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for name in packages::libraries(workspace)? {
        let Ok(list) = workspace.read(format!("docs/api/{name}.txt")) else {
            continue; // `names` reports it.
        };
        let calls = calls(&name, &list)?.into_keys().collect();
        let page = workspace.read(format!("crates/{name}/src/lib.rs"))?;
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
        };
        let calls = "Q::take Q::take_async Q::wait_timeout_async Options::busy_timeout";
        let calls = calls.split(' ').map(str::to_owned).collect();
        let page = format!("//! | {row} |\n//! | [`Q::wait`] | a | b | c |\n");
        waits.compare(&calls, &page).collect()
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
