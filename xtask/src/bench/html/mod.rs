//! The report as one page that needs nothing but a browser: no network, no scripts.

mod axis;
mod bars;
mod latency;
mod parts;
mod scaling;
mod targets;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plan::Chart;
use super::report::{Group, Report, Role, Row};
use super::summary::Summary;
use super::words;
use parts::colour;

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(crate) fn page(report: &Report) -> String {
    let names = names(report);
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
                    @if !report.groups.is_empty() {
                        (summary(report, &names))
                    }
                    (failures(report))
                    @for (index, name) in names.iter().enumerate() {
                        (section(report, index, name))
                    }
                    (crates(report))
                    (targets::section(report))
                }
            }
        }
    };
    page.into_string()
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
            @if !report.groups.is_empty() {
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

fn section(report: &Report, index: usize, name: &str) -> Markup {
    let alone = group(report, name, false);
    let beside = group(report, name, true);
    let Some(any) = alone.or(beside) else {
        return html! {};
    };
    let questions = any.questions();
    html! {
        section id=(format!("g{index}")) {
            p.group { (name) }
            @if let [question] = &questions[..] {
                h2 { (question) }
            } @else {
                h2 { (name) }
            }
            @if let Some(group) = alone {
                (cards(group, questions.len() > 1))
            }
            @if let Some(group) = beside {
                details open[alone.is_none()] {
                    summary { "Oversubscribed: " (Summary::of_group(group).sentence()) }
                    (cards(group, questions.len() > 1))
                }
            }
            details {
                summary { "All figures" }
                @for group in [alone, beside].into_iter().flatten() {
                    (figures(group))
                }
            }
        }
    }
}

fn cards(group: &Group, with_question: bool) -> Markup {
    let series = if group.chart == Chart::Scaling {
        scaling::series(&group.rows)
    } else {
        Vec::new()
    };
    html! {
        div.cards {
            @for series in &series {
                figure {
                    figcaption {
                        (series.name)
                        @if let Some(row) = series.rows.first() { (unit(row)) }
                    }
                    @if with_question {
                        @if let Some(row) = series.rows.first() {
                            p.question { (row.question) }
                        }
                    }
                    (scaling::card(series))
                }
            }
            @for row in &group.rows {
                @if series.is_empty() || row.x.is_none() {
                    figure {
                        figcaption { (row.label) (unit(row)) }
                        @if with_question { p.question { (row.question) } }
                        @if group.chart == Chart::Latency && latency::has_percentiles(row) {
                            (latency::card(row))
                            p.key {
                                span.p50 {} "p50" span.p99 {} "p99" span.p999 {} "p99.9"
                                span.most {} "max"
                            }
                        } @else {
                            (bars::card(row))
                        }
                    }
                }
            }
        }
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
        let page = page(&report);
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
        let (_, end) = page.rsplit_once("id=\"targets\"").expect("it has them");
        assert!(end.contains("empty tasks, queue without bound"));
    }

    #[test]
    fn each_chart_is_drawn() {
        let page = page(&example::report());
        for class in [
            "class=\"bar\"",
            "class=\"span\"",
            "class=\"lines\"",
            "class=\"cut\"",
        ] {
            assert!(page.contains(class), "{class}");
        }
    }
}
