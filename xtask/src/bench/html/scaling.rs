//! Cases as lines: one for each pool over what the cases differ in, both axes logarithmic.

use maud::{Markup, html};

use super::axis::{Axis, tick};
use super::parts::per_cent;
use crate::bench::report::{Outcome, Role, Row};

/// Where the lines end and their names begin, in per cent of the width.
const LEFT: f64 = 9.0;
const RIGHT: f64 = 66.0;
/// In points.
const TOP: f64 = 10.0;
const BOTTOM: f64 = 210.0;
const HEIGHT: f64 = 236.0;
/// Names are not closer to each other.
const LINE: f64 = 14.0;
/// The style has so many colours for peers.
const COLOURS: usize = 8;

/// The cases of one series, by `x`.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) rows: Vec<&'a Row>,
}

/// Sorts out which rows form lines together.
pub(crate) fn series(rows: &[Row]) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for row in rows.iter().filter(|row| row.x.is_some()) {
        let name = row.series.as_deref().unwrap_or_default();
        if let Some(series) = all.iter_mut().find(|series| series.name == name) {
            series.rows.push(row);
        } else {
            all.push(Series {
                name,
                rows: vec![row],
            });
        }
    }
    for series in &mut all {
        series
            .rows
            .sort_by(|a, b| a.x.unwrap_or_default().total_cmp(&b.x.unwrap_or_default()));
    }
    all
}

struct Line<'a> {
    outcome: &'a Outcome,
    /// In per cent and points, and what it means.
    points: Vec<(f64, f64, String)>,
    colour: usize,
    /// Where its name stands.
    name_y: f64,
}

pub(crate) fn card(series: &Series<'_>) -> Markup {
    let headlines = || {
        let outcomes = series.rows.iter().flat_map(|row| &row.pools);
        outcomes.filter_map(Outcome::headline)
    };
    let unit = headlines().next().map_or("", |figure| &*figure.unit);
    let across = Axis::new(series.rows.iter().filter_map(|row| row.x), LEFT, RIGHT);
    // Upwards is more, but points count downwards.
    let up = Axis::new(headlines().map(|figure| figure.median), BOTTOM, TOP);
    let mut lines = lines(series, &across, &up);
    // Ours is drawn last, above the others.
    lines.sort_by_key(|line| line.outcome.role == Role::Ours);
    html! {
        svg.lines height=(HEIGHT) role="img" aria-label=(format!("{} over x", series.name)) {
            @for value in up.ticks() {
                @let y = up.at(value);
                line.grid x1=(per_cent(LEFT)) x2=(per_cent(RIGHT)) y1=(y) y2=(y) {}
                text.left x=(per_cent(LEFT - 1.0)) y=(y + 4.0) { (tick(value, unit)) }
            }
            @for row in &series.rows {
                @let x = row.x.unwrap_or_default();
                text x=(per_cent(across.at(x))) y=(HEIGHT - 8.0) { (tick(x, "")) }
            }
            @for line in &lines {
                g class=(class(line)) {
                    @for (from, to) in line.points.iter().zip(line.points.iter().skip(1)) {
                        line x1=(per_cent(from.0)) y1=(from.1) x2=(per_cent(to.0)) y2=(to.1) {}
                    }
                    @for (x, y, meaning) in &line.points {
                        circle cx=(per_cent(*x)) cy=(y) r="3.5" { title { (meaning) } }
                    }
                    text.name x=(per_cent(RIGHT + 2.0)) y=(line.name_y + 4.0) {
                        (line.outcome.pool)
                    }
                }
            }
        }
    }
}

fn class(line: &Line<'_>) -> String {
    match line.outcome.role {
        Role::Ours => "ours".to_owned(),
        Role::Yardstick => "yardstick".to_owned(),
        Role::Peer => format!("c{}", line.colour),
    }
}

fn lines<'a>(series: &Series<'a>, across: &Axis, up: &Axis) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for row in &series.rows {
        for outcome in &row.pools {
            let (Some(x), Some(figure)) = (row.x, outcome.headline()) else {
                continue;
            };
            let meaning = format!(
                "{} at {}: {} {}",
                outcome.pool,
                tick(x, ""),
                tick(figure.median, ""),
                figure.unit
            );
            let point = (across.at(x), up.at(figure.median), meaning);
            match lines
                .iter_mut()
                .find(|line| line.outcome.pool == outcome.pool)
            {
                Some(line) => line.points.push(point),
                None => lines.push(Line {
                    colour: lines.len().saturating_sub(1) % COLOURS,
                    outcome,
                    points: vec![point],
                    name_y: 0.0,
                }),
            }
        }
    }
    for line in &mut lines {
        line.name_y = line.points.last().map_or(TOP, |point| point.1);
    }
    spread(&mut lines);
    lines
}

/// Moves names apart, downwards where there is room and else upwards.
fn spread(lines: &mut [Line<'_>]) {
    lines.sort_by(|a, b| a.name_y.total_cmp(&b.name_y));
    for index in 1..lines.len() {
        lines[index].name_y = lines[index].name_y.max(lines[index - 1].name_y + LINE);
    }
    let mut most = HEIGHT - LINE;
    for line in lines.iter_mut().rev() {
        line.name_y = line.name_y.min(most);
        most = line.name_y - LINE;
    }
}
