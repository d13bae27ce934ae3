//! What the plots have in common.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::bench::report::{Outcome, Role, Row};
use crate::bench::statistics::{Ratio, Verdict};
use crate::bench::words;

pub(crate) fn per_cent(value: f64) -> String {
    format!("{value:.2}%")
}

/// The pools of a case, best first, those that failed last.
pub(crate) fn sorted(row: &Row) -> Vec<&Outcome> {
    let mut outcomes: Vec<&Outcome> = row.pools.iter().collect();
    let rank = |outcome: &Outcome| match outcome.headline() {
        Some(figure) => figure.ratio.map_or(figure.median, |ratio| ratio.middle),
        None => f64::INFINITY,
    };
    outcomes.sort_by(|a, b| {
        let failed = |outcome: &Outcome| outcome.figures.is_err();
        failed(a).cmp(&failed(b)).then(rank(a).total_cmp(&rank(b)))
    });
    outcomes
}

/// The name of a pool, which also says what it is to the comparison.
pub(crate) fn pool_name(outcome: &Outcome) -> Markup {
    let class = match outcome.role {
        Role::Ours => "pool ours",
        Role::Peer => "pool",
        Role::Yardstick => "pool yardstick",
    };
    html! { span class=(class) { (outcome.pool) } }
}

/// The headline and its ratio.
pub(crate) fn value(outcome: &Outcome) -> Markup {
    let Some(figure) = outcome.headline() else {
        return html! { span.value.behind { "failed" } };
    };
    html! {
        span.value {
            span.median { (words::number(figure.median)) }
            @if let (true, Some(of)) = (outcome.role != Role::Ours, figure.ratio) {
                span.ratio.(colour(of)) { (words::ratio(of)) }
                span.interval { (words::interval(of)) }
            }
        }
    }
}

/// The class that a verdict is shown in.
pub(crate) fn colour(ratio: Ratio) -> &'static str {
    match ratio.verdict() {
        Verdict::Ahead => "ahead",
        Verdict::WithinNoise => "noise",
        Verdict::Behind => "behind",
    }
}

/// All that is known of a pool in a case.
pub(crate) fn tooltip(outcome: &Outcome) -> String {
    let figures = match &outcome.figures {
        Ok(figures) => figures,
        Err(sentence) => return format!("{}: {sentence}", outcome.pool),
    };
    let mut text = outcome.pool.clone();
    for figure in figures {
        let [median, min, max] = [figure.median, figure.min, figure.max].map(words::number);
        let (metric, unit) = (&figure.metric, &figure.unit);
        let _ = write!(text, "\n{metric}: {median} {unit} ({min} to {max})");
    }
    text
}
