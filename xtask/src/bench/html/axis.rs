//! Where on a plot a value lies, and which values are written beside it.
//!
//! Places are per cent of the plot's width, or points: whatever `from` and `to` mean.

use crate::bench::words;

/// Powers of ten, and where there are few of them what lies between.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// A logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis from `from` to `to` on which all the values have a place. Values that have no
    /// logarithm lie at its beginning.
    pub(crate) fn new(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values {
            if value > 0.0 && value.is_finite() {
                low = low.min(value);
                high = high.max(value);
            }
        }
        if high <= 0.0 {
            (low, high) = (1.0, 10.0);
        }
        // A little room, so that no mark lies on the edge.
        let room = (high / low).powf(0.05).max(1.1);
        Self {
            low: low / room,
            high: high * room,
            from,
            to,
        }
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        let part = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + part * (self.to - self.from)
    }

    /// Round values with a place on it; at most about seven.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let all = |steps: &[f64], every: i32| {
            let mut ticks = Vec::new();
            for power in (-12..=12).filter(|power| power % every == 0) {
                let decade = 10_f64.powi(power);
                ticks.extend(steps.iter().map(|step| step * decade));
            }
            ticks.retain(|tick| (self.low..=self.high).contains(tick));
            ticks
        };
        let candidates = [all(&STEPS, 1), all(&STEPS[..1], 1), all(&STEPS[..1], 2)];
        let [fine, tens, coarse] = candidates;
        match (fine.len(), tens.len()) {
            (0..=5, _) => fine,
            (_, 0..=7) => tens,
            _ => coarse,
        }
    }
}

/// A value on an axis of this unit: microseconds grow into seconds.
pub(crate) fn tick(value: f64, unit: &str) -> String {
    let plain = |value: f64| {
        let text = words::number(value);
        match text.split_once('.') {
            Some((_, decimals)) => {
                let _ = decimals;
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            None => text,
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
    fn equal_ratios_are_equal_distances() {
        let axis = Axis::new([1.0, 10.0, 100.0], 0.0, 100.0);
        let [one, ten, hundred] = [1.0, 10.0, 100.0].map(|value| axis.at(value));
        assert!((ten - one - (hundred - ten)).abs() < 1e-9);
        assert!(one > 0.0 && hundred < 100.0);
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0]);
        assert!((axis.at(0.0) - 0.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_few_and_round() {
        let ticks = Axis::new([3.0, 30.0], 0.0, 100.0).ticks();
        assert_eq!(ticks, [5.0, 10.0, 20.0]);
        assert!(Axis::new([1e-6, 1e9], 0.0, 100.0).ticks().len() <= 9);
        assert!(!Axis::new([], 0.0, 100.0).ticks().is_empty());
        assert_eq!(tick(20_000.0, "us"), "20 ms");
        assert_eq!(tick(0.5, "us"), "0.5 µs");
        assert_eq!(tick(10_000.0, "workers"), "10,000");
    }
}
