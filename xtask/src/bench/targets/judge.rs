//! From figures to a verdict.

use super::{Ask, Asked, Beside, HEADLINE, Judged, Verdict};
use crate::bench::plan::{Case, SPIN};
use crate::bench::report::{Figure, Outcome, Role, Row};
use crate::bench::statistics::{Better, Ratio};

/// Why the ask can never be judged, if none of `cases` has what it speaks of.
pub(super) fn misnamed(ask: &Ask, cases: &[Case]) -> Option<String> {
    for pattern in ask.cases {
        // Any case may be run oversubscribed.
        let pattern = pattern.strip_suffix(SPIN).unwrap_or(pattern);
        let mut named = cases
            .iter()
            .filter(|case| super::names(pattern, &case.name));
        let has = |case: &Case, name: &str| case.pools.iter().any(|pool| pool == name);
        let found = match ask.beside {
            Beside::Nothing | Beside::Best => named.next().is_some(),
            Beside::Pool(name) => named.any(|case| has(case, name)),
            Beside::BestOf(pools) => pools
                .iter()
                .all(|pool| named.clone().any(|case| has(case, pool))),
            Beside::Ours(word, other) => named.any(|case| {
                let twin = twin(&case.name, word, other);
                twin != case.name && cases.iter().any(|case| case.name == twin)
            }),
            Beside::Tabled(_, table) => {
                named.any(|case| table.iter().any(|(name, _)| *name == case.name))
            }
        };
        if !found {
            return Some(format!("{pattern}: {} {}", ask.metric, ask.beside()));
        }
    }
    None
}

/// What one case gives to an ask: `(theirs, ours)`, a pair for each round.
struct Compared {
    case: String,
    /// `None` if ours has no figure.
    pairs: Option<Vec<(f64, f64)>>,
    better: Better,
}

/// A verdict for each case that the ask names and that it can be compared in; or one for their
/// mean.
pub(super) fn judge(ask: &Ask, rows: &[&Row]) -> Vec<Judged> {
    let named = rows.iter().filter(|row| ask.names(&row.case));
    let compared: Vec<Compared> = named.filter_map(|row| compare(ask, row, rows)).collect();
    if ask.mean {
        return mean(ask, compared).into_iter().collect();
    }
    let each = compared.into_iter().map(|compared| {
        let pairs = compared.pairs.as_deref();
        let ratio = pairs.and_then(|pairs| Ratio::of_pairs(pairs, compared.better));
        judged(ask, compared.case, ratio)
    });
    each.collect()
}

/// The one that decides. Of equal verdicts, the one furthest from what is asked.
pub(super) fn worst<'a>(ask: &Ask, judged: &'a [Judged]) -> Option<&'a Judged> {
    let middle = |judged: &Judged| judged.measured.map_or(0.0, |ratio| ratio.middle);
    judged.iter().max_by(|a, b| {
        let by_middle = match ask.asked {
            Asked::AtMost(_) => middle(a).total_cmp(&middle(b)),
            Asked::AtLeast(_) | Asked::Report => middle(b).total_cmp(&middle(a)),
        };
        a.verdict.cmp(&b.verdict).then(by_middle)
    })
}

fn mean(ask: &Ask, compared: Vec<Compared>) -> Option<Judged> {
    let count = compared.len();
    let better = compared.first()?.better;
    let pairs: Option<Vec<_>> = compared.into_iter().map(|case| case.pairs).collect();
    let ratio = pairs.and_then(|pairs| Ratio::mean_of(&pairs, better));
    Some(judged(ask, format!("mean of {count}"), ratio))
}

fn judged(ask: &Ask, case: String, ratio: Option<Ratio>) -> Judged {
    let measured = ratio.map(|ratio| match ask.asked {
        Asked::AtMost(_) => ratio.inverse(),
        Asked::AtLeast(_) | Asked::Report => ratio,
    });
    let verdict = match (measured, ask.asked) {
        (None, _) => Verdict::Failed,
        (_, Asked::Report) => Verdict::Shown,
        (Some(ratio), Asked::AtLeast(least)) => verdict(ratio.low >= least, ratio.high < least),
        (Some(ratio), Asked::AtMost(most)) => verdict(ratio.high <= most, ratio.low > most),
    };
    Judged {
        case,
        measured,
        verdict,
    }
}

fn verdict(met: bool, not_met: bool) -> Verdict {
    match (met, not_met) {
        (true, _) => Verdict::Met,
        (_, true) => Verdict::NotMet,
        (false, false) => Verdict::WithinNoise,
    }
}

/// `None` if those beside whom ours is to be seen have no figure.
fn compare(ask: &Ask, row: &Row, rows: &[&Row]) -> Option<Compared> {
    let Some(ours) = figure(ask, row, row.pools.first()?) else {
        return Some(Compared {
            case: row.case.clone(),
            pairs: None,
            better: Better::Lower,
        });
    };
    let of = |theirs: &[f64]| {
        let ours_values = ours.values.iter().copied();
        Compared {
            case: row.case.clone(),
            pairs: Some(theirs.iter().copied().zip(ours_values).collect()),
            better: ours.better,
        }
    };
    let constant = |value: f64| of(&vec![value; ours.values.len()]);
    let hardest = |pools: &[&str]| {
        let peers = row.pools.iter().filter(|pool| {
            pool.role == Role::Peer && (pools.is_empty() || pools.contains(&&*pool.pool))
        });
        let figures = peers.filter_map(|pool| figure(ask, row, pool));
        let middle = |figure: &Figure| figure.ratio.map_or(f64::INFINITY, |ratio| ratio.middle);
        figures.min_by(|a, b| middle(a).total_cmp(&middle(b)))
    };
    match ask.beside {
        // Ours is divided by one, so the figure stands where ours divided by theirs stands.
        Beside::Nothing => Some(constant(1.0)),
        Beside::Pool(name) => {
            let theirs = row.pools.iter().find(|pool| pool.pool == name)?;
            Some(of(&figure(ask, row, theirs)?.values))
        }
        Beside::Best => Some(of(&hardest(&[])?.values)),
        Beside::BestOf(pools) => Some(of(&hardest(pools)?.values)),
        Beside::Ours(word, other) => {
            let twin = twin(&row.case, word, other);
            let twin = rows.iter().find(|row| row.case == twin)?;
            Some(of(&figure(ask, twin, twin.pools.first()?)?.values))
        }
        Beside::Tabled(_, table) => {
            let (_, value) = table.iter().find(|(case, _)| *case == row.case)?;
            Some(constant(*value))
        }
    }
}

/// The metric that is asked of, of this pool.
fn figure<'a>(ask: &Ask, row: &Row, pool: &'a Outcome) -> Option<&'a Figure> {
    let metric = match ask.metric {
        HEADLINE => row.metrics().first()?.0,
        metric => metric,
    };
    pool.figure(metric)
}

/// The name with one word in the place of another.
fn twin(case: &str, word: &str, other: &str) -> String {
    let words = case
        .split('/')
        .map(|it| if it == word { other } else { it });
    words.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::cases;
    use crate::bench::report::groups;

    const fn ask(beside: Beside, asked: Asked) -> Ask {
        Ask::of(&["case"], "wall", beside, asked)
    }

    /// Pools with a figure each, the median of seven rounds whose noise is another in each pool.
    fn row(case: &str, pools: &[(&str, f64)]) -> Row {
        use crate::bench::plan::{Choice, Plan};
        use crate::bench::program::Sample;
        use crate::bench::rounds::Runs;

        let names: Vec<_> = pools
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let names = names.join(",");
        let list = format!(r#"{{"case":"{case}","group":"G","question":"?","pools":[{names}]}}"#);
        let choice = Choice {
            alone: true,
            ..Choice::default()
        };
        let plan = Plan::new(&cases(&list).expect("well-formed"), &choice);
        let mut noise = [0.98, 0.99, 1.0, 1.0, 1.0, 1.01, 1.02];
        let runs = pools.iter().map(|(_, value)| {
            noise.rotate_left(3);
            let sample = |noise| Sample {
                metric: "wall".to_owned(),
                unit: "ns".to_owned(),
                value: value * noise,
                better: Better::Lower,
            };
            Runs {
                rounds: noise.map(|noise| vec![sample(noise)]).to_vec(),
                failure: value.is_nan().then(|| "it fell over".to_owned()),
            }
        });
        let mut groups = groups(&plan, &[runs.collect()]);
        groups.remove(0).rows.remove(0)
    }

    fn verdict_of(ask: &Ask, row: &Row) -> Verdict {
        let judged = judge(ask, &[row]);
        assert_eq!(judged.len(), 1, "{judged:?}");
        judged[0].verdict
    }

    #[test]
    fn at_least_asks_how_many_times_better_ours_is() {
        let row = row("case/1", &[("anthill", 10.0), ("rayon", 60.0)]);
        for (least, expected) in [
            (5.0, Verdict::Met),
            (6.0, Verdict::WithinNoise),
            (7.0, Verdict::NotMet),
        ] {
            let ask = ask(Beside::Pool("rayon"), Asked::AtLeast(least));
            assert_eq!(verdict_of(&ask, &row), expected, "{least}");
        }
    }

    #[test]
    fn at_most_asks_how_many_times_theirs_ours_is() {
        let row = row("case/1", &[("anthill", 30.0), ("bare mailbox", 20.0)]);
        for (most, expected) in [
            (1.7, Verdict::Met),
            (1.5, Verdict::WithinNoise),
            (1.3, Verdict::NotMet),
        ] {
            let ask = ask(Beside::Pool("bare mailbox"), Asked::AtMost(most));
            assert_eq!(verdict_of(&ask, &row), expected, "{most}");
        }
    }

    #[test]
    fn a_figure_beside_nothing_is_asked_as_it_is() {
        let three = row("case/1", &[("anthill", 3.0)]);
        let judged = judge(&ask(Beside::Nothing, Asked::AtMost(4.0)), &[&three]);
        let measured = judged[0].measured.expect("it ran");
        assert!((measured.middle - 3.0).abs() < 1e-9, "{measured:?}");
        assert_eq!(judged[0].verdict, Verdict::Met);
        let zero = row("case/1", &[("anthill", 0.0)]);
        let none = ask(Beside::Nothing, Asked::AtMost(0.0));
        assert_eq!(verdict_of(&none, &zero), Verdict::Met);
        assert_eq!(verdict_of(&none, &three), Verdict::NotMet);
    }

    #[test]
    fn the_best_peer_is_the_hardest_to_beat_and_no_yardstick() {
        let pools = [
            ("anthill", 10.0),
            ("rayon", 60.0),
            ("std", 20.0),
            ("bare word", 1.0),
        ];
        let row = row("case/1", &pools);
        let best = ask(Beside::Best, Asked::Report);
        let middle = |ask: &Ask| judge(ask, &[&row])[0].measured.expect("it ran").middle;
        assert!((middle(&best) - 2.0).abs() < 1e-9);
        let of_one = ask(Beside::BestOf(&["rayon"]), Asked::Report);
        assert!((middle(&of_one) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn ours_may_stand_beside_ours_in_another_case() {
        let few = row("case/4p", &[("anthill", 10.0)]);
        let many = row("case/16p", &[("anthill", 18.0)]);
        let beside = Beside::Ours("16p", "4p");
        let ask = Ask::of(&["case/16p"], "wall", beside, Asked::AtMost(2.0));
        let judged = judge(&ask, &[&few, &many]);
        assert_eq!(judged.len(), 1);
        assert!((judged[0].measured.expect("both ran").middle - 1.8).abs() < 1e-9);
        assert_eq!(judged[0].verdict, Verdict::Met);
        assert_eq!(judge(&ask, &[&many]), []);
    }

    #[test]
    fn tabled_figures_are_compared_by_case() {
        const TABLE: &[(&str, f64)] = &[("case/1", 50.0)];
        let ask = ask(Beside::Tabled("it", TABLE), Asked::AtLeast(1.0));
        let (one, two) = (
            row("case/1", &[("anthill", 40.0)]),
            row("case/2", &[("anthill", 1.0)]),
        );
        let judged = judge(&ask, &[&one, &two]);
        assert_eq!(judged.len(), 1);
        assert!((judged[0].measured.expect("it ran").middle - 1.25).abs() < 1e-9);
    }

    #[test]
    fn a_name_that_no_case_has_is_found() {
        const TABLE: &[(&str, f64)] = &[("case/4p", 1.0)];
        let list = r#"
{"case":"case/4p","group":"G","question":"?","pools":["anthill","rayon"]}
{"case":"case/16p","group":"G","question":"?","pools":["anthill","std"]}"#;
        let cases = cases(list).expect("well-formed");
        for (cases_of, beside, good) in [
            (&["case"][..], Beside::Nothing, true),
            (&["case+spin"], Beside::Best, true),
            (&["case", "other"], Beside::Nothing, false),
            (&["case"], Beside::Pool("rayon"), true),
            (&["case/16p"], Beside::Pool("rayon"), false),
            (&["case"], Beside::BestOf(&["rayon", "std"]), true),
            (&["case"], Beside::BestOf(&["rayon", "spin"]), false),
            (&["case/16p"], Beside::Ours("16p", "4p"), true),
            (&["case/16p"], Beside::Ours("16", "4"), false),
            (&["case/4p"], Beside::Tabled("it", TABLE), true),
            (&["case/16p"], Beside::Tabled("it", TABLE), false),
        ] {
            let ask = Ask::of(cases_of, "wall", beside, Asked::Report);
            assert_eq!(misnamed(&ask, &cases).is_none(), good, "{}", ask.beside());
        }
    }

    #[test]
    fn a_metric_that_ours_lacks_is_a_failure() {
        let row = row("case/1", &[("anthill", 10.0), ("rayon", 60.0)]);
        let beside = Beside::Pool("rayon");
        let ask = Ask::of(&["case"], "wal", beside, Asked::AtLeast(1.0));
        assert_eq!(verdict_of(&ask, &row), Verdict::Failed);
    }

    #[test]
    fn a_mean_is_one_judgement_over_all_cases() {
        let rows = [8.0, 2.0].map(|theirs| row("case/1", &[("anthill", 1.0), ("rayon", theirs)]));
        let rows: Vec<&Row> = rows.iter().collect();
        let ask = ask(Beside::Pool("rayon"), Asked::AtLeast(3.9)).mean();
        let judged = judge(&ask, &rows);
        assert_eq!((judged.len(), &*judged[0].case), (1, "mean of 2"));
        assert!((judged[0].measured.expect("both ran").middle - 4.0).abs() < 1e-9);
        assert_eq!(judged[0].verdict, Verdict::Met);
    }

    #[test]
    fn ours_that_failed_is_the_worst_and_theirs_that_failed_is_no_comparison() {
        let good = row("case/1", &[("anthill", 10.0), ("rayon", 60.0)]);
        let ours_failed = row("case/2", &[("anthill", f64::NAN), ("rayon", 60.0)]);
        let theirs_failed = row("case/3", &[("anthill", 10.0), ("rayon", f64::NAN)]);
        for beside in [Beside::Pool("rayon"), Beside::Best] {
            let ask = ask(beside, Asked::AtLeast(1.0));
            let judged = judge(&ask, &[&good, &ours_failed, &theirs_failed]);
            assert_eq!(judged.len(), 2);
            let worst = worst(&ask, &judged).expect("two");
            assert_eq!((worst.verdict, &*worst.case), (Verdict::Failed, "case/2"));
        }
    }

    #[test]
    fn the_worst_case_is_the_one_furthest_from_what_is_asked() {
        let rows = [60.0, 40.0, 50.0].map(|theirs| {
            row(
                &format!("case/{theirs}"),
                &[("anthill", 10.0), ("rayon", theirs)],
            )
        });
        let rows: Vec<&Row> = rows.iter().collect();
        let worst_of = |asked| {
            let ask = ask(Beside::Pool("rayon"), asked);
            worst(&ask, &judge(&ask, &rows)).map(|judged| judged.case.clone())
        };
        assert_eq!(worst_of(Asked::AtLeast(1.0)).as_deref(), Some("case/40"));
        assert_eq!(worst_of(Asked::AtMost(1.0)).as_deref(), Some("case/40"));
    }

    #[test]
    fn what_is_not_met_is_worse_than_what_is_whatever_its_middle() {
        let judged = |case: &str, middle, low, verdict| Judged {
            case: case.to_owned(),
            measured: Some(Ratio {
                middle,
                low,
                high: middle,
            }),
            verdict,
        };
        let ask = ask(Beside::Best, Asked::AtLeast(4.0));
        let sure = judged("sure", 5.0, 4.5, Verdict::Met);
        let unsure = judged("unsure", 6.0, 3.0, Verdict::WithinNoise);
        for both in [[sure.clone(), unsure.clone()], [unsure, sure]] {
            assert_eq!(worst(&ask, &both).map(|it| &*it.case), Some("unsure"));
        }
    }
}
