//! The rule for forked children: each public call that may wait has a case that makes it in one.
//!
//! The calls are those of `docs/api`, the cases those of the tables (`testkit::fork_cases!`) in `tests/it/forks.rs`
//! of each crate. A call that may wait, by its name or its result, needs a case, or a line in [`NEVER`] that says
//! why it cannot wait for another thread. A case, or such a line, needs a call.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Those whose calls wait for threads of the process. (`durable-queue` waits for stores as well:
/// the tests of its stores fork.)
const CRATES: [&str; 7] = [
    "anthill",
    "dedup-queue",
    "delay-queue",
    "multi-pool",
    "pool-core",
    "scheduled-pool",
    "worker-queue",
];

/// A call may wait if its name has one of these words ..
const WORDS: [&str; 30] = [
    "async", "batch", "blocking", "channel", "close", "deadline", "drain", "drop", "each", "get",
    "invoke", "join", "map", "next", "park", "poll", "pop", "push", "release", "reserve", "scope",
    "shut", "spawn", "stop", "stream", "submit", "take", "timeout", "until", "wait",
];

/// .. or its result names one of these types.
const RESULTS: [&str; 9] = [
    "Drained",
    "Future",
    "GetError",
    "JoinError",
    "PushError",
    "SubmitError",
    "TakeError",
    "WaitError",
    "ScheduleError",
];

/// What looks as if it may wait, and does not: a crate, a call or all of a type's, and why.
const NEVER: &[(&str, &str, &str)] = &[
    ("dedup-queue", "TokenBucket::*", "answers how long to wait"),
    ("delay-queue", "AsyncIoClock::park_until", "ends at a time"),
    ("delay-queue", "DelayHeap::*", CONTAINER),
    ("delay-queue", "DelayQueue::reserve", "allocates"),
    ("delay-queue", "DelayQueue::try_reserve", "allocates"),
    ("delay-queue", "DrainReady::*", CONTAINER),
    ("delay-queue", "IntoIter::*", CONTAINER),
    ("delay-queue", "Iter::*", CONTAINER),
    ("delay-queue", "TokioClock::park_until", "ends at a time"),
    ("delay-queue", "wait::*", INTERNAL),
    ("multi-pool", "Loads::*", VALUE),
    ("multi-pool", "MultiWorkerPool::deadline", "reads the clock"),
    ("pool-core", "Builder::*", VALUE),
    ("pool-core", "CancelToken::drop_guard", VALUE),
    ("pool-core", "Closures::*", "called where tasks run"),
    ("pool-core", "Func::*", "called where tasks run"),
    ("pool-core", "FuncJob::*", VALUE),
    ("pool-core", "Map::into_stream", VALUE),
    ("pool-core", "Runner::*", "called where tasks run"),
    ("pool-core", "Task::*", VALUE),
    (
        "pool-core",
        "TaskGroup::spawn_with_options",
        "hidden: `TaskGroup::task` is its face",
    ),
    (
        "pool-core",
        "TaskGroup::submit_with_options",
        "hidden: `TaskGroup::task` is its face",
    ),
    ("pool-core", "WorkerPool::deadline", "reads the clock"),
    ("pool-core", "Workers::deadline", "reads the clock"),
    ("pool-core", "internals::*", INTERNAL),
    ("scheduled-pool", "SeriesHandle::next_due", "a figure"),
    ("scheduled-pool", "UnstartedSchedule::*", VALUE),
    ("scheduled-pool", "internals::*", INTERNAL),
    ("worker-queue", "IdleQueue::*", CONTAINER),
];
const CONTAINER: &str = "a container without a lock";
const VALUE: &str = "a value of the caller's alone";
const INTERNAL: &str = "for the other crates, whose own calls have cases";

/// Names the offences.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for name in CRATES {
        let api = format!("docs/api/{name}.txt");
        let list = workspace.read(&api)?;
        let file = format!("crates/{name}/tests/it/forks.rs");
        let has_cases = workspace.root.join(&file).exists();
        let cases = has_cases.then(|| workspace.read(&file)).transpose()?;
        let cases = cases.map_or_else(BTreeSet::new, |text| cases_of(&text));
        offences.extend(compare(name, &list, &cases)?);
    }
    Ok(offences)
}

/// What is wrong between a crate's list and its cases.
fn compare(name: &str, list: &str, cases: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    let mut unused: BTreeSet<_> = NEVER.iter().filter(|never| never.0 == name).collect();
    let (mut all, mut waiting) = (BTreeSet::new(), BTreeSet::new());
    for line in list.lines() {
        let Some((call, result)) = call(name, line)? else {
            continue;
        };
        all.insert(call.clone());
        if !may_wait(&call, result) {
            continue;
        }
        let never = NEVER
            .iter()
            .find(|never| never.0 == name && covers(never.1, &call));
        match never {
            Some(never) => _ = unused.remove(never),
            None => _ = waiting.insert(call),
        }
    }
    offences.extend(waiting.difference(cases).map(|call| {
        format!(
            "{name}: `{call}` may wait, and no case in tests/it/forks.rs makes the call in a forked child"
        )
    }));
    let unknown = cases.difference(&all);
    offences.extend(unknown.map(|case| {
        format!("{name}: tests/it/forks.rs has a case of `{case}`, which docs/api does not list")
    }));
    offences.extend(unused.into_iter().map(|(_, call, _)| {
        format!("{name}: `{call}` is said to never wait, and nothing like it looks as if it did")
    }));
    Ok(offences)
}

/// The function that a line of a list is, without the crate and without generics, and the text of its result.
/// `None` for other items, and for other crates' types and blanket implementations: those of the trait count.
fn call<'l>(name: &str, line: &'l str) -> Result<Option<(String, &'l str)>> {
    let Some(at) = line.find("fn ").filter(|_| line.starts_with("pub ")) else {
        return Ok(None);
    };
    let signature = &line[at + 3..];
    let (mut path, mut depth, mut before, mut rest) = (String::new(), 0, ' ', None);
    for (at, letter) in signature.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            '(' if depth == 0 => {
                rest = Some(&signature[at..]);
                break;
            }
            _ if depth == 0 => path.push(letter),
            _ => {}
        }
        before = letter;
    }
    let rest = rest.with_context(|| format!("docs/api/{name}.txt: no function: {line}"))?;
    let result = rest.rsplit_once(" -> ").map_or("", |(_, result)| result);
    let own = format!("{}::", name.replace('-', "_"));
    Ok(path
        .strip_prefix(&own)
        .map(|call| (call.to_owned(), result)))
}

fn may_wait(call: &str, result: &str) -> bool {
    let (of, name) = call.rsplit_once("::").unwrap_or(("", call));
    // Errors are values. What asks whether something is so does not wait for it.
    let is_value = of.ends_with("Error") || name.starts_with("is_");
    let by_name = name.split('_').any(|word| WORDS.contains(&word));
    let by_result = RESULTS.iter().any(|it| result.contains(it));
    !is_value && (by_name || by_result)
}

/// Whether a line of [`NEVER`] means the call.
fn covers(never: &str, call: &str) -> bool {
    match never.strip_suffix('*') {
        Some(start) => call.starts_with(start),
        None => never == call,
    }
}

/// The calls of the tables in a file of tests: see `testkit::fork_cases!`.
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
pub fn pool_core::blocking<T>(impl FnOnce() -> T) -> T
pub fn P::submit(&self)
";

    fn offences(cases: &[&str]) -> Vec<String> {
        let cases = cases.iter().map(|&case| case.to_owned()).collect();
        let all = compare("pool-core", LIST, &cases).expect("it is a list");
        let of_cases = |offence: &String| !offence.contains("is said to never wait");
        all.into_iter().filter(of_cases).collect()
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
    fn a_case_needs_a_call() {
        let stale = offences(&["Keyed::spawn", "Keyed::peek", "blocking", "Keyed::gone"]);
        assert_eq!(stale.len(), 1);
        assert!(stale[0].contains("a case of `Keyed::gone`"));
    }

    #[test]
    fn a_line_about_a_call_that_is_gone_is_an_offence() {
        let all = compare("pool-core", LIST, &BTreeSet::new()).expect("it is a list");
        let about = |call: &str| {
            all.iter()
                .any(|it| it.contains(call) && it.contains("never wait"))
        };
        assert!(about("`WorkerPool::deadline`"));
    }

    #[test]
    fn cases_are_the_paths_at_the_begin_of_a_line() {
        let text = "    \"A::b\" => x(\"no case\");\n\"c\" | \"D::e\" => y;\n  \"g\"\n\n  z(\"f\" => 1);\n";
        let cases: Vec<_> = cases_of(text).into_iter().collect();
        assert_eq!(cases, ["A::b", "D::e", "c"]);
    }
}
