//! The report of the mutants: a line each, and a summary.

use super::Fate;
use super::list::Mutant;

/// Whether the fate is the one that the list expects.
pub(crate) fn is_right(mutant: &Mutant, fate: &Fate) -> bool {
    match fate {
        Fate::Killed { .. } => mutant.equivalent.is_none(),
        Fate::Survived => mutant.equivalent.is_some(),
        Fate::TimedOut { .. } | Fate::Broken => false,
    }
}

/// The fate as text.
pub(crate) fn verdict(mutant: &Mutant, fate: &Fate) -> String {
    match (fate, &mutant.equivalent) {
        (Fate::Killed { by, .. }, Some(_)) => format!("NOT EQUIVALENT: killed by {by}"),
        (Fate::Killed { by, cause }, None) => format!("{by} ({cause})"),
        (Fate::TimedOut { by }, _) => format!("TIMED OUT in {by}"),
        (Fate::Broken, _) => "DOES NOT COMPILE".to_owned(),
        (Fate::Survived, Some(_)) => "equivalent".to_owned(),
        (Fate::Survived, None) => "SURVIVED".to_owned(),
    }
}

/// The summary in one line.
pub(crate) fn summary(fates: &[(&Mutant, Fate)]) -> String {
    let count = |wanted: fn(&Fate) -> bool| fates.iter().filter(|(_, fate)| wanted(fate)).count();
    let equivalent = fates.iter().filter(|it| it.0.equivalent.is_some());
    format!(
        "cmutants: {} mutants: {} killed, {} survived ({} listed as equivalent), {} timed out, {} broken",
        fates.len(),
        count(|fate| matches!(fate, Fate::Killed { .. })),
        count(|fate| matches!(fate, Fate::Survived)),
        equivalent.count(),
        count(|fate| matches!(fate, Fate::TimedOut { .. })),
        count(|fate| matches!(fate, Fate::Broken)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Cause;

    fn mutant(equivalent: bool) -> Mutant {
        let equivalent = equivalent.then(|| "why".to_owned());
        Mutant {
            id: "a".to_owned(),
            equivalent,
            ..Mutant::default()
        }
    }

    fn killed() -> Fate {
        Fate::Killed {
            by: "x::m".to_owned(),
            cause: Cause::Deadlock,
        }
    }

    #[test]
    fn only_a_failing_test_kills_and_only_an_equivalent_mutant_may_survive() {
        let (real, equivalent) = (mutant(false), mutant(true));
        assert!(is_right(&real, &killed()) && is_right(&equivalent, &Fate::Survived));
        let timed_out = || Fate::TimedOut {
            by: "test x::t".to_owned(),
        };
        for fate in [timed_out(), Fate::Broken] {
            assert!(!is_right(&real, &fate) && !is_right(&equivalent, &fate));
        }
        assert!(!is_right(&real, &Fate::Survived) && !is_right(&equivalent, &killed()));
        assert_eq!(verdict(&real, &timed_out()), "TIMED OUT in test x::t");
        assert_eq!(
            verdict(&equivalent, &killed()),
            "NOT EQUIVALENT: killed by x::m"
        );
    }
}
