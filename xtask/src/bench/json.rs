//! The figures of the comparison for programs: an array of objects, one for each metric of each
//! pool in each case. A pool that failed has none.

use anyhow::Result;
use serde::Serialize;

use super::report::Report;

#[derive(Debug, Serialize)]
struct Object<'a> {
    case: &'a str,
    pool: &'a str,
    metric: &'a str,
    unit: &'a str,
    median: f64,
    min: f64,
    max: f64,
    rounds: usize,
    /// Above 1 ours is better. Null where there is none, or it is infinite.
    ratio_to_ours: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
}

/// The whole text.
pub(crate) fn json(report: &Report) -> Result<String> {
    let rows = report.groups.iter().flat_map(|group| &group.rows);
    let mut objects = Vec::new();
    for row in rows {
        for outcome in &row.pools {
            for figure in outcome.figures.iter().flatten() {
                objects.push(Object {
                    case: &row.case,
                    pool: &outcome.pool,
                    metric: &figure.metric,
                    unit: &figure.unit,
                    median: figure.median,
                    min: figure.min,
                    max: figure.max,
                    rounds: figure.rounds,
                    ratio_to_ours: figure.ratio.map(|ratio| ratio.middle),
                    ratio_low: figure.ratio.map(|ratio| ratio.low),
                    ratio_high: figure.ratio.map(|ratio| ratio.high),
                });
            }
        }
    }
    Ok(serde_json::to_string_pretty(&objects)? + "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::example;
    use super::*;

    #[test]
    fn each_object_has_these_keys_and_no_others() {
        let text = json(&example::report()).expect("it can be written");
        let objects: Vec<Value> = serde_json::from_str(&text).expect("it can be read");
        let mut expected = [
            "case",
            "pool",
            "metric",
            "unit",
            "median",
            "min",
            "max",
            "rounds",
            "ratio_to_ours",
            "ratio_low",
            "ratio_high",
        ];
        expected.sort_unstable();
        for object in &objects {
            let mut keys: Vec<&String> = object.as_object().expect("an object").keys().collect();
            keys.sort_unstable();
            assert_eq!(keys, expected);
        }
        let of = |case: &str, pool: &str, metric: &str| {
            objects.iter().find(|object| {
                object["case"] == case && object["pool"] == pool && object["metric"] == metric
            })
        };
        let ours = of("empty/unlimited/4p", "anthill", "wall").expect("it ran");
        assert_eq!(ours["ratio_to_ours"], 1.0);
        assert_eq!(ours["rounds"], 7);
        let theirs = of("empty/unlimited/4p+spin", "crossbeam unbounded", "cpu").expect("it ran");
        assert!(
            theirs["ratio_to_ours"]
                .as_f64()
                .is_some_and(|ratio| ratio < 0.7)
        );
        assert!(of("empty/1024/1p", "tokio spawn", "wall").is_none());
    }
}
