//! The figures of one run, and their format.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::meter::{Spent, peak_memory};
use crate::percentiles::Percentiles;

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times, bytes, counts of costs.
    #[default]
    Lower,
    /// Rates and shares.
    Higher,
}

/// One line of the output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    #[serde(rename = "metric")]
    pub name: Cow<'static, str>,
    pub unit: Cow<'static, str>,
    pub value: f64,
    #[serde(default)]
    pub better: Better,
}

/// The figures so far. The first one is the headline.
#[derive(Default)]
pub struct Report(Vec<Metric>);

impl Report {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a figure that should be low.
    pub fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        unit: &'static str,
        value: f64,
    ) -> Self {
        self.0.push(Metric {
            name: name.into(),
            unit: unit.into(),
            value,
            better: Better::Lower,
        });
        self
    }

    /// Adds a figure that should be high.
    pub fn rate(mut self, name: &'static str, unit: &'static str, value: f64) -> Self {
        self.0.push(Metric {
            name: name.into(),
            unit: unit.into(),
            value,
            better: Better::Higher,
        });
        self
    }

    /// Adds the wall and processor time of a section, divided by `count` tasks.
    pub fn per_task(self, spent: Spent, count: u32) -> Self {
        let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(count);
        self.with("wall", "ns/task", each(spent.wall))
            .with("cpu", "ns/task", each(spent.cpu))
    }

    /// Adds the processor time of a section, in milliseconds.
    pub fn cpu(self, spent: Spent) -> Self {
        self.with("cpu", "ms", spent.cpu.as_secs_f64() * 1e3)
    }

    /// Adds the usual percentiles in microseconds, the median first.
    pub fn latency(self, of: &Percentiles) -> Self {
        self.with("p50", "us", of.micros(0.5))
            .with("p99", "us", of.micros(0.99))
            .with("p99.9", "us", of.micros(0.999))
            .with("max", "us", of.micros(1.0))
    }

    /// Moves a figure to the front as the headline.
    pub fn headline(mut self, name: &str) -> Self {
        if let Some(index) = self.0.iter().position(|line| line.name == name) {
            self.0[..=index].rotate_right(1);
        }
        self
    }

    /// Adds the figures that every run has, and ends the report.
    pub fn finish(mut self) -> Vec<Metric> {
        if let Some(bytes) = peak_memory() {
            self = self.with("memory", "MiB", bytes / 1024.0 / 1024.0);
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_moves_to_the_front_and_the_rest_keeps_its_order() {
        let report = Report::new().with("a", "", 1.0).with("b", "", 2.0);
        let report = report.with("c", "", 3.0).headline("b");
        let names: Vec<_> = report.0.iter().map(|line| &*line.name).collect();
        assert_eq!(names, ["b", "a", "c"]);
    }

    #[test]
    fn time_is_divided_by_the_tasks() {
        let spent = Spent {
            wall: Duration::from_micros(1),
            cpu: Duration::from_micros(2),
        };
        let lines = Report::new().per_task(spent, 10).0;
        assert!((lines[0].value - 100.0).abs() < 1e-6);
        assert!((lines[1].value - 200.0).abs() < 1e-6);
    }
}
