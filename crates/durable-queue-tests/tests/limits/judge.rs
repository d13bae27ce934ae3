//! Compares the diaries of all processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::worker::{LIMITED, MOST, MOST_OF_GROUP, ORDERED, PER, RATE, RATED};

/// From when to when a process held a job at least, in microseconds.
type Span = (i64, i64);

/// A job that was held, and by what it is limited.
struct Held {
    job: String,
    names: Vec<String>,
    span: Span,
}

#[derive(Default)]
pub(crate) struct Verdict {
    /// By kind or group.
    held: BTreeMap<String, Vec<(Span, String)>>,
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
                let is_ordered = what.starts_with(ORDERED);
                let most = match () {
                    () if what == LIMITED => MOST,
                    () if is_ordered => 1,
                    () => MOST_OF_GROUP,
                };
                let (seen, when) = most_at_once(spans);
                assert!(seen <= most, "{seen} of {what} were held at {when}");
                if is_ordered {
                    check_order(what, spans.clone());
                }
                format!("{} of {what}, up to {seen} at once", spans.len())
            })
            .collect();
        check_rate(&verdict.rated);
        format!("{}; {} of {RATED}", counts.join("; "), verdict.rated.len())
    }

    fn read(&mut self, diary: &str) {
        // The last entry of each held job.
        let mut held: BTreeMap<&str, Held> = BTreeMap::new();
        for line in diary.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [event, id, kind, group, time, until] = words[..] else {
                panic!("a diary contains: {line}");
            };
            let (time, until): Span = (time.parse().unwrap(), until.parse().unwrap());
            let ended = match event {
                "claimed" => {
                    let is_ordered = group.starts_with(ORDERED);
                    let mut names = Vec::new();
                    names.extend((kind == LIMITED && !is_ordered).then(|| kind.to_owned()));
                    names.extend((!group.ends_with('-')).then(|| group.to_owned()));
                    if kind == RATED && !is_ordered {
                        self.rated.push(time);
                    }
                    let (job, span) = (id.to_owned(), (time, until));
                    // An earlier claim of the same job has ended with its lease.
                    held.insert(id, Held { job, names, span })
                }
                "extended" => {
                    // The lease was not lost in the meantime, even if it had expired.
                    held.get_mut(id).unwrap().span.1 = until;
                    None
                }
                _ => held.remove(id).map(|mut ended| {
                    ended.span.1 = ended.span.1.min(until);
                    ended
                }),
            };
            self.end(ended);
        }
        for held in held.into_values() {
            self.end(Some(held));
        }
    }

    fn end(&mut self, held: Option<Held>) {
        let Some(Held { job, names, span }) = held else {
            return;
        };
        for name in names {
            let spans = self.held.entry(name).or_default();
            spans.push((span, job.clone()));
        }
    }
}

/// Returns the greatest number of spans that contain the same moment, and one such moment.
fn most_at_once(spans: &[(Span, String)]) -> (u32, i64) {
    let starts = spans.iter().map(|((from, _), _)| (*from, true));
    let ends = spans.iter().map(|((_, until), _)| (*until, false));
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
/// Panics if a job of an ordered group was held, and then another one, before it had ended.
fn check_order(group: &str, mut spans: Vec<(Span, String)>) {
    spans.sort_unstable();
    let mut jobs: Vec<String> = spans.into_iter().map(|(_, job)| job).collect();
    jobs.dedup();
    let mut seen = BTreeSet::new();
    for job in jobs {
        assert!(seen.insert(job.clone()), "{job} of {group} was overtaken");
    }
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
