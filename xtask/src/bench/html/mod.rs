//! The report as one page that needs nothing but a browser: no network, no scripts.

mod charts;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plan::Chart;
use super::report::{Group, Report, Row};
use super::summary::Summary;
use super::tables::Table;
use super::words::LEGEND;

const STYLE: &str = include_str!("style.css");
const CHARTS: &str = "Thick bars and lines are medians, thin bars CPU time. A black line spans all \
    rounds, or the percentiles from the 50th to the longest. A bar that reaches the edge goes on \
    beyond it. Oversubscribed means beside one spinning process for each core.";

/// The whole page.
pub(crate) fn page(report: &Report) -> Result<String> {
    let summary = Summary::of_report(report);
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
                h1 { "anthill beside its peers" }
                p.legend { (report.origin.line()) }
                @if summary.cases() > 0 {
                    p { "It is " (summary.sentence()) "." }
                    (table(&Table::of_summary(report)))
                    p.legend { "Medians of " (report.rounds) " rounds. " (LEGEND) " " (CHARTS) }
                }
                @if report.failures().next().is_some() {
                    h2 { "Failed" }
                    ul {
                        @for (row, outcome, sentence) in report.failures() {
                            li { code { (row.case) } " " (outcome.pool) ": " (sentence) }
                        }
                    }
                }
                @for group in &report.groups {
                    (section(group)?)
                }
                @if !report.crates.is_empty() {
                    h2 { "Benches of the crates" }
                    details open[report.groups.is_empty()] {
                        summary { (report.crates.len()) " figures: low, middle, high" }
                        table {
                            @for figure in &report.crates {
                                tr { td { (figure.name) } td { (figure.time) } }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

fn section(group: &Group) -> Result<Markup> {
    Ok(html! {
        section {
            h2 { (group.title()) }
            p { (group.questions().join(" ")) }
            div.charts {
                @for (row, name, chart) in charts(group)? {
                    figure {
                        figcaption {
                            (name)
                            @if let Some((metric, unit)) = row.metrics().first() {
                                span.legend { " " (metric) " " (unit) }
                            }
                        }
                        (PreEscaped(chart))
                    }
                }
            }
            details {
                summary { "All figures" }
                (table(&Table::of_group(group)))
            }
        }
    })
}

/// One for each case; cases of a series are the points of one.
fn charts(group: &Group) -> Result<Vec<(&Row, &str, String)>> {
    let is_point = |row: &&Row| group.chart == Chart::Scaling && row.x.is_some();
    let (points, others): (Vec<&Row>, Vec<&Row>) = group.rows.iter().partition(is_point);
    let mut all = Vec::new();
    for rows in points.chunk_by(|a, b| a.series == b.series) {
        let name = rows[0].series.as_deref().unwrap_or_default();
        all.push((rows[0], name, charts::lines(rows)?));
    }
    for row in others {
        let has_percentiles = group.chart == Chart::Latency && charts::has_percentiles(row);
        let draw = if has_percentiles {
            charts::percentiles
        } else {
            charts::bars
        };
        all.push((row, &*row.label, draw(row)?));
    }
    Ok(all)
}

fn table(table: &Table) -> Markup {
    html! {
        div.scroll {
            table {
                tr { @for cell in &table.head { th { (cell) } } }
                @for row in &table.rows {
                    tr { @for cell in row { td { (cell) } } }
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
