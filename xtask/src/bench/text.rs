//! The report as text for a terminal, and as Markdown.

use std::fmt::Write as _;

use super::report::Report;
use super::summary::Summary;
use super::tables::Table;
use super::words::LEGEND;

/// For the terminal.
pub(crate) fn terminal(report: &Report) -> String {
    let mut text = format!("{}\n", report.origin.line());
    for group in &report.groups {
        let table = Table::of_group(group).aligned(2);
        let questions = group.questions().join(" ");
        let _ = write!(text, "\n{}\n{questions}\n\n{table}", group.title());
    }
    if Summary::of_report(report).cases() > 0 {
        let summary = Summary::of_report(report).sentence();
        let table = Table::of_summary(report).aligned(1);
        let _ = write!(text, "\n{LEGEND}\n\nanthill: {summary}.\n\n{table}");
    }
    if !report.crates.is_empty() {
        text.push_str("\nBenches of the crates\n\n");
        for figure in &report.crates {
            let _ = writeln!(text, "{:<60} {}", figure.name, figure.time);
        }
    }
    for (row, outcome, sentence) in report.failures() {
        let _ = writeln!(text, "failed: {} {}: {sentence}", row.case, outcome.pool);
    }
    text
}

/// As a page of tables.
pub(crate) fn markdown(report: &Report) -> String {
    let rounds = report.rounds;
    let mut text = format!("# anthill beside its peers\n\n{}\n", report.origin.line());
    if Summary::of_report(report).cases() > 0 {
        let summary = Summary::of_report(report).sentence();
        let table = Table::of_summary(report).markdown();
        let _ = write!(text, "\nanthill: {summary}.\n\n{table}\n");
        let _ = writeln!(text, "Medians of {rounds} rounds. {LEGEND}");
    }
    for group in &report.groups {
        let table = Table::of_group(group).markdown();
        let questions = group.questions().join(" ");
        let _ = write!(text, "\n## {}\n\n{questions}\n\n{table}", group.title());
    }
    if report.failures().next().is_some() {
        text.push_str("\n## Failed\n\n");
    }
    for (row, outcome, sentence) in report.failures() {
        let _ = writeln!(text, "- `{}` {}: {sentence}", row.case, outcome.pool);
    }
    if !report.crates.is_empty() {
        text.push_str("\n## Benches of the crates\n\nLow, middle, high.\n\n```text\n");
        for figure in &report.crates {
            let _ = writeln!(text, "{:<60} {}", figure.name, figure.time);
        }
        text.push_str("```\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn both_have_origin_questions_failures_and_the_benches_of_the_crates() {
        let report = example::report();
        for text in [terminal(&report), markdown(&report)] {
            for part in [
                "A processor, 2 cores; Linux 6; rustc 1; commit abc1234",
                "load 0.10 before, 2.00 after",
                "What does an empty task cost?",
                "Empty tasks, oversubscribed",
                "it has no bound",
                "locks/<1>",
            ] {
                assert!(text.contains(part), "{part} is missing in:\n{text}");
            }
        }
    }
}
