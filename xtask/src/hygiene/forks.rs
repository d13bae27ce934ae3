//! The rule for forked children: each public call that may wait has a case that makes it in one.
//!
//! The calls are read from `docs/api`, the cases from the tables (`testkit::fork_cases!`) in
//! `tests/it/forks.rs` of each crate. A call that may wait, by its name or its result, needs a
//! case, or a line in `xtask/hygiene.toml` with the reason why it cannot wait for another thread.
//! Such a line must match a call of its crate. A case must match a call of any crate, because a
//! crate may implement another's calls, as `multi-pool` does with those of `WorkerPool`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace::Workspace;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forks {
    crates: Vec<String>,
    words: Vec<String>,
    results: Vec<String>,
    /// By reason and crate.
    never: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// Returns the offences.
pub(super) fn check(workspace: &Workspace, forks: &Forks) -> Result<Vec<String>> {
    let mut lists = Vec::new();
    for name in &forks.crates {
        let list = workspace.read(format!("docs/api/{name}.txt"))?;
        lists.push((&**name, calls(name, &list)?));
    }
    let mut offences = Vec::new();
    for (name, calls) in &lists {
        let file = format!("crates/{name}/tests/it/forks.rs");
        let has_cases = workspace.root.join(&file).exists();
        let cases = has_cases.then(|| workspace.read(&file)).transpose()?;
        let cases = cases.map_or_else(BTreeSet::new, |text| cases_of(&text));
        offences.extend(compare(forks, name, calls, &cases));
        offences.extend(without_a_call(name, &cases, &lists));
    }
    Ok(offences)
}

/// Returns the calls of a crate without a case, and the lines that match none of its calls.
fn compare(forks: &Forks, name: &str, calls: &Calls, cases: &BTreeSet<String>) -> Vec<String> {
    let never = forks.never.values().filter_map(|crates| crates.get(name));
    let never: Vec<&String> = never.flatten().collect();
    let mut unused: BTreeSet<_> = never.iter().copied().collect();
    let mut offences = Vec::new();
    for (call, results) in calls {
        if !results.iter().any(|result| forks.may_wait(call, result)) {
            continue;
        }
        match never.iter().find(|never| covers(never, call)) {
            Some(never) => _ = unused.remove(never),
            None if cases.contains(call) => {}
            None => offences.push(format!(
                "{name}: `{call}` may wait, and no case in tests/it/forks.rs makes the call in a forked child"
            )),
        }
    }
    offences.extend(unused.into_iter().map(|call| {
        format!("{name}: `{call}` is listed as never waiting, but matches no call that may wait")
    }));
    offences
}

/// Returns a crate's cases that match no call of any crate.
fn without_a_call(name: &str, cases: &BTreeSet<String>, lists: &[(&str, Calls)]) -> Vec<String> {
    let is_call = |case: &String| lists.iter().any(|(_, calls)| calls.contains_key(case));
    let unknown = cases.iter().filter(|&case| !is_call(case));
    let say = |case| {
        format!("{name}: tests/it/forks.rs has a case of `{case}`, which docs/api does not list")
    };
    unknown.map(say).collect()
}

/// Calls with their results: two implementations of one trait may differ in these.
pub(super) type Calls = BTreeMap<String, BTreeSet<String>>;

/// The calls of a crate's list.
pub(super) fn calls(name: &str, list: &str) -> Result<Calls> {
    let mut calls = Calls::new();
    for line in list.lines() {
        if let Some((call, result)) = call(name, line)? {
            calls.entry(call).or_default().insert(result.to_owned());
        }
    }
    Ok(calls)
}

/// Parses a function in a line of a list: its path without the crate, its prelude and generics, and
/// the text of its result. `None` for other items, and for other crates' types and blanket
/// implementations, because those of the trait count. `None` for the hidden methods that
/// `TaskBuilder` calls, because its own methods count.
fn call<'l>(name: &str, line: &'l str) -> Result<Option<(String, &'l str)>> {
    let Some(at) = line.find("fn ").filter(|_| line.starts_with("pub ")) else {
        return Ok(None);
    };
    let (path, rest) = path(&line[at + 3..])
        .with_context(|| format!("docs/api/{name}.txt: no function: {line}"))?;
    let result = rest.rsplit_once(" -> ").map_or("", |(_, result)| result);
    let own = format!("{}::", name.replace('-', "_"));
    let is_hidden = path.contains("_with_options");
    let call = path.strip_prefix(&own).filter(|_| !is_hidden);
    let call = call.map(|call| call.strip_prefix("prelude::").unwrap_or(call));
    Ok(call.map(|call| (call.to_owned(), result)))
}

/// The path of a function without generics, and the text after it.
pub(super) fn path(signature: &str) -> Option<(String, &str)> {
    let (mut path, mut depth, mut before) = (String::new(), 0, ' ');
    for (at, letter) in signature.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            '(' if depth == 0 => return Some((path, &signature[at..])),
            _ if depth == 0 => path.push(letter),
            _ => {}
        }
        before = letter;
    }
    None
}

impl Forks {
    fn may_wait(&self, call: &str, result: &str) -> bool {
        let (of, name) = call.rsplit_once("::").unwrap_or(("", call));
        // Errors are values, and predicates do not wait.
        let is_value = of.ends_with("Error") || name.starts_with("is_");
        let mut words = name.split('_');
        let by_name = words.any(|word| self.words.iter().any(|it| it == word));
        let by_result = self.results.iter().any(|it| result.contains(&**it));
        !is_value && (by_name || by_result)
    }
}

/// Whether a line covers the call.
fn covers(never: &str, call: &str) -> bool {
    match never.strip_suffix('*') {
        Some(start) => call.starts_with(start),
        None => never == call,
    }
}

/// The calls in the tables of a test file: see `testkit::fork_cases!`.
fn cases_of(text: &str) -> BTreeSet<String> {
    let mut cases = BTreeSet::new();
    for line in text.lines() {
        let mut rest = line.trim_start();
        while let Some((case, after)) = rest.strip_prefix('"').and_then(|it| it.split_once('"')) {
            let after = after.trim_start();
            if after.starts_with('|') || after.starts_with("=>") {
                cases.insert(case.to_owned());
            }
            rest = after.trim_start_matches('|').trim_start();
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
pub struct pool_core::Keyed<K, S>
pub fn pool_core::Keyed<K, S>::keys(&self) -> usize
pub fn pool_core::Keyed<K, S>::spawn<F: core::ops::FnOnce() -> T, T>(&self, F) -> core::result::Result<T, E>
pub const fn pool_core::Keyed<K, S>::peek(&self) -> pool_core::JoinError
pub fn pool_core::prelude::blocking<T>(impl FnOnce() -> T) -> T
pub fn pool_core::Never::submit()
pub fn P::submit(&self)
";

    fn forks() -> Forks {
        let text = "crates = []\nwords = ['spawn', 'blocking', 'submit']\nresults = ['JoinError']\n\
                    [never.x]\npool-core = ['Never::*']\nother = ['Keyed::*']\n";
        toml::from_str(text).expect("it is well-formed")
    }

    fn offences(cases: &[&str]) -> Vec<String> {
        let cases = cases.iter().map(|&case| case.to_owned()).collect();
        let calls = calls("pool-core", LIST).expect("it is a list");
        compare(&forks(), "pool-core", &calls, &cases)
    }

    #[test]
    fn a_call_that_may_wait_by_name_or_by_result_needs_a_case() {
        assert!(offences(&["Keyed::spawn", "Keyed::peek", "blocking"]).is_empty());
        let missing = offences(&["Keyed::peek", "blocking"]);
        assert_eq!(missing.len(), 1);
        assert!(missing[0].contains("`Keyed::spawn` may wait"));
        assert_eq!(offences(&[]).len(), 3);
    }

    #[test]
    fn a_case_needs_a_call_of_any_crate() {
        let other = "pub fn other::Own::call(&self)\n";
        let lists = [("pool-core", LIST), ("other", other)];
        let lists = lists.map(|(name, list)| (name, calls(name, list).expect("it is a list")));
        let cases = ["Keyed::spawn", "Own::call", "Keyed::gone"].map(str::to_owned);
        let stale = without_a_call("other", &cases.into(), &lists);
        assert_eq!(stale.len(), 1);
        assert!(stale[0].contains("a case of `Keyed::gone`"));
    }

    #[test]
    fn a_line_about_a_removed_call_is_an_offence() {
        let list = LIST.replace("Never", "Gone");
        let calls = calls("pool-core", &list).expect("it is a list");
        let all = compare(&forks(), "pool-core", &calls, &BTreeSet::new());
        let expected = "`Never::*` is listed as never waiting";
        assert!(all.iter().any(|it| it.contains(expected)), "{all:?}");
    }

    #[test]
    fn cases_are_the_paths_at_the_start_of_a_line() {
        let text = "    \"A::b\" => x(\"no case\");\n\"c\" | \"D::e\" => y;\n  \"g\"\n\n  z(\"f\" => 1);\n";
        let cases: Vec<_> = cases_of(text).into_iter().collect();
        assert_eq!(cases, ["A::b", "D::e", "c"]);
    }
}
