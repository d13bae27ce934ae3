//! Draws the charts of `docs/benchmarks` from `charts.tsv` in the same folder. `--check` only
//! compares them.
//!
//! Each line of the table is a figure: chart, group, series, value, and the end of the range if the
//! series is a range. A line with one `#` says where the following figures were measured. A chart
//! has a bar per figure, or a line per series if its groups are numbers.

use std::error::Error;
use std::fs;
use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks/");
const WIDTH: u32 = 720;
/// Width of the names left of the bars. The values are right of them.
const NAMES: u32 = 200;
const VALUES: u32 = 140;
const LINE: u32 = 18;
const OURS: RGBColor = RGBColor(15, 118, 110);
const PEER: RGBColor = RGBColor(163, 173, 184);
const INK: RGBColor = RGBColor(29, 33, 38);
const COLOURS: [RGBColor; 4] = [OURS, RGBColor(180, 86, 30), RGBColor(37, 99, 201), PEER];

struct Chart {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    /// The label of the horizontal axis, if the groups are numbers.
    groups: Option<&'static str>,
}

const CHARTS: [Chart; 4] = [
    Chart {
        file: "cost-per-task",
        title: "Cost of an empty task, 4 workers (median of 7 rounds)",
        unit: "ns per task, wall time",
        groups: None,
    },
    Chart {
        file: "backlog",
        title: "Claim and acknowledgement of a durable job (median of 41)",
        unit: "us",
        groups: Some("jobs due in the same queue"),
    },
    Chart {
        file: "lateness",
        title: "Lateness of delayed jobs, 500 a second: p50 to p99",
        unit: "us",
        groups: None,
    },
    Chart {
        file: "memory",
        title: "Resident memory of an idle worker, of 1,000",
        unit: "KiB",
        groups: None,
    },
];

struct Figure<'a> {
    group: &'a str,
    series: &'a str,
    value: f64,
    end: Option<f64>,
}

impl Figure<'_> {
    fn is_ours(&self) -> bool {
        self.series.starts_with("anthill")
    }

    fn label(&self) -> String {
        match self.end {
            Some(end) => format!("{} - {}", number(self.value), number(end)),
            None => number(self.value),
        }
    }
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let only_check = std::env::args().nth(1).is_some_and(|it| it == "--check");
    let table = fs::read_to_string(format!("{FOLDER}charts.tsv"))?;
    for chart in CHARTS {
        let figures = figures(&table, chart.file)?;
        if figures.is_empty() {
            return Err(format!("charts.tsv has no figure of {}", chart.file).into());
        }
        let svg = match chart.groups {
            Some(across) => lines(&chart, across, &figures)?,
            None => bars(&chart, &figures)?,
        };
        let path = format!("{FOLDER}{}.svg", chart.file);
        if !only_check {
            fs::write(path, svg)?;
        } else if fs::read_to_string(path)? != svg {
            return Err(format!(
                "{}.svg is out of date: `cargo xtask bench --charts`",
                chart.file
            )
            .into());
        }
    }
    Ok(())
}

fn figures<'a>(table: &'a str, chart: &str) -> Result<Vec<Figure<'a>>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.map(|line| line.split('\t').collect::<Vec<_>>());
    let mut figures = Vec::new();
    for row in rows.filter(|row| row[0] == chart) {
        let [_, group, series, value, ref end @ ..] = row[..] else {
            return Err(format!("four or five columns: {row:?}").into());
        };
        let end = end.first().map(|end| end.parse()).transpose()?;
        let value = value.parse()?;
        figures.push(Figure {
            group,
            series,
            value,
            end,
        });
    }
    Ok(figures)
}

fn style(figure: &Figure<'_>) -> TextStyle<'static> {
    let (style, colour) = match figure.is_ours() {
        true => (FontStyle::Bold, &OURS),
        false => (FontStyle::Normal, &INK),
    };
    let style = TextStyle::from(("sans-serif", 15, style)).color(colour);
    style.pos(Pos::new(HPos::Left, VPos::Center))
}

/// Bars from zero, unless some would be too short to see.
fn bars(chart: &Chart, figures: &[Figure<'_>]) -> Result<String> {
    let range = around(figures);
    if range.end > 10.0 * range.start {
        return bars_over(
            chart,
            &format!("{}, logarithmic", chart.unit),
            figures,
            range.clone(),
            range.log_scale(),
        );
    }
    let range = 0.0..range.end;
    bars_over(chart, chart.unit, figures, range.clone(), range)
}

/// A line of text above each group, and a bar for each figure.
fn bars_over<X>(
    chart: &Chart,
    unit: &str,
    figures: &[Figure<'_>],
    range: Range<f64>,
    axis: X,
) -> Result<String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let groups = figures.chunk_by(|a, b| a.group == b.group);
    let groups: Vec<_> = groups.filter(|group| !group.is_empty()).collect();
    let heads = groups
        .iter()
        .filter(|group| !group[0].group.is_empty())
        .count();
    let rows = u32::try_from(figures.len() + heads)?;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, rows * LINE + 70)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut plot = ChartBuilder::on(&root)
            .caption(chart.title, ("sans-serif", 19))
            .margin_left(NAMES)
            .margin_right(VALUES)
            .x_label_area_size(36)
            .build_cartesian_2d(axis, 0.0..f64::from(rows))?;
        let mut mesh = plot.configure_mesh();
        mesh.label_style(("sans-serif", 14))
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT);
        mesh.x_labels(6)
            .x_desc(unit)
            .x_label_formatter(&|x| number(*x))
            .draw()?;
        let mut y = f64::from(rows) - 0.5;
        for group in groups {
            if !group[0].group.is_empty() {
                let at = plot.backend_coord(&(range.start, y));
                let name = TextStyle::from(("sans-serif", 15)).color(&INK);
                let name = name.pos(Pos::new(HPos::Left, VPos::Center));
                root.draw(&Text::new(group[0].group.to_owned(), (8, at.1), name))?;
                y -= 1.0;
            }
            for figure in group {
                let colour = if figure.is_ours() { OURS } else { PEER };
                let (from, to) = match figure.end {
                    Some(end) => (figure.value, end),
                    None => (range.start, figure.value),
                };
                let corners = [(from, y - 0.35), (to, y + 0.35)];
                plot.draw_series([Rectangle::new(corners, colour.filled())])?;
                let (_, row) = plot.backend_coord(&(range.start, y));
                root.draw(&Text::new(
                    figure.series.to_owned(),
                    (20, row),
                    style(figure),
                ))?;
                let right = i32::try_from(WIDTH - VALUES)? + 8;
                root.draw(&Text::new(figure.label(), (right, row), style(figure)))?;
                y -= 1.0;
            }
        }
        root.present()?;
    }
    Ok(svg)
}

/// A line per series over the groups.
fn lines(chart: &Chart, across: &str, figures: &[Figure<'_>]) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 320)).into_drawing_area();
        root.fill(&WHITE)?;
        let x = |figure: &Figure<'_>| figure.group.parse::<f64>();
        let places = figures
            .iter()
            .map(x)
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let range = places.iter().copied().fold(f64::MAX, f64::min)
            ..places.iter().copied().fold(0.0, f64::max);
        let mut plot = ChartBuilder::on(&root)
            .caption(chart.title, ("sans-serif", 19))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(range.log_scale(), 0.0..around(figures).end)?;
        let mut mesh = plot.configure_mesh();
        mesh.label_style(("sans-serif", 14))
            .light_line_style(TRANSPARENT)
            .x_labels(4)
            .y_labels(6)
            .x_desc(across)
            .y_desc(chart.unit);
        mesh.x_label_formatter(&|x| number(*x))
            .y_label_formatter(&|y| number(*y))
            .draw()?;
        let mut names: Vec<&str> = Vec::new();
        for figure in figures {
            if !names.contains(&figure.series) {
                names.push(figure.series);
            }
        }
        for (name, colour) in names.into_iter().zip(COLOURS) {
            let points = figures
                .iter()
                .zip(&places)
                .filter(|(figure, _)| figure.series == name);
            let points = points.map(|(figure, x)| (*x, figure.value));
            let line = LineSeries::new(points, colour.stroke_width(2)).point_size(3);
            plot.draw_series(line)?.label(name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
            });
        }
        plot.configure_series_labels()
            .label_font(("sans-serif", 15))
            .position(SeriesLabelPosition::MiddleRight)
            .background_style(WHITE)
            .draw()?;
        root.present()?;
    }
    Ok(svg)
}

/// The range of the values with a margin.
fn around(figures: &[Figure<'_>]) -> Range<f64> {
    let ends = figures
        .iter()
        .flat_map(|it| [it.value, it.end.unwrap_or(it.value)]);
    let (least, most) = ends.fold((f64::MAX, 0.0_f64), |(least, most), it| {
        (least.min(it), most.max(it))
    });
    least / 2.0..most * 1.2
}

fn number(value: f64) -> String {
    let text = if value < 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    };
    let text = text.trim_end_matches(".0").to_owned();
    match text.len() {
        4..=6 if !text.contains('.') => {
            format!("{},{}", &text[..text.len() - 3], &text[text.len() - 3..])
        }
        _ => text,
    }
}
