//! The table of the targets, at the end of the page.

use maud::{Markup, html};

use crate::bench::report::Report;
use crate::bench::targets::{self, HEAD, LEGEND, Line, Verdict};

/// Nothing for a run that no target speaks of.
pub(crate) fn section(report: &Report) -> Markup {
    let lines = targets::lines(report);
    let first = |index: usize| index == 0 || lines[index - 1].name != lines[index].name;
    html! {
        @if !lines.is_empty() {
            section id="targets" {
                p.group { "Targets" }
                h2 { "What was to be reached, and was it? " (targets::sentence(&lines)) "." }
                div.scroll {
                    table.figures {
                        thead { tr { @for name in HEAD { th { (name) } } } }
                        tbody {
                            @for (index, line) in lines.iter().enumerate() {
                                @if first(index) {
                                    tr.first { td colspan=(HEAD.len()) { b { (line.name) } } }
                                }
                                (cells(line))
                            }
                        }
                    }
                }
                p.legend { (LEGEND) " Not shown by figures: " (targets::elsewhere().join("; ")) "." }
            }
        }
    }
}

fn cells(line: &Line) -> Markup {
    html! {
        tr {
            td { (line.what) }
            td.number { (line.asked) }
            td.number { (line.measured) }
            td.number { (line.interval) }
            td { (line.case) }
            td.number { (line.met) }
            td.(class(line.verdict)) { (line.verdict.word()) }
        }
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "ahead",
        Verdict::NotMet | Verdict::Failed => "behind",
        Verdict::WithinNoise | Verdict::Shown => "noise",
    }
}
