//! What is said about the mutants: a line each, a summary, and the table in docs/mutants.md.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use super::list::{DOC, Mutant, row_start};
use super::{Fate, Watcher};
use crate::workspace::Workspace;

const BEGIN: &str = "<!-- cmutants:begin -->\n";
const END: &str = "<!-- cmutants:end -->";

/// Whether the fate is the one that the list promises.
pub(crate) fn is_right(mutant: &Mutant, fate: &Fate) -> bool {
    match fate {
        Fate::Killed { .. } => mutant.equivalent.is_none(),
        Fate::Survived | Fate::Equivalent => mutant.equivalent.is_some(),
        Fate::TimedOut { .. } | Fate::Broken => false,
    }
}

/// The fate in words.
pub(crate) fn verdict(mutant: &Mutant, fate: &Fate) -> String {
    match (fate, &mutant.equivalent) {
        (Fate::Killed { by, .. }, Some(_)) => format!("NOT EQUIVALENT: killed by {by}"),
        (Fate::Killed { by, cause }, None) => format!("killed by {by} ({cause})"),
        (Fate::TimedOut { by }, _) => format!("TIMED OUT in {by}"),
        (Fate::Broken, _) => "DOES NOT COMPILE".to_owned(),
        (Fate::Survived | Fate::Equivalent, Some(reason)) => format!("equivalent: {reason}"),
        (Fate::Survived | Fate::Equivalent, None) => "SURVIVED".to_owned(),
    }
}

/// One line for all.
pub(crate) fn summary(fates: &[(&Mutant, Fate)], time: Duration) -> String {
    let count = |wanted: fn(&Fate) -> bool| fates.iter().filter(|(_, fate)| wanted(fate)).count();
    let equivalent = fates
        .iter()
        .filter(|(mutant, _)| mutant.equivalent.is_some())
        .count();
    format!(
        "cmutants: {} mutants: {} killed ({} by an ordinary test), {} survived, {} timed out, {} broken, \
         {equivalent} listed as equivalent, {:.0} s",
        fates.len(),
        count(|fate| matches!(fate, Fate::Killed { .. })),
        count(|fate| matches!(
            fate,
            Fate::Killed {
                by: Watcher::Test(_),
                ..
            }
        )),
        count(|fate| matches!(fate, Fate::Survived)),
        count(|fate| matches!(fate, Fate::TimedOut { .. })),
        count(|fate| matches!(fate, Fate::Broken)),
        time.as_secs_f32()
    )
}

/// Brings the table between its markers up to date: a row for each of `listed` that was tried now
/// or before.
pub(crate) fn write(
    workspace: &Workspace,
    fates: &[(&Mutant, Fate)],
    listed: &[String],
) -> Result<()> {
    let text = update_table(&workspace.read(DOC)?, fates, listed)
        .with_context(|| format!("{DOC} lacks the markers `{}` and `{END}`", BEGIN.trim_end()))?;
    fs::write(workspace.root.join(DOC), text).context(DOC)
}

fn row((mutant, fate): &(&Mutant, Fate)) -> String {
    let Mutant { id, kind, file, .. } = mutant;
    let fate = verdict(mutant, fate);
    format!("{}{kind} | `{file}` | {fate} |", row_start(id))
}

fn update_table(doc: &str, fates: &[(&Mutant, Fate)], listed: &[String]) -> Option<String> {
    let (before, rest) = doc.split_once(BEGIN)?;
    let (old, after) = rest.split_once(END)?;
    let mut text = format!("{before}{BEGIN}| mutant | kind | file | fate |\n|---|---|---|---|\n");
    for id in listed {
        let tried = fates.iter().find(|(mutant, _)| mutant.id == *id).map(row);
        let known = || old.lines().find(|line| line.starts_with(&row_start(id)));
        if let Some(row) = tried.or_else(|| known().map(str::to_owned)) {
            let _ = writeln!(text, "{row}");
        }
    }
    Some(format!("{text}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Cause;

    fn mutant(equivalent: bool) -> Mutant {
        Mutant {
            id: "a".to_owned(),
            package: "x".to_owned(),
            file: "crates/x/src/lib.rs".to_owned(),
            kind: "notify".to_owned(),
            find: "one".to_owned(),
            replace: "all".to_owned(),
            models: Vec::new(),
            tests: Vec::new(),
            equivalent: equivalent.then(|| "why".to_owned()),
        }
    }

    fn killed() -> Fate {
        Fate::Killed {
            by: Watcher::Model("x::m".to_owned()),
            cause: Cause::Deadlock,
        }
    }

    fn timed_out() -> Fate {
        Fate::TimedOut {
            by: Watcher::Test("x::t".to_owned()),
        }
    }

    #[test]
    fn a_fate_says_whether_a_model_or_a_test_saw_it() {
        let by_test = Fate::Killed {
            by: Watcher::Test("x::t".to_owned()),
            cause: Cause::Abort,
        };
        assert_eq!(
            verdict(&mutant(false), &by_test),
            "killed by test `x::t` (abort)"
        );
        assert_eq!(
            verdict(&mutant(false), &killed()),
            "killed by `x::m` (deadlock)"
        );
        assert_eq!(
            verdict(&mutant(true), &by_test),
            "NOT EQUIVALENT: killed by test `x::t`"
        );
    }

    #[test]
    fn only_a_failing_watcher_kills_and_only_an_equivalent_may_survive() {
        let (real, equivalent) = (mutant(false), mutant(true));
        assert!(is_right(&real, &killed()));
        assert!(is_right(&equivalent, &Fate::Survived));
        assert!(is_right(&equivalent, &Fate::Equivalent));
        for fate in [timed_out(), Fate::Broken] {
            assert!(!is_right(&real, &fate));
            assert!(!is_right(&equivalent, &fate));
        }
        assert!(!is_right(&real, &Fate::Survived));
        assert!(!is_right(&equivalent, &killed()));
    }

    #[test]
    fn a_partial_run_updates_its_rows_and_keeps_those_of_other_listed_mutants() {
        let listed = ["a", "b"].map(str::to_owned);
        let old = "| `a` | notify | `x.rs` | SURVIVED |\n\
                   | `b` | swap | `y.rs` | killed |\n\
                   | `gone` | swap | `z.rs` | killed |\n";
        let doc = format!("before\n{BEGIN}{old}{END}\nafter\n");
        let mutant = mutant(false);
        let new = update_table(&doc, &[(&mutant, killed())], &listed).expect("there are markers");
        let rows = "| `a` | notify | `crates/x/src/lib.rs` | killed by `x::m` (deadlock) |\n\
                    | `b` | swap | `y.rs` | killed |\n";
        assert!(
            new.contains(&format!("|---|---|---|---|\n{rows}{END}")),
            "{new}"
        );
        assert!(
            new.starts_with("before\n") && new.ends_with("\nafter\n"),
            "{new}"
        );
        assert_eq!(update_table("no markers", &[], &listed), None);
    }
}
