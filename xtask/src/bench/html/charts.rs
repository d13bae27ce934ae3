//! The charts, each as the text of an SVG picture.

use std::ops::Range;

use anyhow::Result;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::bench::report::{Outcome, Role, Row};
use crate::bench::words;

const WIDTH: u32 = 640;
/// Of a pool, in the charts that have one below the other.
const LINE: u32 = 22;
/// Left of a plot the names stand, right of it the values, below it the ticks.
const NAMES: u32 = 150;
const VALUES: u32 = 130;
const TICKS: u32 = 30;
/// Bars that are so many times longer than the shortest are cut off: they would leave nothing to
/// see of the others.
const LONGEST: f64 = 12.0;
const PERCENTILES: [&str; 4] = ["p50", "p99", "p99.9", "max"];

const OURS: RGBColor = RGBColor(15, 118, 110);
const PEER: RGBColor = RGBColor(163, 173, 184);
const CPU: RGBColor = RGBColor(207, 154, 60);
const INK: RGBColor = RGBColor(29, 33, 38);

/// What is drawn of a pool: bars and lines from one value to another, and dots.
#[derive(Default)]
struct Marks {
    bar: Option<f64>,
    cpu: Option<f64>,
    span: Option<(f64, f64)>,
    dots: Vec<f64>,
}

/// A case as bars: one for each pool, the best first. CPU time has a thin one where it is in the
/// headline's unit, a line spans all rounds.
pub(super) fn bars(row: &Row) -> Result<String> {
    let headlines = || row.pools.iter().filter_map(Outcome::headline);
    let most = headlines().map(|figure| figure.max).fold(0.0, f64::max);
    let medians = headlines().map(|figure| figure.median);
    let least = medians.fold(f64::INFINITY, f64::min);
    let end = if least > 0.0 {
        most.min(least * LONGEST)
    } else {
        most
    };
    let end = if end > 0.0 { end * 1.02 } else { 1.0 };
    let marks = |outcome: &Outcome| {
        let Some(figure) = outcome.headline() else {
            return Marks::default();
        };
        let cpu = outcome.figure("cpu");
        let cpu = cpu.filter(|cpu| cpu.unit == figure.unit && cpu.metric != figure.metric);
        Marks {
            bar: Some(figure.median),
            cpu: cpu.map(|cpu| cpu.median),
            span: Some((figure.min, figure.max)),
            dots: Vec::new(),
        }
    };
    rows(row, 0.0..end, 0.0..end, marks)
}

/// A case as percentiles: a line for each pool from its median to its longest, on a logarithmic
/// axis, with a dot for each percentile.
pub(super) fn percentiles(row: &Row) -> Result<String> {
    let dots = |outcome: &Outcome| {
        let figures = PERCENTILES
            .iter()
            .filter_map(|metric| outcome.figure(metric));
        figures.map(|figure| figure.median).collect::<Vec<f64>>()
    };
    let range = around(row.pools.iter().flat_map(dots));
    let marks = |outcome: &Outcome| {
        let dots = dots(outcome);
        let span = dots.first().copied().zip(dots.last().copied());
        Marks {
            span,
            dots,
            ..Marks::default()
        }
    };
    rows(row, range.clone(), range.log_scale(), marks)
}

/// Whether it has anything that [`percentiles`] shows.
pub(super) fn has_percentiles(row: &Row) -> bool {
    row.pools
        .iter()
        .any(|pool| pool.figure(PERCENTILES[0]).is_some())
}

/// The pools of a case, one below the other, over one axis.
fn rows<X>(
    row: &Row,
    range: Range<f64>,
    axis: X,
    marks: impl Fn(&Outcome) -> Marks,
) -> Result<String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let outcomes = best_first(row);
    let lines = u32::try_from(outcomes.len())?;
    let height = lines * LINE + TICKS + 8;
    let at = |value: f64| value.clamp(range.start, range.end);
    picture(height, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin_top(8)
            .margin_left(NAMES)
            .margin_right(VALUES)
            .x_label_area_size(TICKS)
            .build_cartesian_2d(axis, 0.0..f64::from(lines))?;
        let unit = row.metrics().first().map_or("", |metric| metric.1);
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT);
        mesh.x_labels(6)
            .x_label_formatter(&|x| tick(*x, unit))
            .draw()?;
        for (outcome, above) in outcomes.into_iter().zip(0..) {
            let y = f64::from(lines) - f64::from(above) - 0.5;
            let colour = if outcome.role == Role::Ours {
                OURS
            } else {
                PEER
            };
            let marks = marks(outcome);
            let bar = |from: f64, to: f64, end: f64, colour: RGBColor| {
                Rectangle::new(
                    [(range.start, y + from), (at(end), y + to)],
                    colour.filled(),
                )
            };
            let of_yardstick = outcome.role == Role::Yardstick;
            chart.draw_series(marks.bar.map(|end| {
                let mut bar = bar(-0.15, 0.35, end, colour);
                if of_yardstick {
                    bar = Rectangle::new([(range.start, y - 0.15), (at(end), y + 0.35)], colour);
                }
                bar
            }))?;
            chart.draw_series(marks.cpu.map(|end| bar(-0.35, -0.2, end, CPU)))?;
            chart.draw_series(marks.span.map(|(from, to)| {
                PathElement::new([(at(from), y + 0.1), (at(to), y + 0.1)], INK)
            }))?;
            let dots = marks.dots.iter();
            chart.draw_series(dots.map(|dot| Circle::new((*dot, y + 0.1), 4, colour.filled())))?;
            let (_, y) = chart.backend_coord(&(range.start, y));
            let right = i32::try_from(WIDTH - VALUES)?;
            root.draw(&Text::new(outcome.pool.clone(), (4, y), text(outcome.role)))?;
            root.draw(&Text::new(
                words::headline(outcome),
                (right + 8, y),
                text(Role::Peer),
            ))?;
        }
        Ok(())
    })
}

/// Cases as lines: one for each pool over what the cases differ in, both axes logarithmic.
pub(super) fn lines(rows: &[&Row]) -> Result<String> {
    let headlines = || {
        let outcomes = rows.iter().flat_map(|row| &row.pools);
        outcomes.filter_map(Outcome::headline)
    };
    let unit = headlines().next().map_or("", |figure| &*figure.unit);
    let across = around(rows.iter().filter_map(|row| row.x));
    let up = around(headlines().map(|figure| figure.median));
    let mut pools: Vec<&Outcome> = Vec::new();
    for outcome in rows.iter().flat_map(|row| &row.pools) {
        if !pools.iter().any(|known| known.pool == outcome.pool) {
            pools.push(outcome);
        }
    }
    // Ours is drawn last, above the others.
    pools.sort_by_key(|outcome| outcome.role == Role::Ours);
    picture(320, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(8)
            .x_label_area_size(TICKS)
            .y_label_area_size(60)
            .build_cartesian_2d(across.log_scale(), up.log_scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).x_labels(6).y_labels(6);
        mesh.x_label_formatter(&|x| tick(*x, ""))
            .y_label_formatter(&|y| tick(*y, unit))
            .draw()?;
        for (index, pool) in pools.into_iter().enumerate() {
            let (colour, width) = match pool.role {
                Role::Ours => (OURS, 3),
                Role::Yardstick => (PEER, 1),
                Role::Peer => (peer_colour(index), 1),
            };
            let points = rows.iter().filter_map(|row| {
                let outcome = row.pools.iter().find(|outcome| outcome.pool == pool.pool)?;
                Some((row.x?, outcome.headline()?.median))
            });
            let line = LineSeries::new(points, colour.stroke_width(width)).point_size(3);
            chart
                .draw_series(line)?
                .label(&*pool.pool)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(width))
                });
        }
        let mut legend = chart.configure_series_labels();
        legend
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .draw()?;
        Ok(())
    })
}

/// The pools of a case, those that failed last.
fn best_first(row: &Row) -> Vec<&Outcome> {
    let rank = |outcome: &Outcome| match outcome.headline() {
        Some(figure) => figure.ratio.map_or(figure.median, |ratio| ratio.middle),
        None => f64::INFINITY,
    };
    let mut outcomes: Vec<&Outcome> = row.pools.iter().collect();
    outcomes.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    outcomes
}

/// Draws on a white ground, as a browser shows it within a page.
fn picture(
    height: u32,
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&root)?;
        root.present()?;
    }
    // The address is a name for files; nothing is to look like one that a browser would fetch.
    Ok(svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", ""))
}

fn text(role: Role) -> TextStyle<'static> {
    let (style, colour) = match role {
        Role::Ours => (FontStyle::Bold, &OURS),
        Role::Yardstick => (FontStyle::Italic, &INK),
        Role::Peer => (FontStyle::Normal, &INK),
    };
    let style = TextStyle::from(("sans-serif", 12, style)).color(colour);
    style.pos(Pos::new(HPos::Left, VPos::Center))
}

fn peer_colour(index: usize) -> RGBColor {
    let colours = Palette99::COLORS;
    let (red, green, blue) = colours[index % colours.len()];
    RGBColor(red, green, blue)
}

/// A range in which all these lie, with a little room. What has no logarithm is passed over.
fn around(values: impl IntoIterator<Item = f64>) -> Range<f64> {
    let values = values
        .into_iter()
        .filter(|value| *value > 0.0 && value.is_finite());
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if high == 0.0 {
        return 1.0..10.0;
    }
    let room = (high / low).powf(0.05).max(1.1);
    low / room..high * room
}

/// A value on an axis of this unit: microseconds grow into seconds.
fn tick(value: f64, unit: &str) -> String {
    let plain = |value: f64| {
        let text = words::number(value);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    };
    match unit {
        "us" if value >= 1e6 => format!("{} s", plain(value / 1e6)),
        "us" if value >= 1e3 => format!("{} ms", plain(value / 1e3)),
        "us" => format!("{} µs", plain(value)),
        _ => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_room_around_what_has_a_logarithm() {
        let range = around([0.0, f64::NAN, 2.0, 20.0]);
        assert!(
            range.start < 2.0 && range.start > 1.0 && range.end > 20.0,
            "{range:?}"
        );
        assert_eq!(around([]), 1.0..10.0);
    }

    #[test]
    fn microseconds_grow_into_seconds() {
        assert_eq!(tick(20_000.0, "us"), "20 ms");
        assert_eq!(tick(0.5, "us"), "0.5 µs");
        assert_eq!(tick(10_000.0, "workers"), "10,000");
    }
}
