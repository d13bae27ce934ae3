//! The report as one page that needs nothing but a browser: no network, no scripts.

mod charts;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plan::Chart;
use super::report::{Group, Outcome, Report, Role, Row};
use super::statistics::{Ratio, Verdict};
use super::summary::Summary;
use super::words;

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(crate) fn page(report: &Report) -> Result<String> {
    let names = names(report);
    let sections = names.iter().enumerate();
    let sections = sections.map(|(index, name)| section(report, index, name));
    let sections: Vec<Markup> = sections.collect::<Result<_>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "anthill beside its peers" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (head(report))
                main {
                    @if Summary::of_report(report).cases() > 0 {
                        (summary(report, &names))
                    }
                    (failures(report))
                    @for section in sections { (section) }
                    (crates(report))
                }
            }
        }
    };
    Ok(page.into_string())
}

/// The names of the groups, each once: what is oversubscribed stands in the same section.
fn names(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = report.groups.iter().map(|group| &*group.name).collect();
    names.dedup();
    names
}

fn group<'a>(report: &'a Report, name: &str, oversubscribed: bool) -> Option<&'a Group> {
    let mut groups = report.groups.iter();
    groups.find(|group| group.name == name && group.oversubscribed == oversubscribed)
}

fn head(report: &Report) -> Markup {
    html! {
        header {
            h1 { "anthill beside its peers" }
            @if Summary::of_report(report).cases() > 0 {
                p.verdict { "It is " (Summary::of_report(report).sentence()) "." }
            }
            dl.origin {
                @for (name, value) in report.origin.lines() {
                    div { dt { (name) } dd { (value) } }
                }
                @if report.rounds > 0 {
                    div { dt { "rounds" } dd { (report.rounds) } }
                }
            }
        }
    }
}

fn summary(report: &Report, names: &[&str]) -> Markup {
    let oversubscribed = report.groups.iter().any(|group| group.oversubscribed);
    html! {
        section {
            table.summary {
                thead {
                    tr {
                        th { "Beside the best peer of each case" }
                        th.who { "which is" }
                        th colspan="2" { "alone" }
                        @if oversubscribed {
                            th colspan="2" { "oversubscribed" }
                        }
                    }
                }
                tbody {
                    @for (index, name) in names.iter().enumerate() {
                        tr {
                            td { a href=(format!("#g{index}")) { (name) } }
                            td.who { (best_peers(group(report, name, false))) }
                            (summary_cells(group(report, name, false)))
                            @if oversubscribed {
                                (summary_cells(group(report, name, true)))
                            }
                        }
                    }
                }
            }
            p.legend {
                "Factors are geometric means over a group's cases: above 1 anthill is better than \
                 the peer that does best in each case. The counts are cases in which it is "
                span.count.ahead { "ahead" } ", "
                span.count.noise { "within noise" } " and "
                span.count.behind { "behind" }
                ". Below, each pool has its median, its factor and the interval of 95 % of that \
                 factor; ≈ means that the interval contains 1 (with 3 or 4 rounds it is all that \
                 their ranges allow; fewer tell nothing). Whiskers span all rounds, thin bars are \
                 CPU time, cut bars go on. Oversubscribed means beside one spinning process for \
                 each core. A pool in italics is a yardstick, no peer."
            }
        }
    }
}

fn best_peers(group: Option<&Group>) -> String {
    group.map_or_else(String::new, |group| group.best_peers().join(", "))
}

fn summary_cells(group: Option<&Group>) -> Markup {
    let Some(summary) = group.map(Summary::of_group).filter(|of| of.cases() > 0) else {
        return html! { td colspan="2" {} };
    };
    let counts = [
        ("ahead", summary.ahead),
        ("noise", summary.within_noise),
        ("behind", summary.behind),
    ];
    html! {
        td.factor { (summary.factor()) }
        td.counts {
            @for (class, count) in counts {
                @if count == 0 {
                    span.count.none { "0" }
                } @else {
                    span.count.(class) title=(class) { (count) }
                }
            }
        }
    }
}

fn failures(report: &Report) -> Markup {
    html! {
        @if report.failures().next().is_some() {
            section.failures {
                h2 { "Failed" }
                ul {
                    @for (row, outcome, sentence) in report.failures() {
                        li { code { (row.case) } " " (outcome.pool) ": " (sentence) }
                    }
                }
            }
        }
    }
}

fn section(report: &Report, index: usize, name: &str) -> Result<Markup> {
    let alone = group(report, name, false);
    let beside = group(report, name, true);
    let questions = alone.or(beside).map(Group::questions).unwrap_or_default();
    let with_questions = questions.len() > 1;
    Ok(html! {
        section id=(format!("g{index}")) {
            p.group { (name) }
            @if let [question] = &questions[..] {
                h2 { (question) }
            } @else {
                h2 { (name) }
            }
            @if let Some(group) = alone {
                (cards(group, with_questions)?)
            }
            @if let Some(group) = beside {
                details open[alone.is_none()] {
                    summary { "Oversubscribed: " (Summary::of_group(group).sentence()) }
                    (cards(group, with_questions)?)
                }
            }
            details {
                summary { "All figures" }
                @for group in [alone, beside].into_iter().flatten() {
                    (figures(group))
                }
            }
        }
    })
}

fn cards(group: &Group, with_questions: bool) -> Result<Markup> {
    let (points, others): (Vec<&Row>, Vec<&Row>) = group
        .rows
        .iter()
        .partition(|row| group.chart == Chart::Scaling && row.x.is_some());
    let mut all = Vec::new();
    for rows in points.chunk_by(|a, b| a.series == b.series) {
        let name = rows[0].series.as_deref().unwrap_or_default();
        all.push((name, rows[0], charts::lines(rows)?));
    }
    for row in others {
        let percentiles = group.chart == Chart::Latency && charts::has_percentiles(row);
        let chart = if percentiles {
            charts::percentiles(row)
        } else {
            charts::bars(row)
        };
        all.push((&row.label, row, chart?));
    }
    Ok(html! {
        div.cards {
            @for (name, row, chart) in all {
                figure {
                    figcaption { (name) (unit(row)) }
                    @if with_questions { p.question { (row.question) } }
                    (PreEscaped(chart))
                }
            }
        }
    })
}

/// The pools of a case, best first, those that failed last.
fn sorted(row: &Row) -> Vec<&Outcome> {
    let rank = |outcome: &Outcome| match outcome.headline() {
        Some(figure) => figure.ratio.map_or(figure.median, |ratio| ratio.middle),
        None => f64::INFINITY,
    };
    let mut outcomes: Vec<&Outcome> = row.pools.iter().collect();
    outcomes.sort_by(|a, b| {
        let failed = a.figures.is_err().cmp(&b.figures.is_err());
        failed.then(rank(a).total_cmp(&rank(b)))
    });
    outcomes
}

/// The class that a verdict is shown in.
fn colour(ratio: Ratio) -> &'static str {
    match ratio.verdict() {
        Verdict::Ahead => "ahead",
        Verdict::WithinNoise => "noise",
        Verdict::Behind => "behind",
    }
}

/// The headline of a case and its unit.
fn unit(row: &Row) -> Markup {
    let metrics = row.metrics();
    let (metric, unit) = metrics.first().copied().unwrap_or_default();
    html! { span.unit { (metric) " " (unit) } }
}

/// Everything that was measured, as a table.
fn figures(group: &Group) -> Markup {
    html! {
        h3 { (group.title()) }
        div.scroll {
            table.figures {
                thead {
                    tr {
                        @for name in ["case", "pool", "metric", "median", "least", "most", "factor", "interval"] {
                            th { (name) }
                        }
                    }
                }
                tbody {
                    @for row in &group.rows {
                        @for outcome in &row.pools {
                            @for (index, figure) in outcome.figures.iter().flatten().enumerate() {
                                tr.first[index == 0] {
                                    td { @if index == 0 { (row.label) } }
                                    td { @if index == 0 { (outcome.pool) } }
                                    td { (figure.metric) " " span.unit { (figure.unit) } }
                                    @for value in [figure.median, figure.min, figure.max] {
                                        td.number { (words::number(value)) }
                                    }
                                    @if let (true, Some(of)) = (outcome.role != Role::Ours, figure.ratio) {
                                        td.number.(colour(of)) { (words::ratio(of)) }
                                        td.number { (words::interval(of)) }
                                    } @else {
                                        td {} td {}
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn crates(report: &Report) -> Markup {
    html! {
        @if !report.crates.is_empty() {
            section {
                p.group { "Benches of the crates" }
                h2 { "What do the parts cost by themselves?" }
                details open[report.groups.is_empty()] {
                    summary { (report.crates.len()) " figures: low, middle, high" }
                    div.scroll {
                        table.figures {
                            @for figure in &report.crates {
                                tr { td { (figure.name) } td.number { (figure.time) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn the_page_has_every_case_and_needs_no_network() {
        let report = example::report();
        let page = page(&report).expect("it can be drawn");
        for group in &report.groups {
            assert!(page.contains(&group.questions()[0].to_owned()), "{group:?}");
            for row in &group.rows {
                assert!(page.contains(&row.label), "{}", row.label);
            }
        }
        for sign in ["http:", "https:", "<script", "url(", "@import", "NaN"] {
            assert!(!page.contains(sign), "{sign}");
        }
        assert!(page.contains("locks/&lt;1&gt;"), "text is escaped");
        assert!(page.contains("it has no bound"));
        assert!(page.contains("prefers-color-scheme"));
    }

    #[test]
    fn each_case_has_its_chart_and_each_series_one() {
        let page = page(&example::report()).expect("it can be drawn");
        // Three cases with bars, one with percentiles, a series of three; each oversubscribed too.
        assert_eq!(page.matches("<svg").count(), 2 * (3 + 1 + 1));
        for mark in ["<rect", "<circle", "<polyline"] {
            assert!(page.contains(mark), "{mark}");
        }
    }
}
