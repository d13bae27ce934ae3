//! A case as bars: one for each pool, the best first.

use maud::{Markup, html};

use super::parts::{per_cent, pool_name, sorted, tooltip, value};
use crate::bench::report::{Figure, Row};

/// Bars that are so many times longer than the shortest are cut off: they would leave nothing to
/// see of the others.
const LONGEST: f64 = 12.0;

pub(crate) fn card(row: &Row) -> Markup {
    let outcomes = sorted(row);
    let headlines: Vec<&Figure> = outcomes.iter().filter_map(|pool| pool.headline()).collect();
    let most = headlines
        .iter()
        .map(|figure| figure.max)
        .fold(0.0, f64::max);
    let medians = headlines.iter().map(|figure| figure.median);
    let least = medians.fold(f64::INFINITY, f64::min);
    let end = if least > 0.0 {
        most.min(least * LONGEST)
    } else {
        most
    };
    let end = if end > 0.0 { end } else { 1.0 };
    let at = |value: f64| per_cent((value / end).min(1.0) * 100.0);
    html! {
        @for outcome in outcomes {
            div.row title=(tooltip(outcome)) {
                (pool_name(outcome))
                svg.plot height="20" aria-hidden="true" {
                    @if let Some(figure) = outcome.headline() {
                        rect.bar x="0" y="3" height="10" width=(at(figure.median)) {}
                        @if let Some(cpu) = cpu_beside(outcome.figure("cpu"), figure) {
                            rect.cpu x="0" y="14.5" height="3" width=(at(cpu.median)) {}
                            @if cpu.median > end { (cut(13, 19)) }
                        }
                        @if figure.median > end {
                            (cut(1, 15))
                        } @else {
                            line.range x1=(at(figure.min)) x2=(at(figure.max)) y1="8" y2="8" {}
                            line.range x1=(at(figure.min)) x2=(at(figure.min)) y1="5" y2="11" {}
                            @if figure.max <= end {
                                line.range x1=(at(figure.max)) x2=(at(figure.max)) y1="5" y2="11" {}
                            }
                        }
                    }
                }
                (value(outcome))
            }
        }
    }
}

/// The mark of a bar that goes on.
fn cut(top: u32, bottom: u32) -> Markup {
    html! {
        svg x="90%" y="0" overflow="visible" {
            path.cut d=(format!("M0 {bottom} L4 {top} M5 {bottom} L9 {top}")) {}
        }
    }
}

/// CPU time has a bar of its own where it is in the headline's unit.
fn cpu_beside<'a>(cpu: Option<&'a Figure>, headline: &Figure) -> Option<&'a Figure> {
    cpu.filter(|cpu| cpu.unit == headline.unit && cpu.metric != headline.metric)
}
