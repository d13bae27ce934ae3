//! Compares the diaries of all processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::worker::{LIMITED, MOST, MOST_OF_KEY, PER, RATE, RATED};

/// From when to when a process held a job at least, in microseconds.
type Span = (i64, i64);

#[derive(Default)]
pub(crate) struct Verdict {
    /// By kind or key.
    held: BTreeMap<String, Vec<Span>>,
    /// Times of claims of the kind with a rate.
    rated: Vec<i64>,
}

impl Verdict {
    /// # Panics
    /// Panics if a limit was exceeded.
    pub(crate) fn of(folder: &Path) -> String {
        let mut verdict = Self::default();
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|it| it == "diary") {
                verdict.read(&fs::read_to_string(path).unwrap());
            }
        }
        verdict.rated.sort_unstable();
        let counts: Vec<String> = verdict
            .held
            .iter()
            .map(|(what, spans)| {
                let most = if what == LIMITED { MOST } else { MOST_OF_KEY };
                let (seen, when) = most_at_once(spans);
                assert!(seen <= most, "{seen} of {what} were held at {when}");
                format!("{} of {what}, up to {seen} at once", spans.len())
            })
            .collect();
        check_rate(&verdict.rated);
        format!("{}; {} of {RATED}", counts.join("; "), verdict.rated.len())
    }

    fn read(&mut self, diary: &str) {
        // The last entry of each held job.
        let mut spans: BTreeMap<&str, (Vec<String>, Span)> = BTreeMap::new();
        for line in diary.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [event, id, kind, key, time, until] = words[..] else {
                panic!("a diary contains: {line}");
            };
            let (time, until): Span = (time.parse().unwrap(), until.parse().unwrap());
            let ended = match event {
                "claimed" => {
                    let mut names = Vec::new();
                    names.extend((kind == LIMITED).then(|| kind.to_owned()));
                    names.extend((key != "-").then(|| format!("key {key}")));
                    if kind == RATED {
                        self.rated.push(time);
                    }
                    // An earlier claim of the same job has ended with its lease.
                    spans.insert(id, (names, (time, until)))
                }
                "extended" => {
                    // The lease was not lost in the meantime, even if it had expired.
                    spans.get_mut(id).unwrap().1.1 = until;
                    None
                }
                _ => spans
                    .remove(id)
                    .map(|(names, (from, end))| (names, (from, end.min(until)))),
            };
            self.end(ended);
        }
        for span in spans.into_values() {
            self.end(Some(span));
        }
    }

    fn end(&mut self, held: Option<(Vec<String>, Span)>) {
        let Some((names, span)) = held else { return };
        for name in names {
            self.held.entry(name).or_default().push(span);
        }
    }
}

/// Returns the greatest number of spans that contain the same moment, and one such moment.
fn most_at_once(spans: &[Span]) -> (u32, i64) {
    let starts = spans.iter().map(|(from, _)| (*from, true));
    let ends = spans.iter().map(|(_, until)| (*until, false));
    let mut events: Vec<(i64, bool)> = starts.chain(ends).collect();
    // Ends come first: a place is free at the end of a lease.
    events.sort_unstable();
    let (mut held, mut most) = (0_u32, (0, 0));
    for (time, is_start) in events {
        if is_start {
            held += 1;
        } else {
            held = held.saturating_sub(1);
        }
        most = most.max((held, time));
    }
    most
}

/// # Panics
/// Panics if between two claims there were more than a full bucket and the tokens of that time.
fn check_rate(times: &[i64]) {
    let per = i64::try_from(PER.as_micros()).unwrap();
    for (at, from) in times.iter().enumerate() {
        for (count, until) in (1_i64..).zip(&times[at..]) {
            let allowed = i64::from(RATE) + (until - from) * i64::from(RATE) / per;
            assert!(
                count <= allowed,
                "{count} jobs were claimed from {from} to {until}"
            );
        }
    }
}
