//! A case as percentiles: a line for each pool from its median to its worst, on a logarithmic axis.

use maud::{Markup, html};

use super::axis::{Axis, tick};
use super::parts::{per_cent, pool_name, sorted, tooltip, value};
use crate::bench::report::Row;

/// Metric and the class of its mark.
const MARKS: [(&str, &str); 4] = [
    ("p50", "p50"),
    ("p99", "p99"),
    ("p99.9", "p999"),
    ("max", "most"),
];

/// Whether it has anything that this plot shows.
pub(crate) fn has_percentiles(row: &Row) -> bool {
    row.pools.iter().any(|pool| pool.figure("p50").is_some())
}

pub(crate) fn card(row: &Row) -> Markup {
    let outcomes = sorted(row);
    let medians = MARKS.iter().flat_map(|(metric, _)| {
        let pools = outcomes.iter();
        pools.filter_map(move |pool| Some(pool.figure(metric)?.median))
    });
    let axis = Axis::new(medians, 0.0, 100.0);
    let unit = row.pools.iter().find_map(|pool| pool.figure("p50"));
    let unit = unit.map_or("", |figure| &*figure.unit);
    let ticks = axis.ticks();
    html! {
        @for outcome in outcomes {
            @let points: Vec<(&str, f64)> = MARKS
                .iter()
                .filter_map(|(metric, class)| Some((*class, outcome.figure(metric)?.median)))
                .map(|(class, median)| (class, axis.at(median)))
                .collect();
            div.row title=(tooltip(outcome)) {
                (pool_name(outcome))
                svg.plot height="20" aria-hidden="true" {
                    @for tick in &ticks {
                        @let x = per_cent(axis.at(*tick));
                        line.grid x1=(x) x2=(x) y1="0" y2="20" {}
                    }
                    @if let (Some(first), Some(last)) = (points.first(), points.last()) {
                        line.span x1=(per_cent(first.1)) x2=(per_cent(last.1)) y1="10" y2="10" {}
                    }
                    @for (class, x) in points {
                        @if class == "most" {
                            line.most x1=(per_cent(x)) x2=(per_cent(x)) y1="4" y2="16" {}
                        } @else {
                            circle class=(class) cx=(per_cent(x)) cy="10" r="4" {}
                        }
                    }
                }
                (value(outcome))
            }
        }
        div.row.axis aria-hidden="true" {
            span {}
            svg.plot height="16" {
                @for value in &ticks {
                    text x=(per_cent(axis.at(*value))) y="12" { (tick(*value, unit)) }
                }
            }
            span {}
        }
    }
}
