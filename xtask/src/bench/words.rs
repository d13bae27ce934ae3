//! How figures and ratios are written.

use super::report::{Figure, Outcome, Role};
use super::statistics::{Ratio, Verdict};

/// What the marks mean; stands below tables.
pub(crate) const LEGEND: &str = "2.0x: ours is twice as good as this pool, by medians over the \
    rounds; 0.5x: half as good; ≈: the difference is within noise (the interval of 95 % \
    contains 1; with 3 or 4 rounds that is all that their ranges allow, fewer say nothing); \
    a pool named `bare ..` is a yardstick, no peer.";

/// Three digits that count.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        99.95.. => thousands(&format!("{value:.0}")),
        9.995.. => format!("{value:.1}"),
        0.9995.. => format!("{value:.2}"),
        0.000_5.. => format!("{value:.3}"),
        _ => format!("{value:.0e}"),
    }
}

fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len() - index;
        if index > 0 && left.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `2.9x`, `0.35x`, `120x`.
pub(crate) fn factor(factor: f64) -> String {
    if factor.is_infinite() {
        return "∞x".to_owned();
    }
    if factor < 0.995 {
        return format!("{factor:.2}x");
    }
    if factor < 9.95 {
        return format!("{factor:.1}x");
    }
    format!("{}x", thousands(&format!("{factor:.0}")))
}

/// The ratio, or that there is none to speak of.
pub(crate) fn ratio(ratio: Ratio) -> String {
    match ratio.verdict() {
        Verdict::WithinNoise => "≈".to_owned(),
        // A difference that the interval confirms is not rounded away to 1.0.
        _ if (ratio.middle - 1.0).abs() < 0.05 => format!("{:.3}x", ratio.middle),
        _ => factor(ratio.middle),
    }
}

/// Where the interval lies, if it has bounds.
pub(crate) fn interval(ratio: Ratio) -> String {
    if ratio.low == 0.0 || ratio.high.is_infinite() {
        return String::new();
    }
    format!("{}–{}", bound(ratio.low), bound(ratio.high))
}

fn bound(value: f64) -> String {
    if value < 9.95 {
        format!("{value:.2}")
    } else {
        thousands(&format!("{value:.0}"))
    }
}

/// The cell of a table: `120 2.9x`.
pub(crate) fn cell(outcome: &Outcome, figure: Option<&Figure>) -> String {
    let Some(figure) = figure else {
        let word = if outcome.figures.is_err() {
            "failed"
        } else {
            ""
        };
        return word.to_owned();
    };
    let median = number(figure.median);
    match figure.ratio {
        Some(of) if outcome.role != Role::Ours => format!("{median} {}", ratio(of)),
        _ => median,
    }
}

/// What stands beside a chart: `120 2.9x 2.71–3.20`.
pub(crate) fn headline(outcome: &Outcome) -> String {
    let figure = outcome.headline();
    let of = figure.and_then(|figure| figure.ratio);
    let of = of.filter(|_| outcome.role != Role::Ours);
    let text = cell(outcome, figure);
    of.map_or_else(|| text.clone(), |of| format!("{text} {}", interval(of)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let numbers = [
            0.0,
            0.000_012,
            0.1234,
            0.999_9,
            1.234,
            12.34,
            99.99,
            123.4,
            999.6,
            1_234_567.0,
            -1234.0,
        ];
        let expected = [
            "0",
            "1e-5",
            "0.123",
            "1.00",
            "1.23",
            "12.3",
            "100",
            "123",
            "1,000",
            "1,234,567",
            "-1,234",
        ];
        assert_eq!(numbers.map(number), expected);
    }

    #[test]
    fn what_is_within_noise_is_neither_won_nor_lost() {
        let of = |low, middle, high| ratio(Ratio { middle, low, high });
        assert_eq!(of(0.9, 2.0, 3.0), "≈");
        assert_eq!(of(1.5, 2.0, 3.0), "2.0x");
        assert_eq!(of(0.4, 0.5, 0.6), "0.50x");
        assert_eq!(of(1.01, 1.02, 1.03), "1.020x");
        assert_eq!(of(50.0, f64::INFINITY, f64::INFINITY), "∞x");
    }
}
